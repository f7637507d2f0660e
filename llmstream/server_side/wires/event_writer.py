"""Writes the events of one response: as the bytes of a streamed body, or assembled as a complete response.

`EventWriter` has the logic that the wires share: when the response begins and ends, which blocks are open,
which calls have streamed, and how errors are written. The `Shapes` of a wire return the bytes for each event.

For a complete response, each dialect writes a stream and assembles its own frames, as the vendors' SDKs do,
so that both kinds of response have the same content.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

import msgspec

from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
    Event,
    File,
    Finish,
    FinishReason,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ReasoningStart,
    ResponseMetadata,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.framing.sse import SSEDecoder

__all__ = [
    "DONE",
    "MODEL_FAILED",
    "Block",
    "Delta",
    "End",
    "EventWriter",
    "GrowingTexts",
    "Part",
    "Shapes",
    "Start",
    "json_input",
    "raw_reason",
    "sse_data",
    "sse_event",
    "sse_objects",
]

Start: TypeAlias = TextStart | ReasoningStart | ToolInputStart
Delta: TypeAlias = TextDelta | ReasoningDelta | ToolInputDelta
End: TypeAlias = TextEnd | ReasoningEnd | ToolInputEnd
Part: TypeAlias = Source | File | ReasoningFile | Custom

# Of the block that an event belongs to. Parts are written into the latest open block of their family.
_FAMILY: Final[dict[type[Event], str]] = {
    **dict.fromkeys((TextStart, TextDelta, TextEnd, Source, File, Custom), "text"),
    **dict.fromkeys((ReasoningStart, ReasoningDelta, ReasoningEnd, ReasoningFile), "reasoning"),
    **dict.fromkeys((ToolInputStart, ToolInputDelta, ToolInputEnd), "tool-input"),
}

# An event stream may finish in an error without an `error` event, and most wires need a message.
MODEL_FAILED: Final = ErrorInfo("server-error", "The model failed.", retryable=True)

# OpenAI's end mark, which other vendors have adopted.
DONE: Final = b"data: [DONE]\n\n"


@dataclasses.dataclass(slots=True)
class Block:
    """An open block. A wire that needs more fields has a subclass.

    index: on the wire
    """

    index: int = 0


B = TypeVar("B", bound=Block)


class Shapes(Generic[B]):
    """The output of one wire. A method returns b"" for content that the wire cannot express.

    key:       of this dialect's metadata
    begins_at: events at which the response begins, whatever their bytes. It also begins with the first bytes
               that are not an error, and before its end
    end_mark:  written after a response that is complete
    """

    key: ClassVar[str]
    begins_at: ClassVar[tuple[type[Event], ...]] = (ResponseMetadata,)
    end_mark: ClassVar[bytes] = b""

    def named(self, event: ResponseMetadata) -> bytes:
        """Stores id, model and time. Called before the response begins, since clients read them once."""
        return b""

    def begin(self) -> bytes:
        """Begins the response. Called once, before its first bytes."""
        return b""

    def start(self, event: Start) -> tuple[B, bytes] | None:
        """Opens a block; None if the wire has no such block, and its deltas and end are not written."""
        return None

    def delta(self, block: B, event: Delta) -> bytes:
        """Extends a block."""
        return b""

    def end(self, block: B, event: End) -> bytes:
        """Closes a block."""
        return b""

    def call(self, event: ToolCall) -> bytes | None:
        """Writes a call in one piece; None if its input streams in a block."""
        return None

    def result(self, event: ToolResult) -> bytes:
        """Writes the result of a tool that the vendor ran."""
        return b""

    def part(self, event: Part, block: B | None) -> bytes:
        """Writes a source, a file or a vendor's own part; block: the latest open one that may hold it."""
        return b""

    def finish(self, event: Finish, error: ErrorInfo | None) -> bytes | None:
        """Ends the response; None if the wire has an error instead of the end.

        error: the latest `error` event
        """
        return b""

    def ends_at(self, error: ErrorInfo) -> bool:
        """Whether the vendor ends the body at an error, before any finish."""
        return False

    def error(self, error: ErrorInfo) -> bytes:
        """Writes an error that ends the body."""
        return b""

    def own(self, metadata: Metadata | None) -> dict[str, Any]:
        """Returns this dialect's metadata of an event."""
        return (metadata or {}).get(self.key) or {}


