"""What a step of an agent's run costs when the run is young, and when it is old."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final

from benchmarks.bodies import RESULT_MARK
from benchmarks.cpu import PROVIDERS
from llmstream.agent import Agent
from llmstream.chats.message import Message
from llmstream.events import StepStart
from llmstream.request import Request
from llmstream.simulator import Call, Turn
from llmstream.streams.model import Model
from llmstream.testing import ScriptedModel
from llmstream.tools import ToolContext

__all__ = ["RUNS", "in_process", "over_http", "step_ms"]

Tool = Callable[..., str]

STEPS: Final = {"step 30": range(25, 35), "step 300": range(295, 305)}
"""Ten steps each, so that one collection of garbage does not decide."""


class _Looking:
    """A model that calls the tool at each step."""

    def turn(self, request: Request, number: int) -> Turn:
        return Turn(text="I look.", calls=(Call("look", {"page": number}),))


def look(page: int) -> str:
    """Gives 2 KB."""
    return f"{RESULT_MARK} page {page}: " + "words " * 340


def _look_within(page: int, context: ToolContext) -> str:
    """As `look`, and could look at the conversation."""
    return look(page)


_look_within.__name__ = "look"

RUNS: Final[dict[str, Tool]] = {"tool": look, "tool with context": _look_within}


def in_process() -> Model[Message]:
    """A model without wire and socket."""
    return ScriptedModel(_Looking())


def over_http(family: str, base: str) -> Model[Message]:
    """A model of that wire in another process."""
    # The process does not answer before it has read the request, which is as long as the conversation.
    return Model(f"{PROVIDERS[family]}:any", base_url=f"{base}/{family}/1/agent400", api_key="key")


async def step_ms(model: Callable[[], Model[Message]], tool: Tool, rounds: int) -> dict[str, float]:
    """Milliseconds of CPU a step; the median of some runs."""
    runs = [await _run(model(), tool) for _ in range(rounds)]
    return {name: statistics.median(run[name] for run in runs) for name in STEPS}


async def _run(model: Model[Message], tool: Tool) -> dict[str, float]:
    agent = Agent(model, tools=[tool], max_steps=400)
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
