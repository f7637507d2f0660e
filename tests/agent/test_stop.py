"""When a run ends: conditions, limits, and what is kept."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.agent import cost_over, elapsed_over, no_progress, step_count, tokens_over, tool_called
from llmstream.grammar import check
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel


@ls.tool
async def look(at: str = "") -> str:
    """Looks."""
    return f"seen {at}"


@ls.tool
async def done() -> str:
    """Ends it."""
    return "kept"


LOOKS = Turn(calls=(Call("look", {"at": "x"}),), usage=ls.Usage(10, 5, 15))


async def test_named_tool_ends_run_with_its_result() -> None:  # case 47
    model = ScriptedModel(Turn(calls=(Call("done"), Call("look", {"at": "y"}))), "never said")
    run = ls.Agent(model, tools=[look, done], stop_when=tool_called("done")).stream("Go")
    events = [event async for event in run]
    assert check(events) == []
    assert len(model.requests) == 1
    assert run.stopped_by == "tool_called('done')"
    assert [r.content for r in run.messages()[-1].tool_results] == ["kept", "seen y"]


async def test_a_tool_may_end_the_run_itself() -> None:  # case 47
    @ls.tool
    def finish() -> ls.ToolOutput:
        return ls.ToolOutput("that is all", stop=True)

    model = ScriptedModel(Turn(calls=(Call("finish"),)), "never said")
    run = ls.Agent(model, tools=[finish]).stream("Go")
    await run.collect()
    assert len(model.requests) == 1
    assert run.messages()[-1].tool_results[0].content == "that is all"
    assert "finish" in str(run.stopped_by)


async def test_step_limit_keeps_steps_and_results() -> None:  # case 51
    model = ScriptedModel(LOOKS, repeat_last=True)
    run = ls.Agent(model, tools=[look], max_steps=3).stream("Go")
    await run.collect()
    assert len(model.requests) == 3
    assert len(run.steps) == 3
    assert [status.error for status in run.statuses] == [None, None, None]
    assert run.stopped_by == "step_count(3)"
    assert [m.role for m in run.messages()] == ["user", *["assistant", "tool"] * 3]


async def test_earlier_text_if_last_step_is_calls() -> None:  # case 50
    model = ScriptedModel(Turn(text="The answer is 4.", calls=(Call("look"),)), Turn(calls=(Call("done"),)))
    run = ls.Agent(model, tools=[look, done], stop_when=[tool_called("done")]).stream("Go")
    assert (await run.collect()).text == "The answer is 4."
    assert run.text == "The answer is 4."


async def test_tokens_are_a_limit() -> None:
    model = ScriptedModel(LOOKS, repeat_last=True)
    run = ls.Agent(model, tools=[look], stop_when=[tokens_over(29)]).stream("Go")
    await run.collect()
    assert len(model.requests) == 2
    assert run.total_usage == ls.Usage(20, 10, 30)


async def test_cost_limits_where_prices_are_known() -> None:
    model = ScriptedModel(LOOKS, model="m", repeat_last=True)
    asked: list[str] = []

    def price(name: str, usage: ls.Usage) -> float | None:
        asked.append(name)
        return (usage.total_tokens or 0) * 0.01

    run = ls.Agent(model, tools=[look], price=price, stop_when=cost_over(0.4)).stream("Go")
    await run.collect()
    assert len(run.steps) == 3
    assert run.cost_estimate == pytest.approx(0.45)
    assert [step.cost_estimate for step in run.steps] == [pytest.approx(0.15)] * 3
    assert set(asked) == {"scripted:m"}


async def test_without_prices_there_is_no_estimate() -> None:
    run = ls.Agent(ScriptedModel("Hi"), stop_when=cost_over(0)).stream("Go")
    await run.collect()
    assert run.cost_estimate is None


async def test_time_is_a_limit() -> None:
    run = ls.Agent(ScriptedModel(LOOKS), tools=[look], stop_when=elapsed_over(0)).stream("Go")
    await run.collect()
    assert len(run.steps) == 1


async def test_repeated_calls_are_no_progress() -> None:
    """The same calls had the same results."""
    other = Turn(calls=(Call("look", {"at": "y"}),))
    model = ScriptedModel(LOOKS, other, LOOKS, LOOKS, LOOKS, LOOKS)
    run = ls.Agent(model, tools=[look], stop_when=no_progress(3)).stream("Go")
    await run.collect()
    assert len(run.steps) == 5
    assert run.stopped_by == "no_progress(3)"


async def test_any_state_function_is_a_condition() -> None:
    def enough(state: ls.agent.RunState) -> bool:
        return len(state.messages) > 4

    run = ls.Agent(ScriptedModel(LOOKS, repeat_last=True), tools=[look], stop_when=[enough]).stream("Go")
    await run.collect()
    assert run.stopped_by == "enough"
    assert len(run.steps) == 2


async def test_tokens_are_summed_by_model() -> None:
    cheap = ScriptedModel(Turn(text="Done.", usage=ls.Usage(1, 1, 2)), model="cheap")

    def prepare(state: ls.agent.RunState) -> ls.StepPlan | None:
        return ls.StepPlan(model=cheap) if state.step else None

    run = ls.Agent(ScriptedModel(LOOKS, model="dear"), tools=[look], prepare_step=prepare).stream("Go")
    await run.collect()
    assert run.usage_by_model == {
        "scripted:dear": ls.Usage(10, 5, 15),
        "scripted:cheap": ls.Usage(1, 1, 2),
    }
    assert run.total_usage == ls.Usage(11, 6, 17)
    assert [step.model for step in run.steps] == ["scripted:dear", "scripted:cheap"]


@pytest.mark.parametrize("wrong", [lambda: step_count(0), lambda: no_progress(1)])
def test_impossible_conditions_are_refused(wrong: object) -> None:
    with pytest.raises(ls.InvalidRequest):
        wrong()  # type: ignore[operator]
    with pytest.raises(ls.InvalidRequest):
        ls.Agent("sim:demo", stop_when=[5])  # type: ignore[list-item]
