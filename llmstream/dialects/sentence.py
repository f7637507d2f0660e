"""One response as a sentence: a decoder's events, held to the grammar and always finished."""

from __future__ import annotations

from collections.abc import Iterable

from llmstream.dialects.base import Decoder, takes_more
from llmstream.dialects.foreign_reasoning import with_origin
from llmstream.errors import IncompleteStream, LLMStreamError, error_from_info
from llmstream.events import Event, Warning
from llmstream.events.base import merge_metadata
from llmstream.grammar import Guard

__all__ = ["GuardedDecoder"]


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
