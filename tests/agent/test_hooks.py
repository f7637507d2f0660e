"""Hooks and plans: who may change what on the way, and repair."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

import llmstream as ls
from llmstream.agent import Hooks, Proceed, Rewrite, RunState, Skip, Stop
from llmstream.chats.content import ToolCall
from llmstream.grammar import check
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@ls.tool
async def act(n: int) -> str:
    """Acts."""
    ran.append(n)
    return f"acted {n}"


def one_call(**arguments: Any) -> ScriptedModel:
    return ScriptedModel(Turn(calls=(Call("act", arguments),)), "Done.")


async def result_of(agent: ls.Agent) -> tuple[str, ls.agent.AgentRun]:
    run = agent.stream("Go")
    events = [event async for event in run]
    assert check(events) == []
    (message,) = [m for m in run.messages() if m.role == "tool"]
    return message.tool_results[0].content, run


async def test_plan_changes_apply_to_one_step() -> None:
    """It changes model, tools, tool choice, messages and settings."""
    second = ScriptedModel("Done.", model="second")

    async def prepare(state: RunState) -> ls.StepPlan | None:
        if state.step == 0:
            return None
        short = [ls.Message.user("Summary")]
        return ls.StepPlan(
            model=second, tools=[], tool_choice="none", messages=short, settings=ls.Settings(temperature=0.5)
        )

    first = one_call(n=1)
    run = ls.Agent(first, tools=[act], prepare_step=prepare).stream("Go")
    await run.collect()
    (asked,) = second.requests
    assert [m.text for m in asked.messages] == ["Summary"]
    assert (asked.tools, asked.tool_choice, asked.settings.temperature) == ((), "none", 0.5)
    assert [t.name for t in first.requests[0].tools] == ["act"]
    assert [m.role for m in run.messages()] == ["user", "assistant", "tool", "assistant"]


async def test_before_tool_rewrites_arguments() -> None:
    """The history shows what ran."""
    hooks = Hooks(before_tool=lambda state, call: Rewrite({"n": 2}))
    said, run = await result_of(ls.Agent(one_call(n=1), tools=[act], hooks=hooks))
    assert (said, ran) == ("acted 2", [2])
    assert run.messages()[1].tool_calls[0].arguments == '{"n":2}'


async def test_before_tool_may_answer_itself() -> None:
    hooks = Hooks(before_tool=lambda state, call: Skip({"cached": True}))
    said, _ = await result_of(ls.Agent(one_call(n=1), tools=[act], hooks=hooks))
    assert (said, ran) == ('{"cached":true}', [])


async def test_before_tool_may_deny_and_approve() -> None:
    hooks = Hooks(before_tool=lambda state, call: ls.Deny("not today"))
    said, run = await result_of(ls.Agent(one_call(n=1), tools=[act], hooks=hooks))
    assert "not today" in said
    assert run.statuses[0].result.is_error
    guarded = ls.tool(name="act", needs_approval=True)(act.function)
    spared = Hooks(before_tool=lambda state, call: ls.Approve())
    said, _ = await result_of(ls.Agent(one_call(n=3), tools=[guarded], hooks=spared))
    assert said == "acted 3"


async def test_stop_before_tool_completes_history() -> None:
    model = ScriptedModel(Turn(calls=(Call("act", {"n": 1}), Call("act", {"n": 2}))), "never")
    hooks = Hooks(before_tool=lambda state, call: Stop("enough"))
    run = ls.Agent(model, tools=[act], hooks=hooks).stream("Go")
    await run.collect()
    assert (ran, len(model.requests), run.stopped_by) == ([], 1, "enough")
    assert ["enough" in r.content for r in run.messages()[-1].tool_results] == [True, True]


async def test_after_tool_edits_result_and_stops() -> None:
    hooks = Hooks(after_tool=lambda state, call, status: Rewrite([1, 2]))
    said, run = await result_of(ls.Agent(one_call(n=1), tools=[act], hooks=hooks))
    assert said == "[1,2]"
    stopping = Hooks(after_tool=lambda state, call, status: Stop())
    said, run = await result_of(ls.Agent(one_call(n=1), tools=[act], hooks=stopping))
    assert (said, len(run.steps)) == ("acted 1", 1)


async def test_before_model_may_replace_the_call() -> None:
    model = ScriptedModel("never")
    run = ls.Agent(model, hooks=Hooks(before_model=lambda state: Skip("From the cache."))).stream("Go")
    events = [event async for event in run]
    assert check(events) == []
    assert (model.requests, run.text) == ([], "From the cache.")
    assert run.messages()[-1].text == "From the cache."


async def test_before_model_edits_or_stops() -> None:
    """It edits the messages that this request sends."""
    model = ScriptedModel("Hi")
    shown = Hooks(before_model=lambda state: Rewrite([ls.Message.user("Other")]))
    run = ls.Agent(model, hooks=shown).stream("Go")
    await run.collect()
    assert model.requests[0].messages[0].text == "Other"
    assert run.messages()[0].text == "Go"
    stopped = ls.Agent(model, hooks=Hooks(before_model=lambda state: Stop("closed"))).stream("Go")
    events = [event async for event in stopped]
    assert check(events) == []
    assert (stopped.stopped_by, len(model.requests)) == ("closed", 1)


async def test_after_model_rewrites_the_history() -> None:
    def tidy(state: RunState, message: ls.Message) -> Rewrite | Proceed:
        return Rewrite(ls.Message.assistant("[removed]")) if "secret" in message.text else Proceed()

    run = ls.Agent(ScriptedModel("a secret"), hooks=Hooks(after_model=tidy)).stream("Go")
    await run.collect()
    assert run.messages()[-1].text == "[removed]"


async def test_after_model_stops_before_tools_run() -> None:
    hooks = Hooks(after_model=lambda state, message: Stop("looked wrong"))
    said, run = await result_of(ls.Agent(one_call(n=1), tools=[act], hooks=hooks))
    assert (ran, run.stopped_by) == ([], "looked wrong")
    assert "looked wrong" in said


async def test_raising_hook_leaves_full_history() -> None:
    async def broken(state: RunState, call: ToolCall) -> None:
        raise LookupError("a bug")

    run = ls.Agent(one_call(n=1), tools=[act], hooks=Hooks(before_tool=broken)).stream("Go")
    with pytest.raises(LookupError):
        await run.collect()
    assert [m.role for m in run.messages()] == ["user", "assistant", "tool"]


REPAIRS = [  # case 49
    pytest.param(ToolCall("", "act", '{"n": 7}'), "acted 7", id="to a call that fits"),
    pytest.param(ToolCall("", "act", '{"n": "x"}'), "Invalid arguments", id="to arguments that do not fit"),
    pytest.param(ToolCall("", "other", "{}"), "There is no tool 'other'", id="to a tool that is not there"),
    pytest.param(None, "Invalid arguments for act", id="not at all"),
]


@pytest.mark.parametrize(("repaired", "said"), REPAIRS)
async def test_repair_hook_fixes_a_broken_call(repaired: ToolCall | None, said: str) -> None:
    asked: list[ls.ToolError] = []

    async def repair(call: ToolCall, error: ls.ToolError) -> ToolCall | None:
        asked.append(error)
        return repaired

    found, run = await result_of(ls.Agent(one_call(m=1), tools=[act], repair=repair))
    assert found.startswith(said)
    assert isinstance(asked[0], ls.InvalidToolInput)
    call = run.messages()[1].tool_calls[0]
    assert call.id == run.messages()[2].tool_results[0].tool_call_id
    if repaired is not None:
        assert (call.name, call.arguments) == (repaired.name, repaired.arguments)


async def test_repair_gets_unknown_tool_and_names() -> None:  # case 49
    def repair(call: ToolCall, error: ls.ToolError) -> ToolCall:
        assert isinstance(error, ls.UnknownTool)
        assert "act" in str(error)
        return ToolCall(call.id, "act", call.arguments)

    model = ScriptedModel(Turn(calls=(Call("akt", {"n": 4}),)), "Done.")
    said, _ = await result_of(ls.Agent(model, tools=[act], repair=repair))
    assert said == "acted 4"


async def test_a_call_that_fits_is_not_repaired() -> None:  # case 49
    def repair(call: ToolCall, error: ls.ToolError) -> ToolCall | None:
        raise AssertionError

    said, _ = await result_of(ls.Agent(one_call(n=1), tools=[act], repair=repair))
    assert said == "acted 1"


async def test_two_failing_hooks_raise_once() -> None:
    """The second error is not left for asyncio to report as never retrieved."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    def fail(state: RunState, call: ToolCall) -> None:
        raise RuntimeError("hook")

    model = ScriptedModel(Turn(calls=(Call("act", {"n": 1}), Call("act", {"n": 2}))), "Done.")
    with pytest.raises(RuntimeError, match="hook"):
        await ls.Agent(model, tools=[act], hooks=Hooks(before_tool=fail)).run("Go")
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
