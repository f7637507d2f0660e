"""A step of a long run costs as much as an early one: counted, in an agent of 300 steps."""

from __future__ import annotations

import pytest
from stepcount.steps import Counting

from llmstream.agent import Agent, Hooks, StepPlan
from llmstream.agent.context import cut_tool_results, sliding_window, summarise, token_budget
from llmstream.events import (
    Finish,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.tools import ToolContext

EARLY, LATE = 30, 300


class Looking:
    """Calls a tool at each step, under an id of its own or always the same, with or without metadata."""

    def __init__(self, *, marked: bool = False) -> None:
        self._marked = marked

    def turn(self, request, number):
        if not self._marked:
            return Turn(text="Looking.", calls=(Call("look", {"x": number}),))
        said, call_id = {"openai": {"item_id": f"i{number}"}}, f"c{number}"
        return Turn(
            events=(
                TextStart("0", said),
                TextDelta("Looking.", "0"),
                TextEnd("0", provider_metadata=said),
                ToolInputStart("look", call_id, provider_metadata=said),
                ToolInputDelta('{"x":1}', call_id),
                ToolInputEnd(call_id),
                ToolCallEvent("look", '{"x":1}', call_id, provider_metadata=said),
                Finish("tool-calls"),
            )
        )


def look(x: int) -> str:
    """Looks."""
    return "found " * 20


def look_back(x: int, context: ToolContext) -> str:
    """Looks, and could look at the conversation."""
    return f"found in step {context.step}"


look_back.__name__ = "look"


async def steps_at(agent: Agent, *numbers: int) -> list[int]:
    """The executed lines of these steps."""
    counted, counting = [], None
    run = agent.stream("Go")
    async for event in run:
        if isinstance(event, StepStart):
            if counting is not None:
                counting.__exit__()
                counted.append(counting.lines)
                counting = None
            if event.step in numbers:
                counting = Counting().__enter__()
            if event.step > max(numbers):
                break
    await run.aclose()
    return counted


def scripted(tool=look, *, marked=False, **options) -> Agent:
    return Agent(ScriptedModel(Looking(marked=marked)), tools=[tool], max_steps=LATE + 5, **options)


def summary() -> ScriptedModel:
    return ScriptedModel("It looked.", repeat_last=True)


@pytest.mark.parametrize(
    "agent",
    [
        lambda tmp: scripted(),
        lambda tmp: scripted(marked=True),
        lambda tmp: scripted(look_back),
        lambda tmp: scripted(look_back, marked=True),
        lambda tmp: scripted(hooks=Hooks(after_model=lambda state, m: None)),
        lambda tmp: scripted(stop_when=lambda state: state.total_usage.total_tokens == -1),
        lambda tmp: scripted(journal=str(tmp / "journal")),
        lambda tmp: scripted(observe=lambda observation: None),
        lambda tmp: scripted(marked=True, context_effects=lambda messages: messages),
        lambda tmp: scripted(marked=True, context_effects=sliding_window(2)),
        lambda tmp: scripted(context_effects=token_budget(500)),
        lambda tmp: scripted(context_effects=token_budget(10**6)),
        lambda tmp: scripted(context_effects=[cut_tool_results(100), token_budget(500)]),
        lambda tmp: scripted(marked=True, context_effects=cut_tool_results(1000, replace=True)),
        lambda tmp: scripted(marked=True, context_effects=cut_tool_results(100, replace=True)),
        lambda tmp: scripted(context_effects=[cut_tool_results(100, replace=True), token_budget(10**6)]),
        lambda tmp: scripted(context_effects=sliding_window(2, replace=True)),
        lambda tmp: scripted(context_effects=summarise(summary(), when_tokens_over=500)),
        lambda tmp: scripted(context_effects=summarise(summary(), when_tokens_over=10**6)),
        lambda tmp: scripted(instructions=lambda state: "Look."),
        lambda tmp: scripted(prepare_step=lambda state: StepPlan(messages=state.conversation)),
    ],
    ids=[
        "plain",
        "metadata",
        "context",
        "context and metadata",
        "hooks",
        "conditions",
        "journal",
        "observed",
        "effect",
        "window",
        "budget",
        "large budget",
        "results and budget",
        "nothing to replace yet",
        "replaced at each step",
        "replaced, and budget",
        "replaced by a window",
        "summary",
        "no summary yet",
        "instructions",
        "plan",
    ],
)
async def test_late_step_costs_as_much_as_early(agent, tmp_path):
    early, late = await steps_at(agent(tmp_path), EARLY, LATE)
    assert late <= 1.5 * early
