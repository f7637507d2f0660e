"""The data model of conversations: roles, parts, messages, chats.

Each file knows only those before it: `role`, `content`, `message`, `chat`. No provider is known
here, and nothing here opens a socket.
"""

from llmstream.chats.cache import ChatCache
from llmstream.chats.chat import Chat, Reset
from llmstream.chats.content import (
    Audio,
    BasePart,
    Custom,
    Document,
    File,
    Image,
    Metadata,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    UnknownPart,
    decode_part,
    encode_part,
    part_kind,
    register_part,
)
from llmstream.chats.message import Message, Role, is_valid_role
from llmstream.chats.openai_form import from_openai
from llmstream.chats.saved import (
    dump_messages,
    load_messages,
    message_from_json,
    message_to_json,
)

__all__ = [
    "Audio",
    "BasePart",
    "Chat",
    "ChatCache",
    "Custom",
    "Document",
    "File",
    "Image",
    "Message",
    "Metadata",
    "Part",
    "Reasoning",
    "Reset",
    "Role",
    "Source",
    "Text",
    "ToolCall",
    "ToolResult",
    "UnknownPart",
    "decode_part",
    "dump_messages",
    "encode_part",
    "from_openai",
    "is_valid_role",
    "load_messages",
    "message_from_json",
    "message_to_json",
    "part_kind",
    "register_part",
]
