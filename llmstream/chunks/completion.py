"""Completion chunks: fragments of text and tool calls, and a final chunk with usage and reason.

`CollectingStream` collects them into one response, in the seed's manner or strictly.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from llmstream import events as ev
from llmstream.chats.content import Text, ToolCall
from llmstream.chats.message import Message
from llmstream.errors import (
    DecodeError,
    IncompleteStream,
    InvalidRequest,
    LimitExceeded,
    LLMStreamError,
    error_from_info,
)
from llmstream.usage import Usage

__all__ = [
    "CollectingStream",
    "CompletionChunk",
    "CompletionResponse",
    "CompletionStream",
    "FinishReason",
    "ToolCallDelta",
    "chunks",
]


class FinishReason(StrEnum):
    """Why a completion ended, by the names of this API."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_USE = "tool_use"
    CONTENT_FILTER = "content_filter"
    ERROR = "error"

    @classmethod
    def of(cls, reason: ev.FinishReason) -> FinishReason:
        """The nearest word for an event's reason; `other` and `unknown` are stops."""
        return _REASONS.get(reason, cls.STOP)


_REASONS: Final[dict[ev.FinishReason, FinishReason]] = {
    "length": FinishReason.LENGTH,
    "tool-calls": FinishReason.TOOL_USE,
    "content-filter": FinishReason.CONTENT_FILTER,
    "error": FinishReason.ERROR,
}


class ToolCallDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fragment of a tool call. id and name usually stand in the first fragment only.

    index:      which call of the response
    incomplete: the call was interrupted; no more of it follows
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments_delta: str = ""
    incomplete: bool = False


class CompletionChunk(msgspec.Struct, frozen=True, omit_defaults=True):
    """A chunk of a completion.

    delta:    text; may be ""
    is_final: usage and finish_reason are those of the response
    """

    delta: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    is_final: bool = False
    usage: Usage | None = None
    finish_reason: FinishReason | None = None

    @classmethod
    def text(cls, delta: str) -> CompletionChunk:
        """A chunk of text, not final."""
        return cls(delta)

    @classmethod
    def final_chunk(cls, usage: Usage, finish_reason: FinishReason) -> CompletionChunk:
        """The final chunk, without text."""
        return cls(is_final=True, usage=usage, finish_reason=finish_reason)


CompletionStream: TypeAlias = AsyncIterator[CompletionChunk]
"""Chunks, or the exception that ends them."""


async def chunks(events: AsyncIterable[ev.Event]) -> AsyncIterator[CompletionChunk]:
    """An event stream as completion chunks: text, client tool calls and the end.

    Reasoning, sources and calls that the vendor executed have no form here. Fragments are unchanged: an
    interrupted call has been partly yielded, and is then marked `incomplete` and gets the id "", with which a
    collecting stream drops it.

    raises: what the stream raises; else, after the last chunk, the first error event
    """
    view = _View()
    async for event in events:
        chunk = view.chunk(event)
        if chunk is not None:
            yield chunk
    if view.error is not None:
        raise view.error


class _View:
    """Which call has which index, and what went wrong."""

    def __init__(self) -> None:
        self.error: LLMStreamError | None = None
        self._indexes: dict[str, int] = {}

    def chunk(self, event: ev.Event) -> CompletionChunk | None:
        match event:
            case ev.TextDelta(delta):
                return CompletionChunk.text(delta)
            case ev.ToolInputStart(name, call_id, provider_executed=False):
                return self._head(name, call_id, "")
            case ev.ToolInputDelta(delta, call_id) if call_id in self._indexes:
                return _call(ToolCallDelta(self._indexes[call_id], arguments_delta=delta))
            case ev.ToolInputEnd(call_id, incomplete=True) if call_id in self._indexes:
                return _call(ToolCallDelta(self._indexes[call_id], id="", incomplete=True))
            case ev.ToolCall(name, text, call_id, provider_executed=False) if call_id not in self._indexes:
                return self._head(name, call_id, text)
            case ev.ErrorEvent(info) if self.error is None:
                self.error = error_from_info(info)
            case ev.Finish(reason, usage):
                if self.error is None:
                    return CompletionChunk.final_chunk(with_total(usage), FinishReason.of(reason))
                self.error.usage = usage
        return None

    def _head(self, name: str, call_id: str, text: str) -> CompletionChunk:
        index = self._indexes[call_id] = len(self._indexes)
        return _call(ToolCallDelta(index, call_id, name, text))


def _call(delta: ToolCallDelta) -> CompletionChunk:
    return CompletionChunk(tool_calls=(delta,))


def with_total(usage: Usage) -> Usage:
    """The usage with a total: the sum of input and output where the vendor gave none."""
    if usage.total_tokens is not None or (usage.input_tokens is None and usage.output_tokens is None):
        return usage
    total = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    return msgspec.structs.replace(usage, total_tokens=total)


