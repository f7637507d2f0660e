"""Completion chunks: fragments of text and tool calls, and a final chunk with usage and reason."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from llmstream import events as ev
from llmstream.errors import LLMStreamError, error_from_info
from llmstream.usage import Usage

__all__ = ["CompletionChunk", "CompletionStream", "FinishReason", "ToolCallDelta", "chunks"]


class FinishReason(StrEnum):
    """Why a completion ended, in the words of this view."""

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
    incomplete: the call broke off; no more of it follows
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

    Reasoning, sources and calls that the vendor executed have no word here. Fragments are
    faithful: a call that breaks off has been seen in part, and is then marked `incomplete` and
    given the id "", with which a collecting stream drops it.

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
