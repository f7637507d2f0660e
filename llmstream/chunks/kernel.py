"""OpenAI-like streaming chunks: faithful fragments of text and tool calls, nothing accumulated.

`streaming_chunks` views events as such chunks; `MockModel` streams given ones, for tests of programs that
read chunks.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from llmstream import events as ev
from llmstream.dialects.errors import error_from_value
from llmstream.errors import DecodeError, ErrorInfo
from llmstream.first_use import prepared

__all__ = [
    "Choice",
    "Delta",
    "MockModel",
    "StreamingChunk",
    "ToolCall",
    "streaming_chunks",
]

_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)

T = TypeVar("T")


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call, or a fragment of one. arguments is raw JSON text.

    index: which call of the response a fragment belongs to, where the wire has it
    """

    id: str = ""
    name: str = ""
    arguments: str = ""
    type: str = ""
    index: int | None = None

    @classmethod
    def decode(cls, data: bytes | str) -> ToolCall:
        """A call out of JSON; `{}` is an empty call.

        raises: DecodeError where it is no JSON object or a field has the wrong type
        """
        return cls.of(_object(data, "a tool call"))

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> ToolCall:
        """A call out of `{id, type, function: {name, arguments}}` or `{id, name, arguments}`.

        The nested form counts if it has a name or arguments: continuations have only the latter.
        """
        nested = _read(value, _WireCall, "a tool call")
        source: _WireFunction | _WireCall = nested
        if nested.function is not None and (nested.function.name or nested.function.arguments):
            source = nested.function
        arguments = source.arguments
        if arguments is not None and not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        return cls(nested.id or "", source.name or "", arguments or "", nested.type or "", nested.index)


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a chunk adds. raw holds the keys of the wire that have no field here."""

    role: str | None = None
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    raw: dict[str, Any] = msgspec.field(default_factory=dict)


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the answers; there are several only if requested."""

    delta: Delta = Delta()
    index: int = 0
    finish_reason: str | None = None
    raw: dict[str, Any] = msgspec.field(default_factory=dict)


class StreamingChunk(msgspec.Struct, frozen=True, omit_defaults=True):
    """One chunk of a chat or tools stream.

    error: what failed, where the stream reports it inside a chunk
    raw:   the keys of the wire that have no field here
    """

    choices: tuple[Choice, ...] = ()
    id: str = ""
    object: str = ""
    created: int | None = None
    model: str = ""
    error: ErrorInfo | None = None
    raw: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def content(self) -> str:
        """The text of the first choice; "" where there is none."""
        return (self.choices[0].delta.content or "") if self.choices else ""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...] | None:
        """The calls of the first choice; None where there is none."""
        return self.choices[0].delta.tool_calls if self.choices else None

    @classmethod
    def decode(cls, data: bytes | str) -> StreamingChunk:
        """A chunk out of JSON.

        raises: DecodeError where it is no JSON object or a known key has the wrong type
        """
        value = _object(data, "a chunk")
        wire = _read(value, _WireChunk, "a chunk")
        error = error_from_value(wire.error, provider="").info if wire.error else None
        return cls(
            tuple([_choice(choice) for choice in wire.choices or ()]),
            wire.id or "",
            wire.object or "",
            None if wire.created is None else int(wire.created),
            wire.model or "",
            error,
            _rest(value, _WireChunk),
        )

    @classmethod
    def read(cls, data: bytes | str) -> StreamingChunk:
        """As `decode`, but what cannot be read is a chunk with an error: nothing is skipped."""
        try:
            return cls.decode(data)
        except DecodeError as error:
            return cls(error=error.info)


