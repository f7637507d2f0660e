"""The simulated model of the demonstration: each suggestion shows what it promises."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import llmstream as ls
from llmstream.simulator import Simulator
from llmstream.web import demo


@pytest.fixture
async def agent(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ls.Agent]:
    monkeypatch.setattr(demo, "_STATION_S", 0.0)
    monkeypatch.setattr(demo, "_PACE", None)
    async with Simulator(demo.DemoScript()) as simulator:
        model = ls.Model("anthropic:demo", base_url=simulator.url, api_key="key")
        yield ls.Agent(model, tools=demo.DEMO_TOOLS, reasoning="low")


async def test_tools_run_with_progress(agent: ls.Agent) -> None:
    async with agent.stream(demo.SUGGESTIONS[0]) as run:
        events = [event async for event in run]
    calls = [event.input for event in events if isinstance(event, ls.ToolCall)]
    assert calls == ['{"city":"Oslo"}', '{"city":"Lima"}']
    progress = [one.result for one in events if isinstance(one, ls.ToolResult) and one.preliminary]
    assert [one["done"] for one in progress if "done" in one].count(2) == 2
    assert any(isinstance(event, ls.ReasoningDelta) for event in events)
    assert "waterproof shoes" in run.text
    assert "light jacket" in run.text


async def test_a_booking_waits_for_a_person(agent: ls.Agent) -> None:
    for decision, said in ((ls.Approve(), "Enjoy your meal"), (ls.Deny("too far"), "too far")):
        run = agent.stream(demo.SUGGESTIONS[1])
        await run.collect()
        assert run.suspended is not None
        (call,) = run.suspended.pending
        assert '"people":2' in call.arguments
        resumed = agent.resume(run.suspended, {call.approval_id: decision})
        assert said in (await resumed.collect()).text


async def test_an_answer_breaks_off_once(agent: ls.Agent) -> None:
    with pytest.raises(ls.ConnectionLost) as caught:
        await agent.run(demo.SUGGESTIONS[3])
    assert demo.BROKEN_OFF.startswith(caught.value.partial.text)
    assert (await agent.run(demo.SUGGESTIONS[3])).text == demo.BROKEN_OFF


async def test_other_prompts_are_quoted(agent: ls.Agent) -> None:
    answer = await agent.run("How do you do?\nWell?")
    assert "> How do you do?\n> Well?" in answer.text
    assert (await agent.run(demo.SUGGESTIONS[2])).text == demo.MARKDOWN
