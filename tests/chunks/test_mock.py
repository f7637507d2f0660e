"""The model that streams what it was given."""

from __future__ import annotations

import pytest

from llmstream.chunks import Choice, Delta, MockModel, StreamingChunk, ToolCall
from llmstream.errors import Overloaded


async def test_one_chunk_for_each_list_of_calls() -> None:  # S1.8, case 15
    model = MockModel.from_deltas([[ToolCall("a", "search", '{"q')], [ToolCall(arguments='":1}')]])
    found = [chunk async for chunk in model.tools_stream([])]
    assert len(found) == 2
    assert found[0].tool_calls == (ToolCall("a", "search", '{"q'),)
    assert found[1].tool_calls == (ToolCall(arguments='":1}'),)


async def test_the_chunks_come_in_order_every_time() -> None:  # S1.7
    chunks = [StreamingChunk((Choice(Delta(content=text)),)) for text in "abc"]
    model = MockModel(chunks)
    for _ in range(2):
        assert [chunk async for chunk in model.tools_stream([], [], {"temperature": 0})] == chunks


def test_configured_error_raised_at_the_call() -> None:  # S1.1, S1.7
    model = MockModel([StreamingChunk()], error=Overloaded("busy"))
    with pytest.raises(Overloaded, match="busy"):
        model.tools_stream([])