# More calls than any response holds; keeps a hostile stream from filling the memory.
MAX_CALLS: Final = 10_000


class CompletionResponse(msgspec.Struct, frozen=True):
    """A complete completion. content is None where no text came; model is not known to chunks."""

    content: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = FinishReason.STOP
    usage: Usage = Usage(0, 0, 0)
    model: str = ""


class _Builder:
    """One tool call, as far as received."""

    __slots__ = ("fragments", "id", "incomplete", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.fragments: list[str] = []
        self.incomplete = False

    def add(self, delta: ToolCallDelta, *, strict: bool) -> None:
        """The last id and name win; strictly, the last that are not empty."""
        if delta.id or (delta.id is not None and not strict):
            self.id = delta.id
        if delta.name or (delta.name is not None and not strict):
            self.name = delta.name
        if delta.arguments_delta:
            self.fragments.append(delta.arguments_delta)
        self.incomplete = self.incomplete or delta.incomplete

    def call(self, call_id: str) -> ToolCall:
        return ToolCall(call_id, self.name, "".join(self.fragments))


class CollectingStream:
    """A stream of completion chunks that can be collected, once, into a response.

    stream: chunks from anywhere; `from_events` makes them of events
    """

    def __init__(self, stream: AsyncIterable[CompletionChunk]) -> None:
        self._stream = stream
        self._taken = False
        self._strict = False
        self._text: list[str] = []
        self._builders: dict[int, _Builder] = {}
        self._final = False
        self._usage: Usage | None = None
        self._reason: FinishReason | None = None

    @classmethod
    def from_events(cls, events: AsyncIterable[ev.Event]) -> CollectingStream:
        """Collects an event stream by way of chunks."""
        return cls(chunks(events))

    async def collect(self, require_terminal: bool = False) -> CompletionResponse:
        """Reads the stream to its end.

        As in the source document: an ended stream is complete, its reason `stop` and its usage
        zeros where no final chunk has one; the last id and name of a call win, even
        empty ones; calls without an id are dropped, as they may be gaps of the index.

        With require_terminal: a stream without a final chunk is an error; empty ids and names
        do not erase; a call without an id gets one of its own; one without a name, or that
        broke off, is dropped; usage in a chunk beside the final one counts.

        raises: InvalidRequest the second time; IncompleteStream as above; what the stream
                raises, with `.partial` (a Message) and `.usage` filled in
        """
        if self._taken:
            raise InvalidRequest("this stream has been collected already; a stream can be read once")
        self._taken, self._strict = True, require_terminal
        try:
            async for chunk in self._stream:
                self._add(chunk)
            if require_terminal and not self._final:
                raise IncompleteStream("the chunks ended without a final one. What arrived is in .partial.")
        except LLMStreamError as error:
            if error.partial is None:
                error.partial = self._partial()
            if error.usage is None:
                error.usage = self._usage
            raise
        return CompletionResponse(
            "".join(self._text) or None,
            self._calls(),
            self._reason or FinishReason.STOP,
            self._usage or Usage(0, 0, 0),
        )

    def _add(self, chunk: CompletionChunk) -> None:
        if chunk.delta:
            self._text.append(chunk.delta)
        for delta in chunk.tool_calls:
            self._builder(delta.index).add(delta, strict=self._strict)
        if self._strict:
            self._usage = chunk.usage or self._usage
            self._reason = chunk.finish_reason or self._reason
        elif chunk.is_final:
            self._usage, self._reason = chunk.usage, chunk.finish_reason
        self._final = self._final or chunk.is_final

    def _builder(self, index: int) -> _Builder:
        if index < 0:
            raise DecodeError(f"a tool call with index {index}: indexes count from 0")
        found = self._builders.get(index)
        if found is None:
            if len(self._builders) >= MAX_CALLS:
                raise LimitExceeded(f"more than {MAX_CALLS} tool calls in one response")
            found = self._builders[index] = _Builder()
        return found

    def _calls(self) -> tuple[ToolCall, ...]:
        builders = [self._builders[index] for index in sorted(self._builders)]
        if not self._strict:
            return tuple([b.call(b.id) for b in builders if b.id])
        taken = {b.id for b in builders}
        calls: list[ToolCall] = []
        for position, builder in enumerate(builders):
            if not builder.name or builder.incomplete:
                continue
            call_id = builder.id or f"call_{position}"
            while not builder.id and call_id in taken:
                call_id += "_"
            taken.add(call_id)
            calls.append(builder.call(call_id))
        return tuple(calls)

    def _partial(self) -> Message:
        """The text so far; calls are left out, as they may be incomplete."""
        text = "".join(self._text)
        return Message.assistant(*([Text(text)] if text else []))
