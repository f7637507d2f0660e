"""A run of an agent is a span; its calls and its tools are below it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import llmstream as ls
from llmstream.agent import (
    AgentObservation,
    CallObserved,
    Hooks,
    RunFinished,
    RunStarted,
    Stop,
    ToolFinished,
    ToolStarted,
)
from llmstream.middleware import fallback, wrap
from llmstream.simulator import Call, Turn
from llmstream.testing import Refuse, Script, ScriptedModel, Simulator, Stall, no_leaks

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed (extra: test)")

from opentelemetry import trace

TWO = Turn(calls=(Call("add", {"a": 1}), Call("fail", {"a": 2})))


@ls.tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


@ls.tool
async def fail(a: int) -> int:
    """Fail."""
    raise KeyError(a)


def served(*turns: Turn | str) -> Simulator:
    return Simulator(Script(tuple(Turn(text=turn) if isinstance(turn, str) else turn for turn in turns)))


def asked(simulator: Simulator, name: str = "any") -> ls.Model:
    return ls.Model(
        f"anthropic:{name}", base_url=simulator.url, api_key="not-used", retry=ls.Retry(max_retries=0)
    )


def tree(spans: Any) -> dict[str, list[str]]:
    """The names of the spans below each, in order of their beginnings."""
    names = {span.context.span_id: span.name for span in spans}
    found: dict[str, list[str]] = {}
    for span in sorted(spans, key=lambda span: span.start_time):
        parent = names[span.parent.span_id] if span.parent is not None else ""
        found.setdefault(parent, []).append(span.name)
    return found


def named(spans: Any, name: str) -> Any:
    (span,) = [span for span in spans if span.name == name]
    return span


async def test_calls_and_tools_are_below_the_run(backend: Any) -> None:
    async with served(TWO, "Done.") as simulator:
        agent = ls.Agent(asked(simulator), name="clerk", tools=[add, fail])
        backend.instrument(agent)
        async with agent.stream("A secret question") as run:
            async for _ in run:
                assert not trace.get_current_span().get_span_context().is_valid
    assert tree(backend.spans) == {
        "": ["invoke_agent clerk"],
        "invoke_agent clerk": ["chat any", "execute_tool add", "execute_tool fail", "chat any"],
    }
    whole = dict(named(backend.spans, "invoke_agent clerk").attributes)
    assert whole["gen_ai.operation.name"] == "invoke_agent"
    assert whole["gen_ai.agent.name"] == "clerk"
    assert whole["gen_ai.request.model"] == "any"
    assert whole["gen_ai.response.finish_reasons"] == ("stop",)
    assert whole["gen_ai.usage.output_tokens"] == run.total_usage.output_tokens
    assert (whole["llmstream.steps"], whole["llmstream.left"]) == (2, False)
    good, bad = (named(backend.spans, f"execute_tool {name}") for name in ("add", "fail"))
    assert good.attributes["gen_ai.tool.name"] == "add"
    assert good.attributes["gen_ai.tool.description"] == "Add one."
    assert good.attributes["gen_ai.tool.type"] == "function"
    assert good.attributes["gen_ai.tool.call.id"] == run.statuses[0].tool_call_id
    assert good.status.status_code is trace.StatusCode.UNSET
    assert bad.attributes["error.type"] == "KeyError"
    assert bad.status.status_code is trace.StatusCode.ERROR
    for span in backend.spans:
        assert "secret" not in span.to_json()
        assert not [name for name in span.attributes if "arguments" in name or "messages" in name]


async def test_tool_content_recorded_if_requested(backend: Any) -> None:
    """The arguments and results of tools."""
    told: list[AgentObservation] = []
    async with served(TWO, "Done.") as simulator:
        agent = ls.Agent(asked(simulator), tools=[add, fail], observe=told.append)
        backend.instrument(agent, content=True)
        await agent.run("A secret question")
    span = named(backend.spans, "execute_tool add")
    assert json.loads(span.attributes["gen_ai.tool.call.arguments"]) == {"a": 1}
    assert span.attributes["gen_ai.tool.call.result"] == "2"
    calls = [span for span in backend.spans if span.name == "chat any"]
    assert [len(json.loads(span.attributes["gen_ai.input.messages"])) for span in calls] == [1, 3]
    (_, result) = json.loads(calls[1].attributes["gen_ai.input.messages"])[2]["parts"]
    assert (result["type"], "KeyError" in result["response"]) == ("tool_call_response", True)
    assert "secret" not in repr(told)


async def test_tool_work_is_below_its_span(backend: Any) -> None:
    """The work of a sub-agent too."""
    tracer = backend.tracers.get_tracer("test")

    @ls.tool
    def look() -> str:
        """Look."""
        with tracer.start_as_current_span("look it up"):
            return "seen"

    asks = Turn(calls=(Call("look"), Call("helper", {"prompt": "Help"})))
    async with served(asks, "Helped.", "Done.") as simulator:
        helper = ls.Agent(asked(simulator, "small"), name="helper")
        agent = ls.Agent(asked(simulator), name="boss", tools=[look, helper.as_tool("helper")])
        observer = backend.instrument(agent)
        helper.observe = observer
        with tracer.start_as_current_span("mine"):
            await agent.run("Hi")
    assert tree(backend.spans) == {
        "": ["mine"],
        "mine": ["invoke_agent boss"],
        "invoke_agent boss": ["chat any", "execute_tool look", "execute_tool helper", "chat any"],
        "execute_tool look": ["look it up"],
        "execute_tool helper": ["invoke_agent helper"],
        "invoke_agent helper": ["chat small"],
    }


async def test_tool_span_is_current_while_running(backend: Any) -> None:
    current: list[bool] = []

    def note(*_: Any) -> None:
        current.append(trace.get_current_span().get_span_context().is_valid)

    @ls.tool
    async def look() -> str:
        """Look."""
        await asyncio.sleep(0)
        note()
        return "seen"

    hooks = Hooks(before_tool=note, after_tool=note)
    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("look"),)), "Done."), tools=[look], hooks=hooks)
    backend.instrument(agent)
    await agent.run("Hi")
    assert current == [False, True, False]


async def test_every_models_span_is_below_the_run(backend: Any) -> None:
    """The models of other steps and of a fallback chain too."""
    async with served(Turn(fault=Refuse(status=503))) as broken, served("Done.") as works:
        agent = ls.Agent(wrap(asked(broken, "first"), fallback(asked(works, "second"))), name="a")
        backend.instrument(agent)
        await agent.run("Hi")
        other = ls.Agent(
            asked(broken), name="b", prepare_step=lambda state: ls.StepPlan(model=asked(works, "third"))
        )
        backend.instrument(other)
        await other.run("Hi")
    assert tree(backend.spans) == {
        "": ["invoke_agent a", "invoke_agent b"],
        "invoke_agent a": ["chat first", "chat second"],
        "invoke_agent b": ["chat third"],
    }


async def test_a_run_that_fails_says_why(backend: Any) -> None:
    async with served(Turn(fault=Refuse(status=401))) as simulator:
        agent = ls.Agent(asked(simulator), name="a")
        backend.instrument(agent)
        with pytest.raises(ls.AuthenticationError):
            await agent.run("Hi")
    span = named(backend.spans, "invoke_agent a")
    assert span.attributes["error.type"] == "authentication"
    assert span.status.status_code is trace.StatusCode.ERROR
    points = backend.points()["gen_ai.client.operation.duration"]
    assert {(p.attributes["gen_ai.operation.name"], p.attributes["error.type"]) for p in points} == {
        ("chat", "authentication"),
        ("invoke_agent", "authentication"),
    }


async def test_raising_hook_is_the_runs_error(backend: Any) -> None:
    def broken(state: Any) -> None:
        raise ZeroDivisionError

    agent = ls.Agent(ScriptedModel("a"), hooks=Hooks(before_model=broken))
    backend.instrument(agent)
    with pytest.raises(ZeroDivisionError):
        await agent.run("Hi")
    assert backend.spans[0].name == "invoke_agent"
    assert backend.spans[0].attributes["error.type"] == "ZeroDivisionError"


@pytest.mark.parametrize("way", ["break", "cancel"])
async def test_left_run_ends_all_its_spans(backend: Any, way: str) -> None:
    hanging = asyncio.Event()

    @ls.tool
    async def hang() -> AsyncIterator[str]:
        """Hang."""
        yield "begun"
        hanging.set()
        await asyncio.Event().wait()

    async with served(Turn(calls=(Call("hang"),))) as simulator, no_leaks():
        agent = ls.Agent(asked(simulator), name="a", tools=[hang])
        observer = backend.instrument(agent)
        if way == "cancel":
            task = asyncio.create_task(agent.run("Hi"))
            await hanging.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            async with agent.stream("Hi") as run:
                async for event in run:
                    if isinstance(event, ls.ToolResult):
                        break
    assert named(backend.spans, "execute_tool hang").attributes["error.type"] == "cancelled"
    assert named(backend.spans, "invoke_agent a").attributes["llmstream.left"] is True
    assert not observer._runs._runs
    assert not observer._runs._tools
    assert not observer._calls._spans


async def test_run_left_midresponse_ends_its_spans(backend: Any) -> None:
    async with served(Turn(text="one two three", fault=Stall(after_events=4))) as simulator, no_leaks():
        agent = ls.Agent(asked(simulator), name="a")
        observer = backend.instrument(agent)
        async with agent.stream("Hi") as run:
            async for event in run:
                if isinstance(event, ls.TextDelta):
                    break
    assert named(backend.spans, "chat any").attributes["llmstream.left"] is True
    assert named(backend.spans, "invoke_agent a").attributes["llmstream.left"] is True
    assert not observer._runs._runs


async def test_refused_calls_have_no_spans(backend: Any) -> None:
    """The span of a suspended run shows the suspension."""

    @ls.tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = ls.Agent(
        ScriptedModel(Turn(calls=(Call("pay"),)), "Done.", repeat_last=True), name="a", tools=[pay]
    )
    backend.instrument(agent)
    async with agent.stream("Hi") as run:
        await run.collect()
    chat, span = backend.spans
    assert (chat.name, span.name) == ("chat scripted", "invoke_agent a")
    assert span.attributes["llmstream.suspended"] is True
    assert run.suspended is not None
    (pending,) = run.suspended.pending
    await agent.resume(run.suspended, {pending.approval_id: True}).collect()
    assert tree(backend.spans[2:]) == {
        "": ["invoke_agent a"],
        "invoke_agent a": ["execute_tool pay", "chat scripted"],
    }


async def test_run_observations_pair_without_otel() -> None:
    told: list[AgentObservation] = []
    agent = ls.Agent(
        ScriptedModel(TWO, "Done.", repeat_last=True),
        name="a",
        tools=[add, fail],
        observe=told.append,
        max_steps=1,
    )
    await agent.stream("Hi").collect()
    kinds = [type(observation) for observation in told if not isinstance(observation, CallObserved)]
    assert kinds[:3] == [RunStarted, ToolStarted, ToolStarted]
    assert isinstance(told[-1], RunFinished)
    assert (told[-1].steps, told[-1].left, told[-1].error_code) == (1, False, None)
    ended = [observation for observation in told if isinstance(observation, ToolFinished)]
    assert {(one.name, one.error_type) for one in ended} == {("add", None), ("fail", "KeyError")}
    assert len({observation.run_id for observation in told}) == 1


async def test_an_observer_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def broken(observation: AgentObservation) -> None:
        raise ZeroDivisionError

    agent = ls.Agent(ScriptedModel(TWO, "Done."), tools=[add, fail], observe=broken)
    assert (await agent.run("Hi")).text == "Done."
    assert "an observer failed at RunStarted" in caplog.text


async def test_run_stopped_by_hook_is_not_left() -> None:
    told: list[AgentObservation] = []
    agent = ls.Agent(
        ScriptedModel("a"), hooks=Hooks(before_model=lambda state: Stop("no")), observe=told.append
    )
    async with agent.stream("Hi") as run:
        async for _ in run:
            pass
    assert isinstance(told[-1], RunFinished)
    assert not told[-1].left
