"""`repr` of a run: its model and state, without content."""

from __future__ import annotations

import llmstream as ls
from llmstream.agent import tool_called


def weather(city: str) -> str:
    """Tell the weather."""
    return "-2 °C"


async def test_a_run_shows_steps_and_cost() -> None:
    run = ls.Agent("sim:demo", tools=[weather], price=lambda model, usage: 0.25).stream("How is Oslo?")
    assert repr(run) == "<AgentRun of sim:demo: not read yet>"
    await run.collect()
    usage = run.total_usage
    assert repr(run) == (
        "<AgentRun of sim:demo: stop, 2 steps, 1 tool call, cost 0.5, "
        f"{usage.input_tokens} tokens in, {usage.output_tokens} tokens out>"
    )


async def test_a_run_shows_what_stopped_it() -> None:
    run = ls.Agent("sim:demo", tools=[weather], stop_when=tool_called("weather")).stream("How is Oslo?")
    await run.collect()
    assert "stopped by \"tool_called('weather')\", 1 step, 1 tool call" in repr(run)


async def test_a_suspended_or_left_run_shows_it() -> None:
    asking = ls.tool(weather, needs_approval=True)
    run = ls.Agent("sim:demo", tools=[asking]).stream("How is Oslo?")
    await run.collect()
    assert ": suspended, " in repr(run)
    left = ls.Agent("sim:demo").stream("Hello")
    async with left:
        await left.next()
        assert ": in progress" in repr(left)
    assert ": left" in repr(left)
