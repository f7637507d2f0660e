"""Any provider's events as OpenAI-like streaming chunks."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

from llmstream import events as ev
from llmstream.chunks.kernel import Choice, Delta, StreamingChunk, ToolCall

__all__ = ["streaming_chunks"]

_FINISH_REASONS: Final[dict[str, str]] = {"tool-calls": "tool_calls", "content-filter": "content_filter"}
"""Where the word of OpenAI's chunks differs from that of the events."""


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
