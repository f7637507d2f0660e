"""What of a conversation is kept, and how: always copies, always something a vendor accepts."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from llmstream.chats.content import Reasoning, Text
from llmstream.chats.message import Message

__all__ = ["copied", "kept_of_a_broken_turn"]


def copied(messages: Iterable[Message]) -> list[Message]:
    """Independent copies; parts are frozen, their metadata is not."""
    return [copy.deepcopy(message) for message in messages]


def kept_of_a_broken_turn(partial: Message) -> list[Message]:
    """The text of a turn that broke off, or nothing.

    Calls are left out: without results no vendor takes the history back. Reasoning stays
    only beside text, since a turn of nothing else cannot be sent.
    """
    parts = tuple(p for p in partial.parts if isinstance(p, Text | Reasoning))
    if not any(isinstance(p, Text) for p in parts):
        return []
    return [Message(partial.sender, partial.role, parts, partial.metadata)]
