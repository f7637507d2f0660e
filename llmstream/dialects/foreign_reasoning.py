"""Whose reasoning it is, as far as the metadata of a message tells.

A wire that takes reasoning without a signature would take another vendor's too, and show it to the
model as thoughts of its own. What carries metadata of other vendors alone, or stands in a message
that does, is theirs; so is what carries no vendor's metadata but the mark of where it came from.
Where nothing tells, nothing is known, and the wire may have it.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from llmstream.chats.content import Reasoning
from llmstream.chats.message import Message
from llmstream.events import Event, Metadata, ReasoningStart

__all__ = ["FOREIGN_REASONING", "MessageVendors", "is_foreign", "with_origin"]

FOREIGN_REASONING: Final = "another vendor's reasoning was left out: the API takes only its own"
"""What a request's warning says of it."""

_OURS: Final = "llmstream"
_ORIGIN: Final = "origin"


def with_origin(events: list[Event], provider: str) -> list[Event]:
    """The same events; reasoning that its vendor does not mark opens with the provider's name.

    The mark is `{"llmstream": {"origin": PROVIDER}}`; like all metadata it becomes the part's, and
    is saved with it.
    """
    return [
        ReasoningStart(event.id, _mark(provider))
        if type(event) is ReasoningStart and event.provider_metadata is None
        else event
        for event in events
    ]


class MessageVendors:
    """The vendors that the metadata of a message names; its parts are looked through once."""

    def __init__(self, message: Message) -> None:
        self._message = message

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """By whose key the message or a part of it has metadata."""
        named = [_vendors(getattr(part, "metadata", None)) for part in self._message.parts]
        return frozenset().union(*named, _vendors((self._message.metadata or {}).get(_OURS)))


def is_foreign(part: Reasoning, message: MessageVendors, key: str, provider: str = "") -> bool:
    """Whether reasoning is known to be of another vendor than the one who is asked.

    message:  the one that it stands in
    key:      under which the vendor's metadata stands
    provider: by which name it is asked, where that is not the key
    """
    vendors: set[str] | frozenset[str] = _vendors(part.metadata)
    origin = _origin(part.metadata)
    if not vendors and origin is not None:
        return origin not in (key, provider)
    if not vendors:
        vendors = message.names
    return bool(vendors) and key not in vendors


def _mark(provider: str) -> Metadata:
    return {_OURS: {_ORIGIN: provider}}


def _origin(metadata: object) -> str | None:
    """The provider from which reasoning came, where that is marked."""
    ours = metadata.get(_OURS) if isinstance(metadata, dict) else None
    origin = ours.get(_ORIGIN) if isinstance(ours, dict) else None
    return origin if isinstance(origin, str) else None


def _vendors(metadata: object) -> set[str]:
    """The vendors that have an object of their own in some metadata."""
    if not isinstance(metadata, dict):
        return set()
    told: dict[str, Any] = metadata
    return {name for name, value in told.items() if isinstance(value, dict) and name != _OURS}
