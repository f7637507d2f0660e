"""One response as a sentence: a decoder's events, held to the grammar and always finished."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Final

from llmstream.chats.content import Reasoning
from llmstream.chats.message import Message
from llmstream.dialects.base import Decoder, takes_more
from llmstream.errors import IncompleteStream, LLMStreamError, error_from_info
from llmstream.events import Event, Metadata, ReasoningStart, Warning
from llmstream.events.types import merge_metadata
from llmstream.grammar import Guard

__all__ = ["FOREIGN_REASONING", "GuardedDecoder", "MessageVendors", "is_foreign", "with_origin"]


# Whose reasoning it is, as far as the metadata of a message tells.
#
# A wire that takes reasoning without a signature would take another vendor's too, and show it to the
# model as thoughts of its own. What carries metadata of other vendors alone, or stands in a message
# that does, is theirs; so is what carries no vendor's metadata but the mark of where it came from.
# Where nothing tells, nothing is known, and the wire may have it.

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


class GuardedDecoder:
    """Bytes of a body in, a whole sentence out, whatever the bytes.

    marked: unsigned reasoning says by whom it is (`foreign_reasoning`), as a conversation needs it

    done:  finish has been given; nothing more is wanted
    error: what iteration has to raise after finish, or None
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
        """Whether the sentence is finished."""
        return self._guard.finished

    @property
    def errors(self) -> int:
        """How many error events there have been."""
        return len(self._guard.errors)

    @property
    def complete(self) -> bool:
        """Whether the vendor has said that the answer is complete; trailers may follow."""
        return self.decoder.complete

    def start(self) -> list[Event]:
        """The first event."""
        return self._guard.start(self._warnings)

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that a slice of the body completes."""
        decoded = self.decoder.feed(chunk)
        events = self._guard.feed(decoded)
        if self._marked and events is not decoded:  # a batch of deltas alone is the same list
            events = with_origin(events, self._provider)
        if self.decoder.done:
            events = events + self._end(None)
        return events

    def close(self, error: LLMStreamError | None = None) -> list[Event]:
        """The body is over, by its end or by an error; an answer that is complete needs no more."""
        if self.done:
            return []
        events: list[Event] = []
        if error is None or self.decoder.complete:
            events = self._guard.feed(self.decoder.close())
            error = None
        return events + self._end(error)

    def fail(self, error: LLMStreamError) -> list[Event]:
        """Ends the sentence in an error, also where the answer might be complete."""
        return [] if self.done else self._end(error)

    def _end(self, error: LLMStreamError | None) -> list[Event]:
        events: list[Event] = []
        if not self._guard.finished:
            self.error = error or self.decoder.failure or self._incomplete()
            if self.error.provider is None:
                self.error.provider = self._provider
            self.error.usage = self.decoder.usage
            place = self.decoder.unfinished if takes_more(self.decoder) else None
            metadata = merge_metadata(self.error.provider_metadata, place)
            events = self._guard.close(self.decoder.usage, self.error.info, metadata)
        elif self._guard.errors and self.error is None:
            self.error = error_from_info(self._guard.errors[0])
            self.error.usage = self.decoder.usage
        return events

    def _incomplete(self) -> IncompleteStream:
        return IncompleteStream(
            "the stream ended before the vendor said that the answer is complete. "
            "What came is kept in .partial; ask again to get the rest.",
            provider=self._provider,
        )