class EventWriter(Generic[B]):
    """Writes one response in the shapes of a wire; see `server_side.wires.EventEncoder`."""

    def __init__(self, shapes: Shapes[B]) -> None:
        self._shapes = shapes
        self._open: dict[str, dict[str, B]] = {"text": {}, "reasoning": {}, "tool-input": {}}
        self._streamed: set[str] = set()
        self._error: ErrorInfo | None = None
        self._begun = self._complete = self._failed = False

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of one event; b"" after the end or an error that ended the body."""
        if self._complete or self._failed:
            return b""
        # First, because this stores the `ResponseMetadata` that the beginning needs.
        data = self._write(event)
        if self._begun or not self._begins(event, data):
            return data
        self._begun = True
        return self._shapes.begin() + data

    def close(self) -> bytes:
        """Returns the end mark of a complete response, or an error that no finish followed."""
        if self._complete:
            return self._shapes.end_mark
        return b"" if self._error is None or self._failed else self._fail(self._error)

    def _begins(self, event: Event, data: bytes) -> bool:
        is_written = self._complete or (bool(data) and not self._failed)
        return is_written or isinstance(event, self._shapes.begins_at)

    def _write(self, event: Event) -> bytes:
        shapes = self._shapes
        match event:
            case TextDelta() | ReasoningDelta() | ToolInputDelta():
                # A block that the wire cannot express was never opened, and its deltas are left out with it.
                block = self._open[_FAMILY[type(event)]].get(event.id)
                return b"" if block is None else shapes.delta(block, event)
            case TextStart() | ReasoningStart() | ToolInputStart():
                return self._start(event)
            case TextEnd() | ReasoningEnd() | ToolInputEnd():
                return self._end(event)
            case ToolCall():
                return self._call(event)
            case ToolResult():
                # Other results are part of the client's next request.
                is_of_vendor = event.provider_executed and not event.preliminary
                return shapes.result(event) if is_of_vendor else b""
            case Source() | File() | ReasoningFile() | Custom():
                blocks = self._open[_FAMILY[type(event)]]
                return shapes.part(event, next(reversed(blocks.values()), None))
            case ResponseMetadata():
                # Clients read id and model from the first event; a later one would not reach them.
                return b"" if self._begun else shapes.named(event)
            case ErrorEvent(error):
                self._error = error
                return self._fail(error) if shapes.ends_at(error) else b""
            case Finish():
                return self._finish(event)
        return b""

    def _start(self, event: Start) -> bytes:
        opened = self._shapes.start(event)
        if opened is None:
            return b""
        if isinstance(event, ToolInputStart):
            self._streamed.add(event.id)
        block, data = opened
        self._open[_FAMILY[type(event)]][event.id] = block
        return data

    def _end(self, event: End) -> bytes:
        block = self._open[_FAMILY[type(event)]].pop(event.id, None)
        # An interrupted stream of the vendor does not end its blocks.
        return b"" if block is None or event.incomplete else self._shapes.end(block, event)

    def _call(self, event: ToolCall) -> bytes:
        data = self._shapes.call(event)
        if data is not None or event.tool_call_id in self._streamed:
            return data or b""
        # No event has streamed its input, so it is streamed here in one piece.
        call_id = event.tool_call_id
        start = ToolInputStart(
            event.tool_name,
            call_id,
            provider_executed=event.provider_executed,
            dynamic=event.dynamic,
            provider_metadata=event.provider_metadata,
        )
        pieces: tuple[Event, ...] = start, ToolInputDelta(event.input, call_id), ToolInputEnd(call_id)
        return b"".join(map(self._write, pieces))

    def _finish(self, event: Finish) -> bytes:
        data = self._shapes.finish(event, self._error)
        if data is None:
            return self._fail(self._error or MODEL_FAILED)
        self._complete = True
        return data

    def _fail(self, error: ErrorInfo) -> bytes:
        self._failed = True
        return self._shapes.error(error)


def raw_reason(
    event: Finish, read: Callable[[str], FinishReason | None], names: Mapping[FinishReason, str]
) -> str | None:
    """Returns the vendor's finish reason: the original if it still applies; None if `names` has none.

    A response with calls finishes in "tool-calls" although its vendor may report another reason.

    read: the reason that a name means; None for an unknown one
    """
    reason, raw = event.finish_reason, event.raw_finish_reason
    if raw:
        meant = read(raw)
        # Vendors such as Google and Ollama report "stop" after calls.
        if reason == (meant or "other") or (reason == "tool-calls" and meant in ("stop", "other")):
            return raw
    return names.get(reason)


def sse_data(value: object) -> bytes:
    """Encodes a value as the data of a server-sent event."""
    return b"data: %b\n\n" % msgspec.json.encode(value)


def sse_event(kind: str, value: object) -> bytes:
    """Encodes a value as a server-sent event with a name."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(value))


_decode: Final = msgspec.json.Decoder().decode


def sse_objects(body: bytes) -> Iterator[dict[str, Any]]:
    """Yields the JSON objects of a stream of server-sent events, without `[DONE]`."""
    # Our own bytes: no event is longer than the body.
    for payload in SSEDecoder(max_bytes=max(1, len(body))).feed_data(body):
        if payload.startswith(b"{"):
            yield _decode(payload)


def json_input(text: str) -> Any:
    """Decodes the input of a call.

    Text that is not a JSON object is wrapped, as Anthropic advises for input that does not parse.
    """
    try:
        value = _decode(text or "{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": text}


class GrowingTexts:
    """Appends fragments to strings in dicts. They are joined once, so that appending is linear."""

    def __init__(self) -> None:
        self._grown: dict[tuple[int, str], tuple[dict[str, Any], list[str]]] = {}

    def add(self, owner: dict[str, Any], name: str, fragment: str) -> None:
        """Appends to `owner[name]`, which has the joined text only after `join`."""
        # The entry holds a reference to the owner, so its id stays unique.
        entry = self._grown.get((id(owner), name))
        if entry is None:
            before = owner.get(name)
            owner[name] = ""
            self._grown[id(owner), name] = owner, [before if isinstance(before, str) else "", fragment]
        else:
            entry[1].append(fragment)

    def join(self) -> None:
        """Writes the joined texts into their dicts."""
        for (_, name), (owner, fragments) in self._grown.items():
            owner[name] = "".join(fragments)
        self._grown.clear()
