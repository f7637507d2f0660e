"""What a step of an agent's run costs when the run is young, and when it is old."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final

from llmstream.agent import Agent
from llmstream.events import StepStart
from llmstream.request import Request
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.tools import ToolContext

__all__ = ["RUNS", "step_ms"]

Tool = Callable[..., str]

STEPS: Final = {"step 30": range(25, 35), "step 300": range(295, 305)}
"""Ten steps each, so that one collection of garbage does not decide."""


class _Looking:
    """A model that calls the tool at each step."""

    def turn(self, request: Request, number: int) -> Turn:
        return Turn(text="I look.", calls=(Call("look", {"page": number}),))


def look(page: int) -> str:
    """Gives 2 KB."""
    return f"page {page}: " + "words " * 340


def _look_within(page: int, context: ToolContext) -> str:
    """As `look`, and could look at the conversation."""
    return look(page)


_look_within.__name__ = "look"

RUNS: Final[dict[str, Tool]] = {"tool": look, "tool with context": _look_within}


async def step_ms(tool: Tool, rounds: int) -> dict[str, float]:
    """Milliseconds of CPU a step, in process: no wire, no socket. The median of some runs."""
    runs = [await _run(tool) for _ in range(rounds)]
    return {name: statistics.median(run[name] for run in runs) for name in STEPS}


async def _run(tool: Tool) -> dict[str, float]:
    agent = Agent(ScriptedModel(_Looking()), tools=[tool], max_steps=400)
    began: dict[int, float] = {}
    async with agent.stream("Read all of it.") as run:
        async for event in run:
            if isinstance(event, StepStart):
                began[event.step] = time.process_time()
                if event.step > max(STEPS["step 300"]) + 1:
                    break
    return {
        name: (began[steps.stop] - began[steps.start]) / len(steps) * 1000 for name, steps in STEPS.items()
    }
