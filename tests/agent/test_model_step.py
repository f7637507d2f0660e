"""What an application says on the way and cannot mean is an InvalidRequest, and the history stays whole."""

from __future__ import annotations

from typing import Any

import pytest

import llmstream as ls
from llmstream.agent import Deny, Hooks, Rewrite, Skip
from llmstream.testing import Call, ScriptedModel, Turn


async def look() -> str:
    """Look."""
    return "seen"


SAID: list[dict[str, Any]] = [
    {"prepare_step": lambda state: {"model": "sim:demo"}},
    {"prepare_step": lambda state: ls.StepPlan(messages="Hello")},  # type: ignore[arg-type]
    {"prepare_step": lambda state: ls.StepPlan(messages=[5])},  # type: ignore[list-item]
    {"prepare_step": lambda state: ls.StepPlan(model=5)},  # type: ignore[arg-type]
    {"prepare_step": lambda state: ls.StepPlan(model="demo")},
    {"hooks": Hooks(before_model=lambda state: Rewrite(5))},
    {"hooks": Hooks(before_model=lambda state: Skip(object()))},
    {"hooks": Hooks(before_tool=lambda state, call: Rewrite(object()))},
    {"hooks": Hooks(after_tool=lambda state, call, status: Deny("no"))},
    {"hooks": Hooks(after_tool=lambda state, call, status: "text")},  # type: ignore[arg-type,return-value]
]


@pytest.mark.parametrize("options", SAID)
async def test_invalid_plan_ends_run_with_error(options: dict[str, Any]) -> None:
    """The error is typed."""
    run = ls.Agent(ScriptedModel(Turn(calls=(Call("look"),)), "Done."), tools=[look], **options).stream("Go")
    events = []
    with pytest.raises(ls.InvalidRequest):
        async for event in run:
            events.append(event)
    assert ls.grammar.check(events) == []
    calls = [call.id for message in run.messages() for call in message.tool_calls]
    assert calls == [result.tool_call_id for message in run.messages() for result in message.tool_results]


async def test_repair_gives_a_call_or_none() -> None:
    model = ScriptedModel(Turn(calls=(Call("lok"),)), "Done.")
    run = ls.Agent(model, tools=[look], repair=lambda call, error: "look").stream("Go")  # type: ignore[arg-type,return-value]
    with pytest.raises(ls.InvalidRequest, match="repair"):
        await run.collect()


async def test_instructions_may_take_no_argument():
    model = ScriptedModel("Hi")
    await ls.Agent(model, instructions=lambda: "Be brief.").run("?")
    assert model.requests[0].messages[0].text == "Be brief."
