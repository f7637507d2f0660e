"""Calls within a run: progress, eager starts, limits, what the application keeps, deadlines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

import llmstream as ls
from llmstream.chats.content import Image
from llmstream.events import StepFinish, ToolCall, ToolResult
from llmstream.grammar import check
from llmstream.simulator import Call, Cut, Turn
from llmstream.testing import ScriptedModel


async def events_of(run: ls.agent.AgentRun) -> list[ls.Event]:
    events = [event async for event in run]
    assert check(events) == []
    return events


def results(events: list[ls.Event]) -> list[ToolResult]:
    return [e for e in events if isinstance(e, ToolResult)]


async def test_all_calls_come_before_any_result() -> None:  # case 46
    @ls.tool(eager=True)
    async def quick(n: int) -> int:
        return n

    model = ScriptedModel(Turn(calls=(Call("quick", {"n": 1}), Call("quick", {"n": 2}))), "Done.")
    events = await events_of(ls.Agent(model, tools=[quick]).stream("Go"))
    kinds = [type(e) for e in events if isinstance(e, ToolCall | ToolResult | StepFinish)]
    assert kinds[:5] == [ToolCall, ToolCall, StepFinish, ToolResult, ToolResult]


async def test_eager_tool_starts_before_the_end() -> None:
    log: list[str] = []

    @ls.tool(eager=True)
    async def eager() -> str:
        log.append("eager")
        return "e"

    @ls.tool
    async def patient() -> str:
        log.append("patient")
        return "p"

    model = ScriptedModel(Turn(calls=(Call("patient"), Call("eager"), Call("patient"))), "Done.")
    run = ls.Agent(model, tools=[eager, patient]).stream("Go")
    async for event in run:
        if isinstance(event, StepFinish):
            log.append("response over")
    assert log == ["eager", "response over", "patient", "patient", "response over"]
    assert [r.content for r in run.messages()[2].tool_results] == ["p", "e", "p"]


async def test_failed_response_drops_eager_results() -> None:
    """A note stands in place of the result."""
    ended: list[str] = []

    @ls.tool(eager=True)
    async def lookup(n: int) -> str:
        try:
            if n:
                await asyncio.Event().wait()
        finally:
            ended.append(str(n))
        return "found"

    turn = Turn(
        text="Hm.",
        calls=(Call("lookup", {"n": 0}), Call("lookup", {"n": 1}), Call("lookup", {"n": 2})),
        fault=Cut(after_events=14),
    )
    run = ls.Agent(ScriptedModel(turn), tools=[lookup]).stream("Go")
    events = []
    with pytest.raises(ls.LLMStreamError):
        async for event in run:
            events.append(event)
    assert check(events) == []
    notes = results(events)
    assert [n.tool_call_id for n in notes] == [e.tool_call_id for e in events if isinstance(e, ToolCall)]
    assert notes
    assert all(n.is_error and "discarded" in n.result for n in notes)
    assert len(ended) == len(notes)
    assert [m.role for m in run.messages()] == ["user", "assistant"]
    assert run.messages()[1].tool_calls == []


async def test_unfinished_response_runs_no_tool() -> None:  # case 52, RELIABILITY 33
    ran = []

    @ls.tool
    async def act() -> None:
        ran.append(1)

    for clean in (True, False):
        turn = Turn(calls=(Call("act"), Call("act")), fault=Cut(after_events=9, clean=clean))
        with pytest.raises(ls.LLMStreamError):
            await ls.Agent(ScriptedModel(turn), tools=[act]).run("Go")
    assert ran == []


async def test_empty_response_at_limit_is_error() -> None:  # case 52
    run = ls.Agent(ScriptedModel(Turn(reasoning="Hm", finish_reason="length"))).stream("Go")
    events = []
    with pytest.raises(ls.IncompleteStream, match="token limit"):
        async for event in run:
            events.append(event)
    assert check(events) == []
    assert run.finish_reason == "error"


async def test_filtered_response_runs_no_calls() -> None:
    ran = []

    @ls.tool
    async def act() -> None:
        ran.append(1)

    model = ScriptedModel(Turn(calls=(Call("act"),), finish_reason="content-filter"))
    run = ls.Agent(model, tools=[act]).stream("Go")
    await events_of(run)
    assert (ran, len(model.requests)) == ([], 1)
    assert run.messages()[-1].tool_results[0].is_error


async def test_progress_gives_preliminary_results() -> None:
    @ls.tool
    async def count(to: int) -> AsyncIterator[dict[str, int]]:
        for n in range(to):
            yield {"n": n}

    @ls.tool
    async def report(context: ls.ToolContext) -> str:
        await context.report("half")
        return "whole"

    model = ScriptedModel(Turn(calls=(Call("count", {"to": 2}), Call("report"))), "Done.")
    found = results(await events_of(ls.Agent(model, tools=[count, report]).stream("Go")))
    by_tool = {
        name: [(r.result, r.preliminary) for r in found if r.tool_name == name]
        for name in ("count", "report")
    }
    assert by_tool["count"] == [({"n": 0}, True), ({"n": 1}, True), ({"n": 1}, False)]
    assert by_tool["report"] == [("half", True), ("whole", False)]


async def test_tool_ahead_of_reader_waits() -> None:
    told = 0

    @ls.tool
    async def chatty() -> AsyncIterator[int]:
        nonlocal told
        for n in range(5000):
            told = n
            yield n

    run = ls.Agent(ScriptedModel(Turn(calls=(Call("chatty"),)), "Done."), tools=[chatty]).stream("Go")
    async with run:
        async for event in run:
            if isinstance(event, ToolResult):
                for _ in range(20):
                    await asyncio.sleep(0)
                break
        assert told < 1000


async def test_events_hold_json_messages_objects() -> None:
    """Events carry JSON values; the application keeps its objects."""
    secret = object()

    @ls.tool
    async def search() -> ls.ToolOutput:
        return ls.ToolOutput({"hits": 2}, value=secret)

    @ls.tool
    async def draw() -> Image:
        return Image(url="https://example.org/a.png")

    model = ScriptedModel(Turn(calls=(Call("search"), Call("draw"))), "Done.")
    run = ls.Agent(model, tools=[search, draw]).stream("Go")
    found = results(await events_of(run))
    assert found[0].result == {"hits": 2}
    message = run.messages()[2]
    assert [r.content for r in message.tool_results] == ['{"hits":2}', ""]
    assert run.values[found[0].tool_call_id] is secret
    assert run.statuses[0].value is secret
    assert message.tool_results[1].parts == (Image(url="https://example.org/a.png"),)


async def test_a_tool_may_ask_for_its_context() -> None:
    seen: list[ls.ToolContext] = []

    @ls.tool
    async def who(name: str, context: ls.ToolContext) -> str:
        seen.append(context)
        return f"{context.deps['user']} asked for {name}"

    assert list(who.spec.input_schema["properties"]) == ["name"]
    model = ScriptedModel(Turn(calls=(Call("who", {"name": "Ada"}),)), "Done.")
    agent = ls.Agent(model, tools=[who], deps={"user": "Bo"}, deadlines=ls.Deadlines(total_s=60))
    run = agent.stream("Go")
    await run.collect()
    (context,) = seen
    assert run.messages()[2].tool_results[0].content == "Bo asked for Ada"
    assert (context.tool_name, context.step) == ("who", 0)
    assert context.messages[-1].tool_calls[0].id == context.call_id
    assert context.deadline is not None
    assert 0 < (context.remaining_s or 0) <= 60
    other = ls.Agent(ScriptedModel(Turn(calls=(Call("who", {"name": "Ada"}),)), "Done."), tools=[who])
    await other.stream("Go", deps={"user": "Cy"}).collect()
    assert seen[-1].deps == {"user": "Cy"}


async def test_the_total_deadline_holds_for_tools(llm_virtual_clock) -> None:
    cleaned = []

    @ls.tool
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(1)

    model = ScriptedModel(Turn(calls=(Call("hang"), Call("hang"))))
    run = ls.Agent(model, tools=[hang], deadlines=ls.Deadlines(total_s=500)).stream("Go")
    events = []
    with pytest.raises(ls.DeadlineExceeded) as raised:
        async for event in run:
            events.append(event)
    assert check(events) == []
    assert raised.value.reason == "total"
    assert llm_virtual_clock.elapsed_s == pytest.approx(500)
    assert cleaned == [1, 1]
    assert [r.is_error for r in run.messages()[-1].tool_results] == [True, True]


async def test_calls_bounded_by_tool_concurrency() -> None:
    running, most = 0, 0

    @ls.tool(concurrency=2)
    async def busy() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    run = ls.Agent(ScriptedModel(Turn(calls=(Call("busy"),) * 6), "Done."), tools=[busy]).stream("Go")
    await run.collect()
    assert most == 2
    assert len(run.statuses) == 6


@pytest.mark.parametrize("sequential", [True, False])
async def test_raising_tool_is_a_failed_result(
    sequential: bool,
) -> None:  # case 48
    @ls.tool(sequential=sequential)
    async def fail(n: int) -> int:
        if n == 1:
            raise ZeroDivisionError
        return n

    calls = tuple(Call("fail", {"n": n}) for n in range(3))
    run = ls.Agent(ScriptedModel(Turn(calls=calls), "Recovered."), tools=[fail]).stream("Go")
    assert (await run.collect()).text == "Recovered."  # case 51
    assert [s.error for s in run.statuses] == [None, "ZeroDivisionError", None]


async def test_self_cancelled_tool_has_failed() -> None:  # case 51
    @ls.tool
    async def quits() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    run = ls.Agent(ScriptedModel(Turn(calls=(Call("quits"),)), "Done."), tools=[quits]).stream("Go")
    await events_of(run)
    assert run.statuses[0].result.is_error
    assert "cancelled" in run.statuses[0].result.content


async def test_base_exception_of_tool_is_raised() -> None:  # RELIABILITY 43
    """Its siblings stop."""

    class Halt(BaseException):
        pass

    cleaned = []

    @ls.tool
    async def halt() -> None:
        raise Halt

    @ls.tool
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(1)

    run = ls.Agent(ScriptedModel(Turn(calls=(Call("hang"), Call("halt")))), tools=[halt, hang]).stream("Go")
    with pytest.raises(Halt):
        await run.collect()
    assert cleaned == [1]
    assert [r.is_error for r in run.messages()[-1].tool_results] == [True, True]


async def test_leaving_waits_for_tool_cleanup() -> None:
    log: list[str] = []

    @ls.tool
    async def slow() -> AsyncIterator[str]:
        try:
            yield "begun"
            await asyncio.Event().wait()
        finally:
            with anyio.CancelScope(shield=True):
                await asyncio.sleep(0)
            log.append("cleaned")

    async with ls.Agent(ScriptedModel(Turn(calls=(Call("slow"),))), tools=[slow]).stream("Go") as run:
        async for event in run:
            if isinstance(event, ToolResult):
                break
    assert log == ["cleaned"]
    assert "cancelled" in run.messages()[-1].tool_results[0].content


async def test_midrun_message_steers_next_step() -> None:
    model = ScriptedModel("First.", "Second.")
    run = ls.Agent(model).stream("Go")
    async for event in run:
        if isinstance(event, StepFinish) and event.step == 0:
            run.send("And now?")
    assert [m.text for m in run.messages()] == ["Go", "First.", "And now?", "Second."]
    with pytest.raises(ls.InvalidRequest):
        run.send("Too late")


async def test_message_waits_for_call_results() -> None:
    run: Any = None

    @ls.tool
    async def look() -> str:
        run.send(ls.Message.user("Hurry."))
        return "seen"

    run = ls.Agent(ScriptedModel(Turn(calls=(Call("look"),)), "Done."), tools=[look]).stream("Go")
    await events_of(run)
    assert [m.role for m in run.messages()] == ["user", "assistant", "tool", "user", "assistant"]


async def test_a_run_has_one_reader() -> None:
    run = ls.Agent(ScriptedModel("Hi")).stream("Go")
    first = aiter(run)
    await anext(first)
    with pytest.raises(ls.InvalidRequest):
        aiter(run)
    await first.aclose()


@pytest.mark.slow
async def test_work_is_linear_in_number_of_calls() -> None:
    """Function calls are counted, of Python and of C: time would depend on the machine."""

    async def look(number: int) -> str:
        """Look, and let others go on meanwhile."""
        await asyncio.sleep(0)
        return "seen"

    async def cost(calls: int) -> int:
        count = 0

        def counted(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        turn = Turn(calls=tuple(Call("look", {"number": n}) for n in range(calls)))
        run = ls.Agent(ScriptedModel(turn, "Done."), tools=[look]).stream("Go")
        sys.setprofile(counted)
        try:
            await run.collect()
        finally:
            sys.setprofile(None)
        assert len(run.statuses) == calls
        return count

    await cost(10)  # what is done once is done
    assert await cost(2_000) < 2.2 * await cost(1_000)
