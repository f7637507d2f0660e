"""The AI SDK's UI message stream: what `useChat` of npm `ai` 5, 6 and 7 sends and reads. No I/O.

source: https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol, and the packages themselves (5.0.115 to 7.0.173),
        read 2026-11
"""

from llmstream.ui.page_run import PageRun
from llmstream.ui.vercel.chats import Chats
from llmstream.ui.vercel.conversations import (
    Conversation,
    Conversations,
    Decided,
    MemoryConversations,
    SQLiteConversations,
)
from llmstream.ui.vercel.history import dump
from llmstream.ui.vercel.reading import History, Limits, PageRequest, Trigger, continues, read
from llmstream.ui.vercel.writer import Version, Writer

__all__ = [
    "Chats",
    "Conversation",
    "Conversations",
    "Decided",
    "History",
    "Limits",
    "MemoryConversations",
    "PageRequest",
    "PageRun",
    "SQLiteConversations",
    "Trigger",
    "Version",
    "Writer",
    "continues",
    "dump",
    "read",
]