class _WireFunction(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _WireCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: _WireFunction | None = None
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _WireDelta(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


class _WireChoice(msgspec.Struct):
    index: int | None = None
    delta: dict[str, Any] | None = None
    finish_reason: str | None = None


class _WireChunk(msgspec.Struct):
    id: str | None = None
    object: str | None = None
    created: int | float | None = None
    model: str | None = None
    choices: list[dict[str, Any]] | None = None
    error: Any = None


def _choice(value: dict[str, Any]) -> Choice:
    wire = _read(value, _WireChoice, "a choice")
    inner = wire.delta or {}
    delta = _read(inner, _WireDelta, "a delta")
    calls = None if delta.tool_calls is None else tuple([ToolCall.of(call) for call in delta.tool_calls])
    return Choice(
        Delta(delta.role, delta.content, calls, _rest(inner, _WireDelta)),
        wire.index or 0,
        wire.finish_reason,
        _rest(value, _WireChoice),
    )


def _object(data: bytes | str, what: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except _UNREADABLE as error:
        raise DecodeError(f"not {what}: {error}") from None


def _read(value: Mapping[str, Any], wire: type[T], what: str) -> T:
    try:
        return msgspec.convert(value, prepared(wire))
    except _UNREADABLE as error:
        raise DecodeError(f"not {what}: {error}") from None


def _rest(value: Mapping[str, Any], wire: type[msgspec.Struct]) -> dict[str, Any]:
    return {key: value[key] for key in value if key not in wire.__struct_fields__}


# Any provider's events as OpenAI-like streaming chunks.

# Finish reasons whose name in OpenAI's chunks differs from that of the events.
_FINISH_REASONS: Final[dict[str, str]] = {"tool-calls": "tool_calls", "content-filter": "content_filter"}


async def streaming_chunks(events: AsyncIterable[ev.Event]) -> AsyncIterator[StreamingChunk]:
    """An event stream of any provider as streaming chunks.

    Fragments are passed as they come: a call's first one has id, name and index, later ones
    index and arguments. An error is a chunk with `error`. Reasoning is left out, and so are
    calls that the vendor executed.
    """
    view = _View()
    async for event in events:
        chunk = view.chunk(event)
        if chunk is not None:
            yield chunk


class _View:
    """The response's names, and which call has which index."""

    def __init__(self) -> None:
        self._id = ""
        self._model = ""
        self._indexes: dict[str, int] = {}

    def chunk(self, event: ev.Event) -> StreamingChunk | None:
        match event:
            case ev.ResponseMetadata(model, response_id):
                self._id, self._model = response_id or self._id, model or self._model
            case ev.TextDelta(delta):
                return self._of(Delta("assistant", delta))
            case ev.ToolInputStart(name, call_id, provider_executed=False):
                return self._head(name, call_id, "")
            case ev.ToolInputDelta(delta, call_id) if call_id in self._indexes:
                return self._of_call(ToolCall(arguments=delta, index=self._indexes[call_id]))
            case ev.ToolCall(name, text, call_id, provider_executed=False) if call_id not in self._indexes:
                return self._head(name, call_id, text)
            case ev.ErrorEvent(info):
                return StreamingChunk(id=self._id, model=self._model, error=info)
            case ev.Finish(reason):
                return self._of(Delta(), _FINISH_REASONS.get(reason, reason))
        return None

    def _head(self, name: str, call_id: str, text: str) -> StreamingChunk:
        index = self._indexes[call_id] = len(self._indexes)
        return self._of_call(ToolCall(call_id, name, text, "function", index))

    def _of_call(self, call: ToolCall) -> StreamingChunk:
        return self._of(Delta("assistant", tool_calls=(call,)))

    def _of(self, delta: Delta, finish_reason: str | None = None) -> StreamingChunk:
        return StreamingChunk(
            (Choice(delta, finish_reason=finish_reason),),
            self._id,
            "chat.completion.chunk",
            None,
            self._model,
        )


class MockModel:
    """Yields its chunks in order, in every iteration.

    error: raised by `tools_stream` itself, before there is a stream
    """

    def __init__(self, chunks: Iterable[StreamingChunk] = (), error: Exception | None = None) -> None:
        self._chunks = tuple(chunks)
        self._error = error

    @classmethod
    def from_deltas(cls, deltas: Iterable[Sequence[ToolCall]]) -> MockModel:
        """A model that sends one chunk for each list of calls."""
        return cls(
            [StreamingChunk((Choice(Delta("assistant", tool_calls=tuple(calls))),)) for calls in deltas]
        )

    def tools_stream(
        self,
        messages: Iterable[Any],
        tools: Iterable[Any] = (),
        options: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[StreamingChunk]:
        """The chunks, for any request.

        raises: the error, at once, where there is one
        """
        if self._error is not None:
            raise self._error
        return self._stream()

    async def _stream(self) -> AsyncIterator[StreamingChunk]:
        for chunk in self._chunks:
            yield chunk
