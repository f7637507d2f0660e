"""Parts that no wire has a word for: those of kinds that an application has added, and `Custom`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message
from llmstream.chats.role import Role

__all__ = ["without_custom_parts"]

_CONTENT = (Text, Reasoning, Image, Audio, Document, File, ToolCall, ToolResult, Source)
_OF_ANSWERS = (*_CONTENT, Custom)
"""A `Custom` of an answer may be the vendor's own, so its dialect decides about that."""


def without_custom_parts(messages: Iterable[Message], warn: Callable[[str], object]) -> list[Message]:
    """The messages as a wire can say them. One that has nothing else to say is left out.

    warn: is told of each part that is left out
    """
    kept = []
    for message in messages:
        known = _OF_ANSWERS if message.role == Role.ASSISTANT else _CONTENT
        parts = tuple([part for part in message.parts if isinstance(part, known)])
        if len(parts) == len(message.parts):
            kept.append(message)
            continue
        for part in message.parts:
            if not isinstance(part, known):
                warn(_left_out(part))
        if parts:
            kept.append(msgspec.structs.replace(message, parts=parts))
    return kept


def _left_out(part: object) -> str:
    named = f"type {part.type!r}" if isinstance(part, Custom) else f"kind {part_kind(part)!r}"
    return f"a part of {named} was left out: the API has no word for it"
