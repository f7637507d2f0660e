"""What an Accumulator does beside folding: running calls, collecting a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from llmstream import events as ev
from llmstream.accumulate import Accumulator, collect
from llmstream.chats.content import Text, ToolResult
from llmstream.errors import ConnectionLost, ErrorInfo, IncompleteStream, InvalidRequest
from llmstream.request import ProviderTool, ToolSpec
from llmstream.tools import render_statuses


def double(n: int) -> int:
    return 2 * n


def calls(*named: tuple[str, str, str]) -> list[ev.Event]:
    return [ev.StreamStart(), *[ev.ToolCall(name, text, call_id) for call_id, name, text in named]]


def finished(accumulator: Accumulator, events: list[ev.Event]) -> Accumulator:
    accumulator.feed_many([*events, ev.Finish("tool-calls")])
    return accumulator


async def stream(*events: ev.Event, error: Exception | None = None) -> AsyncIterator[ev.Event]:
    for event in events:
        yield event
    if error is not None:
        raise error


async def test_calls_run_and_results_in_call_order() -> None:  # S0.2, S0.9
    found = finished(
        Accumulator(tools=[double]), calls(("a", "double", '{"n":2}'), ("b", "double", '{"n":"x"}'))
    )
    statuses = await found.call_tools()
    assert [(s.name, s.tool_call_id, s.error is None) for s in statuses] == [
        ("double", "a", True),
        ("double", "b", False),
    ]
    assert found.tool_message is not None
    assert next(r.content for r in found.tool_message.tool_results) == "4"
    assert render_statuses(statuses).startswith("> Ran tool: `double`\n> Ran tool: `double` - failed: ")


async def test_second_call_tools_runs_nothing() -> None:  # S0.2, RELIABILITY 36, 45
    """A second call_tools() in the same turn."""
    runs: list[int] = []

    def count() -> str:
        runs.append(1)
        return "ok"

    found = finished(Accumulator(tools=[count]), calls(("a", "count", "{}")))
    assert len(await found.call_tools()) == 1
    assert await found.call_tools() == []
    assert runs == [1]
    assert found.tool_message is not None


@pytest.mark.parametrize("reason", ["stop", "tool-calls", "other", "unknown", "length"])
async def test_complete_calls_run_at_any_finish(reason: ev.FinishReason) -> None:
    """Every good finish reason will do."""
    found = Accumulator(tools=[double])
    found.feed_many([*calls(("a", "double", '{"n":2}')), ev.Finish(reason)])
    assert [s.result.content for s in await found.call_tools()] == ["4"]


async def test_no_tool_runs_before_message_end() -> None:  # RELIABILITY 33, case 52
    found = Accumulator(tools=[double])
    found.feed_many(calls(("a", "double", '{"n":2}')))
    assert await found.call_tools() == []
    assert found.tool_message is None
    found.feed(ev.Finish("tool-calls"))
    assert len(await found.call_tools()) == 1


@pytest.mark.parametrize("finish", ["error", "tool-calls"])
async def test_no_tool_runs_after_an_error(finish: ev.FinishReason) -> None:  # S0.11, case 52
    found = Accumulator(tools=[double])
    error = ev.ErrorEvent(ErrorInfo("connection-lost", "gone", True))
    found.feed_many([*calls(("a", "double", '{"n":2}')), error, ev.Finish(finish)])
    assert await found.call_tools() == []
    assert found.tool_message is None


async def test_cut_input_that_parses_is_not_run() -> None:  # RELIABILITY 33
    """A cut input may happen to be valid JSON."""
    found = Accumulator(tools=[double])
    cut: list[ev.Event] = [ev.ToolInputStart("double", "a"), ev.ToolInputDelta('{"n":2}', "a")]
    found.feed_many([ev.StreamStart(), *cut, ev.ToolInputEnd("a", True), ev.Finish("length")])
    assert await found.call_tools() == []


async def test_calls_stay_pending_without_tools() -> None:
    found = finished(Accumulator(), calls(("a", "double", "{}")))
    assert await found.call_tools() == []
    assert [c.id for c in found.pending_calls] == ["a"]


async def test_declared_calls_pend_until_result() -> None:
    tools = [double, ToolSpec("ask"), ProviderTool("bash_20250124", "bash")]
    named = [("a", "ask", "{}"), ("b", "double", '{"n":1}'), ("c", "bash", "{}")]
    found = finished(Accumulator(tools=tools), calls(*named))
    assert [s.tool_call_id for s in await found.call_tools()] == ["b"]
    assert [c.id for c in found.pending_calls] == ["a", "c"]
    found.add_results([ToolResult("c", "done"), ToolResult("a", "yes")])
    assert found.pending_calls == []
    assert found.tool_message is not None
    assert [r.tool_call_id for r in found.tool_message.tool_results] == ["a", "b", "c"]


async def test_call_with_streamed_result_not_rerun() -> None:  # RELIABILITY 45
    events = [*calls(("a", "double", '{"n":1}')), ev.ToolResult("2", "a", "double")]
    found = finished(Accumulator(tools=[double]), events)
    assert await found.call_tools() == []
    assert found.tool_message is not None


async def test_cancelled_calls_get_such_results() -> None:  # RELIABILITY 43
    done = asyncio.Event()

    async def quick() -> str:
        done.set()
        return "quick"

    async def slow() -> None:
        await asyncio.Event().wait()

    found = finished(Accumulator(tools=[quick, slow]), calls(("a", "slow", "{}"), ("b", "quick", "{}")))
    task = asyncio.create_task(found.call_tools())
    await done.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert found.tool_message is not None
    slow_result, quick_result = found.tool_message.tool_results
    assert slow_result.is_error
    assert "cancelled" in slow_result.content
    assert quick_result.content == "quick"
    assert await found.call_tools() == []


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="two tools are called 'double'"):
        Accumulator(tools=[double, double])


async def test_collect_reads_a_stream_to_its_end() -> None:
    events = [
        ev.StreamStart(),
        ev.TextStart("0"),
        ev.TextDelta("hi", "0"),
        ev.TextEnd("0"),
        ev.Finish("stop"),
    ]
    assert (await collect(stream(*events))).text == "hi"


async def test_collect_refuses_missing_finish() -> None:
    """Unless require_terminal is off."""
    events = [ev.StreamStart(), ev.TextStart("0"), ev.TextDelta("half", "0")]
    with pytest.raises(IncompleteStream) as raised:
        await collect(stream(*events))
    assert raised.value.partial.text == "half"
    assert (await collect(stream(*events), require_terminal=False)).text == "half"


async def test_collect_adds_partial_to_the_error() -> None:  # S3.5
    events = [ev.TextStart("0"), ev.TextDelta("half", "0")]
    with pytest.raises(ConnectionLost) as raised:
        await collect(stream(*events, error=ConnectionLost("gone")))
    assert raised.value.partial.parts == (Text("half"),)
    assert raised.value.usage == ev.Usage()
