"""Traces: what a call sent and received, and when, as lines of JSON.

    {"type":"trace","format":"llmstream.trace","version":1,"at":1790000000.0,"ns":0,"program":"app.py","pid":7}
    {"type":"call","call":"9f…","ns":12,"provider":"openai","model":"gpt-5-mini","dialect":"openai-chat",…}
    {"type":"request","call":"9f…","ns":13,"attempt":1,"method":"POST","url":"https://…","body":"{…}"}
    {"type":"head","call":"9f…","ns":20,"offset":0,"status":200,"headers":{…}}
    {"type":"read","call":"9f…","ns":21,"waited_ns":5,"offset":0,"size":240}
    {"type":"frame","call":"9f…","offset":0,"size":120,"text":"data: {…}\\n\\n"}
    {"type":"events","call":"9f…","ns":22,"events":[[0,{"type":"text-delta",…}],…]}
    {"type":"end","call":"9f…","ns":90,"state":"complete",…}

`ns` is the monotonic clock of the process that wrote the file; the first line relates it to Unix time.
`offset` counts the bytes of all response bodies of a call, one after the other. The bytes are in the frames
and not in the reads, because a secret may be cut by a read, but is complete in its frame. Lines of several
calls are mixed. A line of a type that is not known is passed over.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Annotated, Final, TypeAlias

import msgspec

from llmstream.errors import ErrorInfo
from llmstream.first_use import prepared
from llmstream.usage import Usage

__all__ = [
    "FORMAT",
    "AttemptEnded",
    "CallBegan",
    "CallEnded",
    "EventsSeen",
    "Frame",
    "Head",
    "Line",
    "Read",
    "RequestSent",
    "TraceBegan",
    "decode_line",
    "encode_line",
    "frame_of",
    "lines_of",
]

FORMAT: Final = "llmstream.trace"
_VERSION: Final = 1


class TraceBegan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="trace"):
    """The first line of a file, and of each process that continues it.

    at, ns: the same moment as seconds since 1970 and on the monotonic clock
    """

    format: str
    version: int
    at: float
    ns: int
    program: str = ""
    pid: int = 0


class CallBegan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="call"):
    """A model was called.

    content_type: of the frames, as the dialect's documentation names it
    request:      the vendor-neutral request, as JSON
    """

    call: str
    ns: int
    provider: str
    model: str
    dialect: str = ""
    content_type: str = ""
    request: msgspec.Raw = msgspec.Raw(b"{}")


class RequestSent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="request"):
    """A request was made ready to be sent; a limiter may hold it until its turn.

    headers:  credentials masked
    warnings: what the request left out or changed
    """

    call: str
    ns: int
    attempt: int
    method: str
    url: str
    headers: dict[str, str] = {}
    body: str = ""
    warnings: list[str] = []


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="head"):
    """The head of a response arrived. offset: of the first byte of its body."""

    call: str
    ns: int
    offset: int
    status: int
    headers: dict[str, str] = {}


class Read(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="read"):
    """A read of the socket returned.

    waited_ns: for how long it had waited for bytes
    size:      0 at the end of the body
    """

    call: str
    ns: int
    waited_ns: int
    offset: int
    size: int


class Frame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="frame"):
    """A frame of the wire: one SSE event, NDJSON line or AWS message.

    text, base64: its bytes, as base64 if they are not UTF-8
    complete:     False for the rest of a body that ended within a frame
    """

    call: str
    offset: int
    size: int
    text: str = ""
    base64: str = ""
    complete: bool = True

    @property
    def data(self) -> bytes:
        """Its bytes."""
        return base64.b64decode(self.base64) if self.base64 else self.text.encode()


class EventsSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="events"):
    """The reader got a batch of events.

    events: pairs of the offset of the frame that made it, -1 for none, and the event
    """

    call: str
    ns: int
    events: list[tuple[int, msgspec.Raw]]


class AttemptEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="attempt-failed"):
    """An attempt failed. wait_s: until the next one; None if there is none."""

    call: str
    ns: int
    attempt: int
    error_code: str
    status: int | None = None
    wait_s: float | None = None


class CallEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="end"):
    """The call ended; the last line of a call.

    left: the reader closed it before the end
    """

    call: str
    ns: int
    left: bool = False
    error: ErrorInfo | None = None
    usage: Usage = Usage()
    cost: float | None = None


Line: TypeAlias = (
    TraceBegan | CallBegan | RequestSent | Head | Read | Frame | EventsSeen | AttemptEnded | CallEnded
)

_decode: Final[Callable[[bytes], Line]] = msgspec.json.Decoder(Line).decode
_encode: Final = msgspec.json.Encoder().encode


class _Tagged(msgspec.Struct):
    type: Annotated[str, msgspec.Meta(min_length=1)]


def encode_line(line: Line) -> bytes:
    """The line with its line end."""
    return _encode(line) + b"\n"


def decode_line(data: bytes) -> Line | None:
    """Reads a line; None for one of a later version's type.

    raises: ValueError, as msgspec's errors are, if it is no line of a trace
    """
    try:
        line = _decode(data)
    except msgspec.ValidationError:
        if msgspec.json.decode(data, type=prepared(_Tagged)).type in _TYPES:
            raise
        return None
    # Of a later version, or something else.
    if isinstance(line, TraceBegan) and (line.format != FORMAT or line.version != _VERSION):
        raise ValueError(f"format {line.format!r}, version {line.version}; known: {FORMAT!r}, {_VERSION}")
    return line


_TYPES: Final = frozenset(
    ["trace", "call", "request", "head", "read", "frame", "events", "attempt-failed", "end"]
)


def lines_of(data: bytes) -> Iterator[Line]:
    """The lines of complete lines of text.

    raises: ValueError
    """
    for text in data.split(b"\n"):
        if text and (line := decode_line(text)) is not None:
            yield line


def frame_of(call: str, offset: int, data: bytes, size: int | None = None, *, complete: bool = True) -> Frame:
    """A frame; `size` where secrets of its bytes were replaced by something longer or shorter."""
    length = len(data) if size is None else size
    try:
        return Frame(call=call, offset=offset, size=length, text=data.decode(), complete=complete)
    except UnicodeDecodeError:
        coded = base64.b64encode(data).decode()
        return Frame(call=call, offset=offset, size=length, base64=coded, complete=complete)
