"""A run that has ended is freed at once: its history must not wait for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import llmstream as ls
from llmstream.agent.calls import StepCalls
from llmstream.agent.state import RunState
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.tools.runner import CallRunner


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def left() -> list[str]:
    kinds = (StepCalls, CallRunner, RunState)
    return [type(found).__name__ for found in gc.get_objects() if isinstance(found, kinds)]


def agent() -> ls.Agent:
    def look(x: int) -> str:
        """Looks."""
        return f"found {x}"

    turns = [*(Turn(text="Well.", calls=(Call("look", {"x": n}),)) for n in range(3)), Turn(text="Done.")]
    return ls.Agent(ScriptedModel(*turns), tools=[look])


async def test_ended_run_is_freed_at_once():
    assert (await agent().run("Look three times.")).text == "Done."
    assert left() == []


async def test_left_run_is_freed_at_once():
    async with agent().stream("Look three times.") as run:
        async for event in run:
            if isinstance(event, ls.ToolCall):
                break
    del run, event
    assert left() == []
