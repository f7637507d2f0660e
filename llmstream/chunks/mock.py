"""A model that streams the chunks it was given, for tests of programs that read chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from llmstream.chunks.kernel import Choice, Delta, StreamingChunk, ToolCall

__all__ = ["MockModel"]


class MockModel:
    """Yields its chunks in order, every time it is asked.

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
        """The chunks, whatever is asked.

        raises: the error, at once, where there is one
        """
        if self._error is not None:
            raise self._error
        return self._stream()

    async def _stream(self) -> AsyncIterator[StreamingChunk]:
        for chunk in self._chunks:
            yield chunk
