"""The data model of conversations: roles, parts, messages, chats.

Each file knows only those before it: `role`, `content`, `message`, `chat`. No provider is known
here, and nothing here opens a socket.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from llmstream.chats.chat import Chat, ChatCache, Reset
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
    UIPart,
    UnknownPart,
    decode_part,
    encode_part,
    part_kind,
    register_part,
)
from llmstream.chats.message import Message, Role, is_valid_role
from llmstream.chats.saved import (
    dump_messages,
    load_messages,
    message_from_json,
    message_to_json,
)

if TYPE_CHECKING:
    from llmstream.chats.openai_form import from_openai, to_openai
    from llmstream.chats.ui_form import from_ui, to_ui

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
    "UIPart",
    "UnknownPart",
    "decode_part",
    "dump_messages",
    "encode_part",
    "from_openai",
    "from_ui",
    "is_valid_role",
    "load_messages",
    "message_from_json",
    "message_to_json",
    "part_kind",
    "register_part",
    "to_openai",
    "to_ui",
]


def __getattr__(name: str) -> Any:
    """The forms of others, loaded by those who have such messages."""
    if name not in ("from_openai", "from_ui", "to_openai", "to_ui"):
        raise AttributeError(f"module 'llmstream.chats' has no attribute {name!r}")
    form = importlib.import_module(f"llmstream.chats.{name.partition('_')[2]}_form")
    return getattr(form, name)
