"""Holds a decoder's events to the stream grammar, and ends every stream with a finish."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Final

from llmstream.chats.content import Reasoning
from llmstream.chats.message import Message
from llmstream.dialects.base import Decoder, can_continue
from llmstream.errors import IncompleteStream, LLMStreamError, error_from_info
from llmstream.events import Event, Metadata, ReasoningStart, Warning
from llmstream.events.types import merge_metadata
from llmstream.grammar import Guard

__all__ = ["FOREIGN_REASONING", "GuardedDecoder", "MessageVendors", "is_foreign", "with_origin"]


# The vendor of reasoning, derived from the metadata of its message.
#
# An API that accepts unsigned reasoning would also accept another vendor's, and present it to the model
# as its own. Reasoning is foreign if its metadata, or that of its message, names other vendors only, or
# if the origin mark does. Reasoning of unknown origin is sent.

FOREIGN_REASONING: Final = "another vendor's reasoning was left out: the API takes only its own"

_OURS: Final = "llmstream"
_ORIGIN: Final = "origin"


def with_origin(events: list[Event], provider: str) -> list[Event]:
    """Returns the events; reasoning without metadata of its vendor starts with the provider's name.

    The mark is `{"llmstream": {"origin": PROVIDER}}`. Like all metadata it is saved with the part.
    """
    return [
        ReasoningStart(event.id, _mark(provider))
        if type(event) is ReasoningStart and event.provider_metadata is None
        else event
        for event in events
    ]


class MessageVendors:
    """The vendors that the metadata of a message names, computed once."""

    def __init__(self, message: Message) -> None:
        self._message = message

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Keys of the metadata of the message and its parts."""
        named = [_vendors(getattr(part, "metadata", None)) for part in self._message.parts]
        return frozenset().union(*named, _vendors((self._message.metadata or {}).get(_OURS)))


def is_foreign(part: Reasoning, message: MessageVendors, key: str, provider: str = "") -> bool:
    """Whether reasoning is known to come from another vendor than the one of the request.

    message:  the message with the reasoning
    key:      of the vendor's metadata
    provider: name of the request's provider, if it differs from the key
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
    ours = metadata.get(_OURS) if isinstance(metadata, dict) else None
    origin = ours.get(_ORIGIN) if isinstance(ours, dict) else None
    return origin if isinstance(origin, str) else None


def _vendors(metadata: object) -> set[str]:
    if not isinstance(metadata, dict):
        return set()
    own: dict[str, Any] = metadata
    return {name for name, value in own.items() if isinstance(value, dict) and name != _OURS}


class GuardedDecoder:
    """Decodes a body to a stream that the grammar accepts, whatever the bytes.

    marked: unsigned reasoning names its provider, see `with_origin`

    done:  finish was emitted; the rest of the body is not needed
    error: raised by iteration after finish, or None
    """

    def __init__(
        self, decoder: Decoder, *, provider: str, warnings: Iterable[Warning] = (), marked: bool = False
    ) -> None:
        self.decoder = decoder
        self.error: LLMStreamError | None = None
        self._provider = provider
        self._warnings = warnings
        self._marked = marked
        self._guard = Guard()

    @property
    def done(self) -> bool:
        """Whether finish was emitted."""
        return self._guard.finished

    @property
    def errors(self) -> int:
        """Number of error events so far."""
        return len(self._guard.errors)

    @property
    def complete(self) -> bool:
        """Whether the vendor has reported the response as complete; trailers may follow."""
        return self.decoder.complete

    def start(self) -> list[Event]:
        """Returns the first event."""
        return self._guard.start(self._warnings)

    def feed(self, chunk: bytes) -> list[Event]:
        """Decodes a slice of the body; returns the events that it completes."""
        decoded = self.decoder.feed(chunk)
        events = self._guard.feed(decoded)
        # A batch of deltas alone is the same list.
        if self._marked and events is not decoded:
            events = with_origin(events, self._provider)
        if self.decoder.done:
            events = events + self._end(None)
        return events

    def close(self, error: LLMStreamError | None = None) -> list[Event]:
        """Ends the input, with the body's end or an error; an error after a complete response is ignored."""
        if self.done:
            return []
        events: list[Event] = []
        if error is None or self.decoder.complete:
            events = self._guard.feed(self.decoder.close())
            error = None
        return events + self._end(error)

    def fail(self, error: LLMStreamError) -> list[Event]:
        """Ends the stream in an error, even if the response may be complete."""
        return [] if self.done else self._end(error)

    def _end(self, error: LLMStreamError | None) -> list[Event]:
        events: list[Event] = []
        if not self._guard.finished:
            self.error = error or self.decoder.failure or self._incomplete()
            if self.error.provider is None:
                self.error.provider = self._provider
            self.error.usage = self.decoder.usage
            # The caller may continue the response from there.
            place = self.decoder.unfinished if can_continue(self.decoder) else None
            metadata = merge_metadata(self.error.provider_metadata, place)
            events = self._guard.close(self.decoder.usage, self.error.info, metadata)
        elif self._guard.errors and self.error is None:
            self.error = error_from_info(self._guard.errors[0])
            self.error.usage = self.decoder.usage
        return events

    def _incomplete(self) -> IncompleteStream:
        return IncompleteStream(
            "the stream ended before the vendor reported the response as complete. "
            "What arrived is in .partial; send the request again to get the rest.",
            provider=self._provider,
        )
