"""Events of any provider as streaming chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from llmstream import events as ev
from llmstream.chunks import StreamingChunk, ToolCall, streaming_chunks
from llmstream.errors import ConnectionLost, ErrorInfo


async def stream(*events: ev.Event, error: Exception | None = None) -> AsyncIterator[ev.Event]:
    for event in events:
        yield event
    if error is not None:
        raise error


async def drain(source: AsyncIterator[StreamingChunk], seen: list[StreamingChunk]) -> None:
    async for chunk in source:
        seen.append(chunk)


async def test_fragments_pass_as_they_come() -> None:  # S1.6
    events: list[ev.Event] = [
        ev.StreamStart(),
        ev.ResponseMetadata("m", "r1"),
        ev.TextStart("0"),
        ev.TextDelta("hi", "0"),
        ev.TextEnd("0"),
        ev.ToolInputStart("one", "a"),
        ev.ToolInputStart("two", "b"),
        ev.ToolInputDelta("{", "b"),
        ev.ToolInputDelta("[]", "a"),
        ev.ToolInputDelta("}", "b"),
        ev.ToolInputEnd("a"),
        ev.ToolInputEnd("b"),
        ev.ToolCall("one", "[]", "a"),
        ev.ToolCall("two", "{}", "b"),
        ev.ToolCall("web", "{}", "v", provider_executed=True),
        ev.Finish("tool-calls"),
    ]
    found = [chunk async for chunk in streaming_chunks(stream(*events))]
    assert [(c.id, c.model) for c in found] == [("r1", "m")] * len(found)
    assert "".join(c.content for c in found) == "hi"
    assert [call for c in found for call in c.tool_calls or ()] == [
        ToolCall("a", "one", "", "function", 0),
        ToolCall("b", "two", "", "function", 1),
        ToolCall(arguments="{", index=1),
        ToolCall(arguments="[]", index=0),
        ToolCall(arguments="}", index=1),
    ]
    assert found[-1].choices[0].finish_reason == "tool_calls"


async def test_call_in_one_piece_is_one_fragment() -> None:
    found = [chunk async for chunk in streaming_chunks(stream(ev.ToolCall("t", "{}", "a")))]
    assert found[0].tool_calls == (ToolCall("a", "t", "{}", "function", 0),)


async def test_error_is_chunk_unless_raised() -> None:  # S1.9
    """A raised error passes through."""
    info = ErrorInfo("connection-lost", "gone", True)
    seen: list[StreamingChunk] = []
    events = stream(ev.ErrorEvent(info), ev.Finish("error"), error=ConnectionLost("gone"))
    with pytest.raises(ConnectionLost):
        await drain(streaming_chunks(events), seen)
    assert [chunk.error for chunk in seen] == [info, None]
    assert seen[1].choices[0].finish_reason == "error"
