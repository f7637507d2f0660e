"""Whose reasoning it is, as far as the metadata of a message tells.

A wire that takes reasoning without a signature would take another vendor's too, and show it to the
model as thoughts of its own. What carries metadata of other vendors alone, or stands in a message
that does, is theirs. Where nothing tells, nothing is known, and the wire may have it.
"""

from __future__ import annotations

from typing import Any, Final

from llmstream.chats.content import Reasoning
from llmstream.chats.message import Message

__all__ = ["FOREIGN_REASONING", "is_foreign"]

FOREIGN_REASONING: Final = "another vendor's reasoning was left out: the API takes only its own"
"""What a request's warning says of it."""

_OURS: Final = "llmstream"


def is_foreign(part: Reasoning, message: Message, key: str) -> bool:
    """Whether reasoning is known to be of another vendor than the one whose metadata is under `key`."""
    vendors = _vendors(part.metadata)
    if not vendors:
        for other in message.parts:
            vendors |= _vendors(getattr(other, "metadata", None))
        vendors |= _vendors((message.metadata or {}).get(_OURS))
    return bool(vendors) and key not in vendors


def _vendors(metadata: object) -> set[str]:
    """The vendors that have an object of their own in some metadata."""
    if not isinstance(metadata, dict):
        return set()
    told: dict[str, Any] = metadata
    return {name for name, value in told.items() if isinstance(value, dict) and name != _OURS}
