"""Completion chunks, and events seen as such."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from llmstream import events as ev
from llmstream.chunks import CompletionChunk, FinishReason, ToolCallDelta, chunks
from llmstream.errors import ConnectionLost, DecodeError
from llmstream.usage import Usage


async def stream(*events: ev.Event, error: Exception | None = None) -> AsyncIterator[ev.Event]:
    for event in events:
        yield event
    if error is not None:
        raise error


async def drain(source: AsyncIterator[CompletionChunk], seen: list[CompletionChunk]) -> None:
    async for chunk in source:
        seen.append(chunk)


def test_text_chunk_is_not_final_no_usage() -> None:  # S3.1
    chunk = CompletionChunk.text("hi")
    assert (chunk.delta, chunk.tool_calls, chunk.is_final) == ("hi", (), False)
    assert (chunk.usage, chunk.finish_reason) == (None, None)


def test_a_final_chunk_has_no_text() -> None:  # S3.1
    chunk = CompletionChunk.final_chunk(Usage(1, 2, 3), FinishReason.LENGTH)
    assert (chunk.delta, chunk.tool_calls, chunk.is_final) == ("", (), True)
    assert (chunk.usage, chunk.finish_reason) == (Usage(1, 2, 3), "length")


def test_delta_may_omit_name_of_its_call() -> None:  # S3.2
    delta = ToolCallDelta(3, arguments_delta="{}")
    assert (delta.index, delta.id, delta.name, delta.arguments_delta) == (3, None, None, "{}")


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool-calls", "tool_use"),
        ("content-filter", "content_filter"),
        ("error", "error"),
        ("other", "stop"),
        ("unknown", "stop"),
    ],
)
def test_reasons_of_events_have_a_word_here(reason: ev.FinishReason, word: str) -> None:  # S3.11
    assert FinishReason.of(reason) == word


async def test_events_become_chunks() -> None:  # S3.3
    events: list[ev.Event] = [
        ev.StreamStart(),
        ev.ReasoningStart("r"),
        ev.ReasoningDelta("hm", "r"),
        ev.ReasoningEnd("r"),
        ev.TextStart("0"),
        ev.TextDelta("hi", "0"),
        ev.TextEnd("0"),
        ev.ToolInputStart("one", "a"),
        ev.ToolInputStart("two", "b"),
        ev.ToolInputDelta("{}", "b"),
        ev.ToolInputDelta("[", "a"),
        ev.ToolInputEnd("b"),
        ev.ToolInputEnd("a"),
        ev.ToolCall("two", "{}", "b"),
        ev.ToolInputStart("web", "v", provider_executed=True),
        ev.ToolInputDelta("{}", "v"),
        ev.ToolCall("whole", '{"x":1}', "c"),
        ev.Finish("tool-calls", Usage(3, 4)),
    ]
    assert [chunk async for chunk in chunks(stream(*events))] == [
        CompletionChunk.text("hi"),
        CompletionChunk(tool_calls=(ToolCallDelta(0, "a", "one"),)),
        CompletionChunk(tool_calls=(ToolCallDelta(1, "b", "two"),)),
        CompletionChunk(tool_calls=(ToolCallDelta(1, arguments_delta="{}"),)),
        CompletionChunk(tool_calls=(ToolCallDelta(0, arguments_delta="["),)),
        CompletionChunk(tool_calls=(ToolCallDelta(2, "c", "whole", '{"x":1}'),)),
        CompletionChunk.final_chunk(Usage(3, 4, 7), FinishReason.TOOL_USE),  # S3.11: the total is the sum
    ]


async def test_stream_exceptions_pass_through() -> None:  # S3.5
    seen: list[CompletionChunk] = []
    with pytest.raises(ConnectionLost):
        await drain(chunks(stream(ev.TextDelta("a", "0"), error=ConnectionLost("gone"))), seen)
    assert seen == [CompletionChunk.text("a")]


async def test_error_event_raised_after_last_chunk() -> None:  # S1.9, case 42
    error = ev.ErrorEvent(DecodeError("bad frame").info)
    events = [error, ev.TextDelta("after", "0"), ev.Finish("stop", Usage(1, 1))]
    seen: list[CompletionChunk] = []
    with pytest.raises(DecodeError, match="bad frame") as raised:
        await drain(chunks(stream(*events)), seen)
    assert seen == [CompletionChunk.text("after")]
    assert raised.value.usage == Usage(1, 1)


async def test_unreported_usage_stays_unknown() -> None:
    found = [chunk async for chunk in chunks(stream(ev.Finish("stop")))]
    assert found == [CompletionChunk.final_chunk(Usage(), FinishReason.STOP)]
