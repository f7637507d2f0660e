"""llmstream's own writers: events as Server-Sent Events, and plain text."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from llmstream.errors import ErrorInfo, IncompleteStream, error_from_info
from llmstream.events import ErrorEvent, Event, Finish, RetryNotice, StepStart, TextDelta, encode
from llmstream.exchange import HttpResponse
from llmstream.first_use import prepared

__all__ = ["END", "PING", "UNBUFFERED", "SSEWriter", "TextWriter", "Writer", "safe_error", "safe_event"]

UNBUFFERED: Final = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
"""Headers for proxies, which otherwise buffer or compress the response; the second is nginx's."""

# A comment of SSE (WHATWG HTML, 9.2.6). LF only: the parser of AG-UI 1.0 breaks on CRLF.
PING: Final = b": ping\n\n"

# The frame that tells a client that a response is complete.
END: Final = b"event: end\ndata: {}\n\n"


class Writer(Protocol):
    """Turns the events of a response into the bytes of its body.

    content_type: of the response
    headers:      further headers of the response
    heartbeat:    bytes that clients ignore, written while the stream is idle; b"" if the format has none
    """

    @property
    def content_type(self) -> str:
        """The header's value."""
        ...

    @property
    def headers(self) -> dict[str, str]:
        """By name, in lower case."""
        ...

    @property
    def heartbeat(self) -> bytes:
        """One of them."""
        ...

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of one event; b"" if they are written later or the format cannot express it."""
        ...

    def close(self) -> bytes:
        """Returns the bytes that end the body."""
        ...

    def refuse(self, error: ErrorInfo) -> tuple[str, bytes] | HttpResponse | None:
        """Returns content type and body of a response that failed before its first byte; or all of it.

        None sends the written events with the status 200: the format has an end that is no failure.
        """
        ...


class SSEWriter:
    """Writes each event as a frame of SSE, `id: 0` and `data: {...}`; the last frame is `event: end`.

    `EventSource` in a browser reads it. A client that reads frames with `ls.events.decode` gets the events.

    first_id: id of the first frame, if a response continues an interrupted one
    details:  True writes complete errors; by default a client gets code and `public_message`, because
              messages contain hosts
    """

    content_type = "text/event-stream"
    heartbeat = PING

    def __init__(self, *, first_id: int = 0, details: bool = False) -> None:
        self._id = first_id
        self._details = details

    @property
    def headers(self) -> dict[str, str]:
        """Headers that keep proxies from collecting or compressing the frames."""
        return dict(UNBUFFERED)

    def feed(self, event: Event) -> bytes:
        """Returns one frame."""
        if isinstance(event, ErrorEvent) and not self._details:
            event = msgspec.structs.replace(event, error=safe_error(event.error))
        number = self._id
        self._id += 1
        return b"id: %d\ndata: %s\n\n" % (number, encode(event))

    def close(self) -> bytes:
        """Returns the frame that marks the response as complete."""
        return END

    def refuse(self, error: ErrorInfo) -> tuple[str, bytes]:
        """Returns the error as JSON, under `error`."""
        shown = error if self._details else safe_error(error)
        return "application/json", msgspec.json.encode({"error": shown})


class TextWriter:
    """Writes the text alone, as UTF-8: for `curl` and scripts.

    A failure after the first byte raises, which cuts the connection: plain text has no form for errors, and a
    clean end would make an incomplete response look complete.
    """

    content_type = "text/plain; charset=utf-8"
    heartbeat = b""

    def __init__(self) -> None:
        self.failed: ErrorInfo | None = None
        self._sent = False  # whether the step has text

    @property
    def headers(self) -> dict[str, str]:
        """Headers that keep proxies from collecting the text."""
        return dict(UNBUFFERED)

    def feed(self, event: Event) -> bytes:
        """Returns the text of a text delta.

        raises: IncompleteStream if a step is retried after its text was sent
        """
        match event:
            case TextDelta(delta):
                self._sent = True
                # A model's text may have a lone surrogate, which UTF-8 cannot express.
                return delta.encode("utf-8", "replace")
            case ErrorEvent(error):
                self.failed = error
            case Finish(reason) if reason != "error":
                self.failed = None
            case StepStart():
                self._sent = False
            case RetryNotice() if self._sent:
                raise IncompleteStream(
                    "the step is requested again, but text that was sent cannot be withdrawn"
                )
            case _:
                pass
        return b""

    def close(self) -> bytes:
        """Returns nothing.

        raises: LLMStreamError if the response failed
        """
        if self.failed is not None:
            raise error_from_info(self.failed)
        return b""

    def refuse(self, error: ErrorInfo) -> tuple[str, bytes]:
        """Returns the error's public message."""
        return self.content_type, error.public_message.encode()


def safe_error(error: ErrorInfo) -> ErrorInfo:
    """Returns an error without details for the operator: addresses, the vendor's message and ids."""
    return ErrorInfo(
        error.code, error.public_message, retryable=error.retryable, retry_after_s=error.retry_after_s
    )


def safe_event(data: bytes) -> bytes:
    """Returns an encoded event; an `error` is reduced to its public part.

    data: as `events.encode` returns it. Other events are not decoded
    """
    # A JSON string cannot contain this text: its quotes are escaped.
    if b'"type":"error"' not in data:
        return data
    found = msgspec.json.decode(data, type=prepared(_EncodedError))
    if found.type != "error" or found.error is None:
        return data  # such as a result of a tool that is an object
    return encode(ErrorEvent(safe_error(found.error)))


class _EncodedError(msgspec.Struct):
    type: str
    error: ErrorInfo | None = None
