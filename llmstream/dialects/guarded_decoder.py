"""Holds a decoder's events to the stream grammar, and ends every stream with a finish."""

from __future__ import annotations

from collections.abc import Iterable

from llmstream.dialects.base import Decoder, can_continue
from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.history_parts import with_origin
from llmstream.errors import IncompleteStream, LLMStreamError, error_from_info
from llmstream.events import Event, Warning, merge_metadata
from llmstream.grammar import Guard

__all__ = ["GuardedDecoder"]


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
        events = self._guard.start(self._warnings)
        self._warnings = ()  # the event has them
        return events

    def feed(self, chunk: bytes) -> list[Event]:
        """Decodes a slice of the body; returns the events that it completes."""
        reasonings = self._guard.reasonings
        events = self._guard.feed(self.decoder.feed(chunk))
        if self._marked and self._guard.reasonings != reasonings:
            events = with_origin(events, self._provider)
        # At once, not at the end of the body: a vendor may keep the connection open after the last event.
        if self.decoder.done:
            events = events + self._end(None)
        return events

    def close(self, error: LLMStreamError | None = None) -> list[Event]:
        """Ends the input, with the body's end or an error; an error after a complete response is ignored."""
        if self.done:
            return []
        events: list[Event] = []
        # A broken connection after a complete response took nothing away; only trailers such as the usage are
        # missing.
        if error is None or self.decoder.complete:
            events = self._guard.feed(self.decoder.close())
            error = None
        return events + self._end(error)

    def fail(self, error: LLMStreamError) -> list[Event]:
        """Ends the stream in an error, even if the response may be complete."""
        return [] if self.done else self._end(error)

    def release(self) -> None:
        """Frees the decoder's parts after the last use of it."""
        if isinstance(self.decoder, PayloadDecoder):
            self.decoder.release()

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
