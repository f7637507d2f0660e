"""Several calls: order, limits, one result each, cancellation; calls that start early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.errors import InvalidRequest, UnknownTool
from llmstream.events import Event, RetryNotice
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.request import ProviderTool, ToolSpec
from llmstream.tools import (
    ApprovalGate,
    Approve,
    CallEvent,
    CallRunner,
    Ended,
    Run,
    ToolCallStatus,
    ToolSet,
    Verdict,
    cancelled_results,
    render_statuses,
    run_call,
    run_calls,
    tool,
)
from llmstream.tools.runner import Execution


async def echo(text: str) -> str:
    return text


def say(call_id: str, text: str) -> ToolCall:
    return ToolCall(call_id, "echo", f'{{"text":"{text}"}}')


async def test_results_stand_in_call_order() -> None:
    turns = [asyncio.Event() for _ in range(3)]

    async def step(n: int) -> int:
        if n < 2:
            await turns[n + 1].wait()
        turns[n].set()
        return n

    ended: list[str] = []
    calls = [ToolCall(f"c{n}", "step", f'{{"n":{n}}}') for n in range(3)]
    found = await run_calls(calls, [step], on_result=lambda status: ended.append(status.tool_call_id))
    assert [s.result.content for s in found] == ["0", "1", "2"]
    assert ended == ["c2", "c1", "c0"]


async def test_no_more_calls_at_once_than_limit() -> None:
    running, most = 0, 0

    async def busy() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    calls = [ToolCall(str(n), "busy") for n in range(20)]
    assert len(await run_calls(calls, [busy], limit=3)) == 20
    assert most == 3


async def test_sequential_calls_run_one_by_one() -> None:
    log: list[str] = []

    @tool(sequential=True)
    async def write(n: int) -> None:
        log.append(f"begin {n}")
        await asyncio.sleep(0)
        log.append(f"end {n}")

    await run_calls([ToolCall(str(n), "write", f'{{"n":{n}}}') for n in range(3)], [write, echo])
    assert log == ["begin 0", "end 0", "begin 1", "end 1", "begin 2", "end 2"]


async def test_failing_call_disturbs_no_others() -> None:  # case 48, S0.9
    async def fail() -> None:
        raise ValueError("boom")

    found = await run_calls([say("a", "x"), ToolCall("b", "fail"), say("c", "y")], [echo, fail])
    assert [s.result for s in found] == [
        ToolResult("a", "x", name="echo"),
        ToolResult("b", "ValueError: boom", True, "fail"),
        ToolResult("c", "y", name="echo"),
    ]
    assert isinstance(found[1].exception, ValueError)
    assert "- failed: `ValueError: boom`\n" in render_statuses(found)


async def test_unknown_tool_gets_existing_names() -> None:  # case 49, RELIABILITY 34
    found = (await run_calls([ToolCall("a", "serach", "{}")], [tool(name="search")(echo), ToolSpec("ask")]))[
        0
    ]
    assert found.error == "There is no tool 'serach'. The tools are: search, ask."
    assert isinstance(found.exception, UnknownTool)
    assert found.result.is_error
    assert (await run_call(ToolCall("a", "x"), [])).error == "There is no tool 'x'. The tools are: none."


@pytest.mark.parametrize("arguments", ['{"text":', '{"text":"a"}{"text":"a"}', "[]", "null", "[" * 100_000])
async def test_broken_arguments_run_nothing(arguments: str) -> None:  # RELIABILITY 34
    runs: list[str] = []

    async def act(text: str) -> None:
        runs.append(text)

    found = await run_calls([ToolCall("a", "act", arguments)], [act])
    assert found[0].result.is_error
    assert found[0].result.content.startswith("Invalid arguments for act: ")
    assert runs == []


async def test_call_marked_broken_is_not_run() -> None:
    marked = ToolCall("a", "echo", '{"text":"x"}', metadata={"llmstream": {"invalid": True}})
    assert "arrived broken" in str((await run_calls([marked], [echo]))[0].error)
    no_json = ToolCall("a", "echo", '{"text"', metadata={"llmstream": {"invalid": True}})
    assert "not valid JSON" in str((await run_calls([no_json], [echo]))[0].error)


async def test_repeated_call_id_runs_once() -> None:  # RELIABILITY 35, 36
    found = await run_calls([say("a", "first"), say("b", "other"), say("a", "second")], [echo])
    assert [(s.tool_call_id, s.result.content) for s in found] == [("a", "first"), ("b", "other")]


async def test_declared_and_vendor_calls_untouched() -> None:
    tools = [echo, ToolSpec("ask"), ProviderTool("bash_20250124", "bash")]
    vendor = ToolCall("v", "web_search", "{}", provider_executed=True)
    calls = [ToolCall("a", "ask"), ToolCall("b", "bash"), vendor, say("c", "x")]
    assert [s.tool_call_id for s in await run_calls(calls, tools)] == ["c"]
    assert await run_calls([], tools) == []


async def test_progress_is_told_with_its_call() -> None:
    async def count(to: int) -> AsyncIterator[int]:
        for n in range(to):
            yield n

    seen: list[tuple[str, Any]] = []
    call = ToolCall("a", "count", '{"to":2}')
    found = await run_calls([call], [count], on_progress=lambda call, value: seen.append((call.id, value)))
    assert seen == [("a", 0), ("a", 1)]
    assert found[0].result.content == "1"


@pytest.mark.parametrize("scope", [True, False])
async def test_cancellation_stops_all_calls(scope: bool) -> None:  # RELIABILITY 37, 43
    """The cancellation passes through."""
    started: list[int] = []
    stopped: list[int] = []
    both = asyncio.Event()

    async def hang(n: int) -> None:
        started.append(n)
        if len(started) == 2:
            both.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(n)

    calls = [ToolCall(str(n), "hang", f'{{"n":{n}}}') for n in range(2)]
    if scope:
        with anyio.CancelScope() as outer:
            async with anyio.create_task_group() as group:
                group.start_soon(run_calls, calls, [hang])
                await both.wait()
                outer.cancel()
        assert outer.cancelled_caught
    else:
        task = asyncio.create_task(run_calls(calls, [hang]))
        await both.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert sorted(stopped) == [0, 1]
    assert len(asyncio.all_tasks()) == 1


async def test_single_call_cancel_passes_through() -> None:
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(run_call(ToolCall("a", "hang"), [hang]))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_self_cancelled_tool_is_a_failure() -> None:
    async def inner() -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    found = await run_calls([ToolCall("a", "inner"), say("b", "x")], [inner, echo])
    assert [s.error for s in found] == ["The tool inner was cancelled from within.", None]


async def test_base_exception_is_raised_unchanged() -> None:  # RELIABILITY 43
    class Halt(BaseException):
        pass

    async def halt() -> None:
        raise Halt

    with pytest.raises(Halt):
        await run_calls([ToolCall("a", "halt"), say("b", "x")], [halt, echo])


def test_calls_without_result_get_cancelled() -> None:
    vendor = ToolCall("v", "web_search", provider_executed=True)
    calls = [say("a", "x"), say("b", "y"), say("b", "y"), vendor, say("c", "z")]
    done = [ToolCallStatus("echo", None, "c"), ToolResult("a", "x")]
    found = cancelled_results(calls, done)
    assert [(r.tool_call_id, r.is_error, r.name) for r in found] == [("b", True, "echo")]
    assert "cancelled" in found[0].content


async def test_calls_wait_for_their_approval() -> None:
    ran: list[int] = []

    @tool(needs_approval=lambda arguments: arguments["n"] > 1)
    async def act(n: int = 5) -> None:
        ran.append(n)

    calls = [ToolCall("a", "act", '{"n":1}'), ToolCall("b", "act", '{"n":2}'), ToolCall("c", "act")]
    assert [s.tool_call_id for s in await run_calls(calls, [act])] == ["a"]
    assert [s.tool_call_id for s in await run_calls(calls[1:], [act], decisions={"c": Approve()})] == ["c"]
    assert ran == [1, 5]


async def test_predicate_async_failure_means_yes() -> None:
    """A predicate may be async; one that fails requires approval."""

    async def never(arguments: Any) -> bool:
        return False

    free = tool(name="free", needs_approval=never)(echo)
    broken = tool(name="broken", needs_approval=lambda arguments: 1 / 0)(echo)
    calls = [ToolCall("a", "free", '{"text":"x"}'), ToolCall("b", "broken", '{"text":"x"}')]
    assert [s.tool_call_id for s in await run_calls(calls, [free, broken])] == ["a"]


async def test_tool_may_limit_its_own_concurrency() -> None:
    running, most = 0, 0

    @tool(concurrency=2)
    async def busy() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    await run_calls([ToolCall(str(n), "busy") for n in range(9)], [busy])
    assert most == 2
    with pytest.raises(InvalidRequest):
        tool(concurrency=0)(echo)


def test_reason_not_to_run_known_beforehand() -> None:
    tools = ToolSet([echo])
    assert tools.error_of(say("a", "x")) is None
    assert isinstance(tools.error_of(ToolCall("a", "nothing")), UnknownTool)
    assert "text" in str(tools.error_of(ToolCall("a", "echo", '{"txt":1}')))
    marked = ToolCall("a", "echo", '{"text":"x"}', metadata={"llmstream": {"invalid": True}})
    assert "arrived broken" in str(tools.error_of(marked))


log: list[str] = []


@tool(eager=True)
async def look(n: int) -> str:
    log.append(f"begin {n}")
    try:
        await asyncio.sleep(0.001)
        return f"seen {n}"
    finally:
        await asyncio.sleep(0)
        log.append(f"end {n}")


def eager_runner() -> CallRunner:
    tools = ToolSet([look])
    return CallRunner(tools, gate=ApprovalGate(tools))


def event(call_id: str, n: object) -> Event:
    return ToolCallEvent("look", f'{{"n":{n}}}', call_id)


async def test_calls_begun_before_retry_are_void() -> None:
    log.clear()
    runner = eager_runner()
    runner.see([event("a", 1)])
    while not log:
        await asyncio.sleep(0)
    runner.see([RetryNotice("the model failed", 0, 1, 0.0), event("a", 2)])
    found = await runner.run([ToolCall("a", "look", '{"n":2}')])
    assert [status.result.content for status in found] == ["seen 2"]
    assert sorted(log) == ["begin 1", "begin 2", "end 1", "end 2"]
    assert len(asyncio.all_tasks()) == 1


async def test_begun_calls_are_reported_as_others() -> None:
    log.clear()
    runner = eager_runner()
    runner.see([event("a", 1)])
    while "end 1" not in log:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    calls = [ToolCall("b", "look", '{"n":2}'), ToolCall("a", "look", '{"n":1}')]
    found = await runner.run(calls)
    assert [status.tool_call_id for status in found] == ["b", "a"]
    assert list(runner.statuses) == ["a", "b"]
    assert log.count("begin 1") == 1


async def test_call_arriving_broken_is_not_begun() -> None:
    log.clear()
    runner = eager_runner()
    runner.see([ToolCallEvent("look", '{"n":1}', "a", invalid=True), ToolCallEvent("other", "{}", "b")])
    await asyncio.sleep(0.01)
    await runner.aclose()
    assert log == []


async def test_vendor_executed_call_is_not_begun() -> None:
    log.clear()
    runner = eager_runner()
    runner.see([ToolCallEvent("look", '{"n":1}', "a", provider_executed=True)])
    await runner.aclose()
    assert (log, runner.calls) == ([], {})


async def test_closing_twice_waits_for_one_cleanup() -> None:
    log.clear()
    runner = eager_runner()
    runner.see([event("a", 1)])
    while not log:
        await asyncio.sleep(0)
    await asyncio.gather(runner.aclose(), runner.aclose())
    assert log == ["begin 1", "end 1"]
    assert len(asyncio.all_tasks()) == 1


async def test_late_result_of_void_call_is_lost() -> None:
    """A tool that survives its cancellation gives its result to nobody."""
    begun = asyncio.Event()

    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        return ""

    told: list[CallEvent] = []

    async def emit(event: CallEvent) -> None:
        told.append(event)

    tools = ToolSet([stubborn])
    runner = CallRunner(tools, gate=ApprovalGate(tools), emit=emit)
    runner.start(ToolCall("a", "stubborn"))
    await begun.wait()
    runner.discard()
    await runner.aclose()
    assert (runner.statuses, told) == ({}, [])


async def test_hooks_stand_around_a_call() -> None:
    tools = ToolSet([echo])
    seen: list[object] = []

    async def gate(call: ToolCall) -> Verdict:
        seen.append(("gate", call.id))
        return Run(say(call.id, "changed")) if call.id == "a" else await ApprovalGate(tools)(call)

    async def around(call: ToolCall, run: Execution) -> ToolCallStatus:
        seen.append(("around", call.arguments))
        return await run()

    async def emit(event: CallEvent) -> None:
        assert isinstance(event, Ended)
        seen.append(("ended", event.call.id, event.status.result.content))

    runner = CallRunner(tools, gate=gate, around=around, emit=emit)
    (status,) = await runner.run([say("a", "x")])
    assert status.result.content == runner.statuses["a"].result.content == "changed"
    assert seen == [("gate", "a"), ("around", '{"text":"changed"}'), ("ended", "a", "changed")]


async def test_call_that_waits_is_gated_again() -> None:
    @tool(needs_approval=True)
    async def act() -> str:
        return "acted"

    tools = ToolSet([act])
    runner = CallRunner(tools, gate=ApprovalGate(tools))
    assert await runner.run([ToolCall("a", "act")]) == []
    assert list(runner.waiting) == ["a"]
    runner.gate = ApprovalGate(tools, {"a": Approve()})
    (status,) = await runner.run([ToolCall("a", "act")])
    assert (status.result.content, runner.waiting) == ("acted", {})


async def test_tool_cancelling_its_task_has_result() -> None:
    async def end() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    found = await run_calls([ToolCall("a", "end"), say("b", "x")], [end, echo])
    assert ["cancelled" in status.result.content for status in found] == [True, False]
