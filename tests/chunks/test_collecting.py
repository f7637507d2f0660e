"""Collecting chunks: the seed's manner first, then the strict one."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from llmstream import events as ev
from llmstream.chats.content import ToolCall
from llmstream.chunks import (
    CollectingStream,
    CompletionChunk,
    CompletionResponse,
    FinishReason,
    ToolCallDelta,
)
from llmstream.errors import (
    ConnectionLost,
    DecodeError,
    IncompleteStream,
    InvalidRequest,
    LimitExceeded,
)
from llmstream.usage import Usage


async def stream(*given: CompletionChunk, error: Exception | None = None) -> AsyncIterator[CompletionChunk]:
    for chunk in given:
        yield chunk
    if error is not None:
        raise error


def calls(*deltas: ToolCallDelta) -> CompletionChunk:
    return CompletionChunk(tool_calls=deltas)


def collecting(*given: CompletionChunk, error: Exception | None = None) -> CollectingStream:
    return CollectingStream(stream(*given, error=error))


FINAL = CompletionChunk.final_chunk(Usage(1, 2, 3), FinishReason.STOP)
text = CompletionChunk.text


async def test_text_is_joined_final_chunk_counts() -> None:  # S3.4, S3.8
    last = CompletionChunk("!", (), True, Usage(1, 2, 3), FinishReason.LENGTH)
    found = await collecting(text("Hel"), text(""), text("lo"), last).collect()
    assert found == CompletionResponse("Hello!", (), FinishReason.LENGTH, Usage(1, 2, 3))


async def test_a_stream_is_collected_once() -> None:  # S3.4
    given = collecting(text("a"))
    await given.collect()
    with pytest.raises(InvalidRequest, match="collected already"):
        await given.collect()


async def test_empty_stream_is_stop_and_zero_usage() -> None:  # S3.9
    assert await collecting().collect() == CompletionResponse(None, (), FinishReason.STOP, Usage(0, 0, 0), "")


async def test_first_error_ends_with_partial() -> None:  # S3.5
    with pytest.raises(ConnectionLost) as raised:
        await collecting(text("half"), FINAL, error=ConnectionLost("gone")).collect()
    assert raised.value.partial.text == "half"
    assert raised.value.usage == Usage(1, 2, 3)
    with pytest.raises(ValueError, match="foreign"):
        await collecting(error=ValueError("foreign")).collect()


async def test_calls_by_index_without_gaps() -> None:  # S3.6, S3.9
    given = collecting(calls(ToolCallDelta(5, "b", "two", "{}")), calls(ToolCallDelta(1, "a", "one")))
    found = (await given.collect()).tool_calls
    assert found == (ToolCall("a", "one", ""), ToolCall("b", "two", "{}"))


async def test_a_huge_index_costs_nothing() -> None:  # S3.6
    found = await collecting(calls(ToolCallDelta(10**9, "a", "t"))).collect()
    assert [c.id for c in found.tool_calls] == ["a"]


async def test_the_number_of_calls_is_bounded() -> None:  # S3.6
    flood = (calls(ToolCallDelta(n, "a", "t")) for n in itertools.count())
    with pytest.raises(LimitExceeded):
        await collecting(*itertools.islice(flood, 10_001)).collect()


async def test_a_negative_index_is_no_index() -> None:
    with pytest.raises(DecodeError, match="index -1"):
        await collecting(calls(ToolCallDelta(-1, "a"))).collect()


async def test_last_id_and_name_win_args_append() -> None:  # S3.7
    deltas = [
        ToolCallDelta(0, "a", "one", '{"q'),
        ToolCallDelta(0, None, None, '":'),
        ToolCallDelta(0, "b", "", "1}"),
    ]
    found = await collecting(*map(calls, deltas)).collect()
    assert found.tool_calls == (ToolCall("b", "", '{"q":1}'),)


async def test_empty_id_erases_calls_sans_id_drop() -> None:  # S3.7, S3.9
    found = await collecting(
        calls(ToolCallDelta(0, "a", "one")),
        calls(ToolCallDelta(0, "")),
        calls(ToolCallDelta(1, None, "nameless", "{}")),
    ).collect()
    assert found.tool_calls == ()


async def test_usage_before_the_final_is_ignored() -> None:  # S3.8
    found = await collecting(CompletionChunk("a", (), False, Usage(9, 9, 9), FinishReason.ERROR)).collect()
    assert (found.finish_reason, found.usage) == (FinishReason.STOP, Usage(0, 0, 0))


async def test_last_final_chunk_wins_even_if_empty() -> None:  # S3.8
    late = CompletionChunk("late", (), True)
    found = await collecting(FINAL, text("more "), late).collect()
    assert found == CompletionResponse("more late", (), FinishReason.STOP, Usage(0, 0, 0))


async def test_arguments_stay_raw() -> None:  # S3.10
    found = await collecting(
        calls(ToolCallDelta(0, "a", "t", "{no json"), ToolCallDelta(1, "b", "t"))
    ).collect()
    assert [c.arguments for c in found.tool_calls] == ["{no json", ""]


async def test_strict_needs_a_final_chunk() -> None:  # S3.9
    with pytest.raises(IncompleteStream) as raised:
        await collecting(text("half")).collect(require_terminal=True)
    assert raised.value.partial.text == "half"
    assert (await collecting(text("whole"), FINAL).collect(require_terminal=True)).content == "whole"


async def test_strict_merges_usage_beside_final() -> None:  # S3.8
    reason = CompletionChunk("", (), True, None, FinishReason.LENGTH)
    found = await collecting(reason, CompletionChunk(usage=Usage(1, 2, 3))).collect(require_terminal=True)
    assert (found.finish_reason, found.usage) == (FinishReason.LENGTH, Usage(1, 2, 3))


async def test_strict_empty_ids_erase_nothing() -> None:  # S3.7, case 13, 26
    deltas = [ToolCallDelta(0, "a", "get_weather"), ToolCallDelta(0, "", "", "{}")]
    found = await collecting(*map(calls, deltas), FINAL).collect(require_terminal=True)
    assert found.tool_calls == (ToolCall("a", "get_weather", "{}"),)


async def test_strict_calls_get_distinct_ids() -> None:  # S3.9, case 29
    deltas = [
        ToolCallDelta(0, None, "one", "{"),
        ToolCallDelta(1, None, "two", "{"),
        ToolCallDelta(0, None, None, "}"),
        ToolCallDelta(1, None, None, "}"),
        ToolCallDelta(2, "call_0", "three"),
        ToolCallDelta(3, None, None, "nameless"),
    ]
    found = (await collecting(*map(calls, deltas), FINAL).collect(require_terminal=True)).tool_calls
    assert [(c.name, c.arguments) for c in found] == [("one", "{}"), ("two", "{}"), ("three", "")]
    assert len({c.id for c in found}) == 3
    assert all(c.id for c in found)
    assert found[2].id == "call_0"


async def events(*given: ev.Event) -> AsyncIterator[ev.Event]:
    for event in given:
        yield event


@pytest.mark.parametrize("strict", [True, False])
async def test_events_are_collected_as_chunks(strict: bool) -> None:
    given = [
        ev.StreamStart(),
        ev.TextStart("0"),
        ev.TextDelta("hi", "0"),
        ev.TextEnd("0"),
        ev.ToolInputStart("t", "a"),
        ev.ToolInputDelta("{}", "a"),
        ev.ToolInputEnd("a"),
        ev.ToolCall("t", "{}", "a"),
        ev.Finish("tool-calls", Usage(1, 1)),
    ]
    found = await CollectingStream.from_events(events(*given)).collect(require_terminal=strict)
    assert found == CompletionResponse(
        "hi", (ToolCall("a", "t", "{}"),), FinishReason.TOOL_USE, Usage(1, 1, 2)
    )


@pytest.mark.parametrize("strict", [True, False])
async def test_broken_off_call_is_not_collected(strict: bool) -> None:  # case 21, RELIABILITY 33
    given = [
        ev.ToolInputStart("t", "a"),
        ev.ToolInputDelta('{"valid":1}', "a"),
        ev.ToolInputEnd("a", True),
        ev.Finish("length"),
    ]
    found = await CollectingStream.from_events(events(*given)).collect(require_terminal=strict)
    assert (found.tool_calls, found.finish_reason) == ((), FinishReason.LENGTH)


async def test_event_stream_needs_a_finish() -> None:
    with pytest.raises(IncompleteStream):
        await CollectingStream.from_events(events(ev.TextDelta("a", "0"))).collect(require_terminal=True)
