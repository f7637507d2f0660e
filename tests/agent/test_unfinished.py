"""Runs without an answer are errors for those who see only the answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import llmstream as ls
from llmstream.agent import tool_called
from llmstream.testing import Call, ScriptedModel, Turn

LOOKS = Turn(text="Let me look.", calls=(Call("look"),))
PAYS = Turn(calls=(Call("pay", {"euros": 3}),))


async def look() -> str:
    """Look."""
    return "seen"


@ls.tool(needs_approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"{euros} paid"


async def test_the_limit_of_steps_is_no_answer() -> None:
    agent = ls.Agent(ScriptedModel(LOOKS, repeat_last=True), tools=[look], max_steps=2)
    with pytest.raises(ls.LimitExceeded, match="2 steps") as caught:
        await agent.run("Go")
    assert caught.value.reason == "max_steps"
    assert caught.value.partial.text == "Let me look."
    assert caught.value.usage is not None


async def test_run_reports_that_it_was_cut_short() -> None:
    run = ls.Agent(ScriptedModel(LOOKS, repeat_last=True), tools=[look], max_steps=2).stream("Go")
    await run.collect()
    assert run.cut_short
    whole = ls.Agent(ScriptedModel(LOOKS, "Done.", repeat_last=True), tools=[look], max_steps=2).stream("Go")
    await whole.collect()
    assert not whole.cut_short


async def test_own_stop_condition_is_a_normal_end() -> None:
    agent = ls.Agent(ScriptedModel(LOOKS), tools=[look], stop_when=tool_called("look"))
    assert (await agent.run("Go")).text == "Let me look."


async def test_a_stop_condition_may_be_async() -> None:
    async def enough(state: ls.agent.RunState) -> bool:
        return state.step >= 2

    run = ls.Agent(ScriptedModel(LOOKS, repeat_last=True), tools=[look], stop_when=enough).stream("Go")
    await run.collect()
    assert (len(run.steps), run.stopped_by) == (2, "enough")


async def test_waiting_run_in_error_can_be_resumed() -> None:
    agent = ls.Agent(ScriptedModel(PAYS, "Done."), tools=[pay])
    with pytest.raises(ls.RunSuspended, match=r'pay\({"euros":3}\)') as caught:
        await agent.run("Go")
    suspension = caught.value.suspension
    run = agent.resume(suspension, {p.approval_id: True for p in suspension.pending})
    assert (await run.collect()).text == "Done."


@pytest.mark.parametrize("turn", [Turn(calls=(Call("look"),)), PAYS])
async def test_no_response_adds_nothing_to_chat(turn: Turn) -> None:
    chat = ls.Chat(ls.Message.user("Hi"))
    with pytest.raises(ls.LLMStreamError):
        await ls.Agent(ScriptedModel(turn), name="clerk", tools=[look, pay], max_steps=1).respond(chat)
    assert len(chat) == 1


async def _told(inner: ls.Agent) -> tuple[Any, Any]:
    model = ScriptedModel(Turn(calls=(Call("ask", {"prompt": "?"}),)), "Done.")
    run = ls.Agent(model, tools=[inner.as_tool("ask")]).stream("Go")
    await run.collect()
    return model.requests[1].messages[-1].tool_results[0], run.statuses[0].value


async def test_silent_sub_agent_is_error_to_model() -> None:
    result, _ = await _told(
        ls.Agent(ScriptedModel(Turn(calls=(Call("look"),)), repeat_last=True), tools=[look], max_steps=2)
    )
    assert result.is_error
    assert "limit of 2 steps" in result.content


async def test_typed_sub_agent_has_value_or_error() -> None:
    class Point(msgspec.Struct):
        x: int

    result, value = await _told(ls.Agent(ScriptedModel('{"x": 1}'), output=Point))
    assert (result.content, value) == ('{"x": 1}', Point(1))
    result, _ = await _told(ls.Agent(ScriptedModel('{"x": "one"}'), output=Point))
    assert result.is_error
    assert "Expected `int`" in result.content
