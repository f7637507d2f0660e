"""Encodes a response's events: its bytes, its status, and its end. No I/O."""

from __future__ import annotations

from typing import Final, TypeAlias

from llmstream.errors import ErrorInfo
from llmstream.events import (
    DELTAS,
    NO_CONTENT,
    ErrorEvent,
    Event,
    Finish,
    Raw,
    ReasoningEnd,
    ReasoningStart,
    RetryNotice,
    StepStart,
    StreamStart,
    TextEnd,
    TextStart,
    ToolInputEnd,
    ToolInputStart,
)
from llmstream.exchange import HttpResponse
from llmstream.serve.writers import Writer

__all__ = ["Encoding", "failure_headers", "status_of"]

# Maps a failure to the HTTP status that a server of ours responds with.


# By error code; every other failure is the vendor's or the network's, so 502.
_STATUS: Final = {
    "invalid-request": 400,
    "context-too-long": 413,
    "content-filtered": 422,
    "rate-limited": 429,
    # The client may retry: the vendor is busy, not broken.
    "overloaded": 503,
    "deadline-exceeded": 504,
    "tool-timeout": 504,
    # The server's own errors: a missing or refused key, an unknown model, an unsupported option.
    "missing-key": 500,
    "authentication": 500,
    "permission-denied": 500,
    "not-found": 500,
    "unsupported": 500,
    "caller-error": 500,
}


def status_of(error: ErrorInfo) -> int:
    """Returns the HTTP status for a failure before the first byte of a response."""
    return _STATUS.get(error.code, 502)


def failure_headers(error: ErrorInfo) -> dict[str, str]:
    """Returns `retry-after`, rounded up to seconds, if the vendor specified a wait."""
    if error.retry_after_s is None:
        return {}
    # Rounded up: a client that retries slightly early is refused again.
    return {"retry-after": str(max(1, -int(-error.retry_after_s // 1)))}


# Events that do not determine the status. Of an agent, a refused request also yields a step and its retries;
# `raw` counts as content, because a client may read it.
_NO_CONTENT: Final = (NO_CONTENT | {StepStart, RetryNotice}) - {Raw}

_End: TypeAlias = TextEnd | ReasoningEnd | ToolInputEnd
_ENDS: Final[dict[type, type[_End]]] = {
    TextStart: TextEnd,
    ReasoningStart: ReasoningEnd,
    ToolInputStart: ToolInputEnd,
}


class Encoding:
    """A writer, and the state of its events in the stream grammar.

    error:       of the response so far; None if a retry or a successful finish followed
    finished:    whether there was a finish
    has_content: whether there was content, so that the status is 200
    """

    def __init__(self, writer: Writer) -> None:
        self.error: ErrorInfo | None = None
        self.finished = self.has_content = False
        self._writer = writer
        self._begun = False
        self._open: dict[str, type[_End]] = {}

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of an event."""
        written = self._writer.feed(event)
        # After the writer: its exception at a finish must not be swallowed like that of a stream after its
        # finish.
        if type(event) not in DELTAS or not self.has_content:
            self._note(event)
        return written

    def _note(self, event: Event) -> None:
        kind = type(event)
        self._begun = True
        if isinstance(event, ErrorEvent):
            self.error = event.error
        elif isinstance(event, RetryNotice):
            self.error = None
        elif isinstance(event, Finish):
            self.finished = True
            if event.finish_reason != "error":
                self.error = None
        elif isinstance(event, TextStart | ReasoningStart | ToolInputStart):
            self._open[event.id] = _ENDS[kind]
        elif isinstance(event, TextEnd | ReasoningEnd | ToolInputEnd):
            self._open.pop(event.id, None)
        if kind not in _NO_CONTENT:
            self.has_content = True

    def fail(self, error: ErrorInfo) -> bytes:
        """Ends the events of a source that raised without a finish, such as an application's generator."""
        events: list[Event] = [] if self._begun else [StreamStart()]
        events += [end(block_id, incomplete=True) for block_id, end in self._open.items()]
        events += [ErrorEvent(error), Finish("error")]
        return b"".join([self.feed(event) for event in events])

    def close(self) -> bytes:
        """Returns the bytes that end the body."""
        return self._writer.close()

    def refusal(self, error: ErrorInfo) -> HttpResponse | None:
        """Returns the response if nothing was sent yet: an HTTP error; None if the written events remain."""
        refused = self._writer.refuse(error)
        if refused is None or isinstance(refused, HttpResponse):
            return refused
        content_type, body = refused
        headers = {"content-type": content_type, "cache-control": "no-store", **failure_headers(error)}
        return HttpResponse(status_of(error), body, headers)
