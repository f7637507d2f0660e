"""The loop over a simulated vendor, in each dialect."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.events import (
    Finish,
    StepFinish,
    StepStart,
    StreamStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.grammar import check
from llmstream.simulator import Call, Cut, Script, Simulator, Turn

SIMULATED = ["sim:demo", "sim-anthropic:demo", "sim-ollama:demo"]


@ls.tool
def weather(city: str) -> str:
    """Looks up the weather.

    Args:
        city: where
    """
    return f"Rain in {city}"


def scripted(simulator: Simulator) -> ls.Model:
    return ls.Model("openai:m", base_url=f"{simulator.url}/v1", api_key="key")


@pytest.mark.parametrize("spec", SIMULATED)
async def test_run_is_one_grammar_over_all_steps(spec: str) -> None:
    run = ls.Agent(spec, tools=[weather], instructions="Be brief.").stream("How is the weather in Oslo?")
    events = [event async for event in run]
    assert check(events) == []
    assert isinstance(events[0], StreamStart)
    assert [e.step for e in events if isinstance(e, StepStart)] == [0, 1]
    finishes = [e for e in events if isinstance(e, StepFinish)]
    assert [e.finish_reason for e in finishes] == ["tool-calls", "stop"]
    (call,) = [e for e in events if isinstance(e, ToolCall)]
    (result,) = [e for e in events if isinstance(e, ToolResult)]
    assert result.tool_call_id == call.tool_call_id
    assert result.result == "Rain in Oslo"
    assert "Rain in Oslo" in run.text
    assert [m.role for m in run.messages()] == ["system", "user", "assistant", "tool", "assistant"]
    last = events[-1]
    assert isinstance(last, Finish)
    assert last.usage.output_tokens == sum(e.usage.output_tokens or 0 for e in finishes)


async def test_each_step_reports_dropped_content() -> None:
    script = Script((Turn(calls=(Call("weather", {"city": "Oslo"}),)), Turn(text="Rain.")))
    async with Simulator(script) as simulator:
        model = ls.Model("openai:gpt-4o", base_url=f"{simulator.url}/v1", api_key="key")
        run = ls.Agent(model, tools=[weather], settings=ls.Settings(top_k=3)).stream("Go")
        events = [event async for event in run]
    starts = [event for event in events if isinstance(event, StreamStart | StepStart)]
    assert [type(start) for start in starts] == [StreamStart, StepStart, StepStart]
    assert all("top_k" in str(start.warnings) for start in starts)


async def test_run_gives_the_last_message() -> None:
    message = await ls.Agent("sim:demo", tools=[weather]).run("How is the weather in Oslo?")
    assert "Rain in Oslo" in message.text


async def test_steps_are_limited() -> None:
    async with Simulator(Script((Turn(calls=(Call("weather", {"city": "Oslo"}),)),))) as simulator:
        run = ls.Agent(scripted(simulator), tools=[weather], max_steps=3).stream("Go")
        events = [event async for event in run]
    assert check(events) == []
    assert len(simulator.requests) == 3
    assert run.finish_reason == "tool-calls"


async def test_declared_calls_end_run_and_pend() -> None:
    async with Simulator(Script((Turn(calls=(Call("ask", {}),)),))) as simulator:
        run = ls.Agent(scripted(simulator), tools=[ls.ToolSpec("ask", "Asks a person.")]).stream("Go")
        events = [event async for event in run]
    assert check(events) == []
    assert len(simulator.requests) == 1
    assert run.finish_reason == "tool-calls"


async def test_unknown_tool_is_an_error_result() -> None:
    turns = (Turn(calls=(Call("wether", {}),)), Turn(text="Sorry."))
    async with Simulator(Script(turns)) as simulator:
        run = ls.Agent(scripted(simulator), tools=[weather]).stream("Go")
        events = [event async for event in run]
    (result,) = [e for e in events if isinstance(e, ToolResult)]
    assert result.is_error
    assert "weather" in result.result
    assert run.text == "Sorry."


async def test_failed_step_runs_no_tools() -> None:
    """The error is raised after the finish event."""
    ran = []

    @ls.tool
    def act() -> str:
        """Has side effects."""
        ran.append(1)
        return "done"

    cut = Turn(text="Well", calls=(Call("act", {}),), fault=Cut(after_events=6))
    async with Simulator(Script((cut,))) as simulator:
        run = ls.Agent(scripted(simulator), tools=[act]).stream("Go")
        events = []
        with pytest.raises(ls.LLMStreamError):
            async for event in run:
                events.append(event)
    assert check(events) == []
    assert ran == []
    assert run.error is not None


async def test_equal_ids_of_two_steps_are_distinct() -> None:
    called = [
        ToolInputStart("weather", "same"),
        ToolInputDelta('{"city": "A"}', "same"),
        ToolInputEnd("same"),
        ToolCall("weather", '{"city": "A"}', "same"),
    ]
    again = Turn(events=(*called, Finish("tool-calls")))
    turns = (again, again, Turn(text="Done."))
    async with Simulator(Script(turns)) as simulator:
        run = ls.Agent(scripted(simulator), tools=[weather]).stream("Go")
        events = [event async for event in run]
    assert check(events) == []
    assert [e.tool_call_id for e in events if isinstance(e, ToolCall)] == ["same", "1/same"]


async def test_leaving_a_run_stops_it() -> None:
    async with ls.Agent("sim:demo", tools=[weather]).stream("How is the weather?") as run:
        async for event in run:
            if isinstance(event, ToolCall):
                break
    assert [m.role for m in run.messages()] == ["user", "assistant"]


def test_an_agent_needs_at_least_one_step() -> None:
    with pytest.raises(ls.InvalidRequest):
        ls.Agent("sim:demo", max_steps=0)
