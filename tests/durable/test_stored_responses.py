"""A response that its vendor stores is read on by the next process, and paid once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.durable import Runs
from llmstream.events import RetryNotice
from llmstream.simulator import Simulator
from llmstream.simulator.script import Pace, Turn

ANSWER = "It was a dark and stormy night, and nobody was at home."


class Paced:
    """A simulator that sends the first piece of a text, and the rest when it is told."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.simulator = Simulator(
            lambda request: Turn(text=ANSWER, pace=Pace(delta_s=1.0)), clock=self._clock, sleep=self._sleep
        )

    def _clock(self) -> float:
        return 1000.0 if self.told.is_set() else 0.0

    async def _sleep(self, seconds: float) -> None:
        await self.told.wait()

    def sent(self) -> list[str]:
        return [received.http.method for received in self.simulator.requests]


@asynccontextmanager
async def paced() -> AsyncIterator[Paced]:
    found = Paced()
    async with found.simulator:
        yield found
        found.told.set()


def agent(simulator: Simulator, name: str = "gpt-5", **options: Any) -> ls.Agent:
    model = ls.Model(f"openai-responses:{name}", base_url=f"{simulator.url}/v1", api_key="x")
    return ls.Agent(model, name="clerk", **options)


async def left(where: str, found: ls.Agent, before: int = 0) -> None:
    """A process that leaves the run in the middle of the response, as so many others before it."""
    async with Runs(where) as runs:
        async for event in runs.stream(found, "order", "Tell me a story."):
            before -= isinstance(event, RetryNotice)
            if before <= 0 and isinstance(event, ls.TextDelta):
                return


async def ended(where: str, found: ls.Agent, retries: int = 1) -> None:
    """A process that goes on with it; readers see that the step begins again."""
    async with Runs(where) as runs:
        run = runs.stream(found, "order")
        events = [event async for event in run]
        assert run.text == ANSWER
        assert [m.text for m in run.messages()] == ["Tell me a story.", ANSWER]
    assert grammar.check(events) == []
    assert len([event for event in events if isinstance(event, RetryNotice)]) == retries


@pytest.mark.parametrize("background", [True, False])
async def test_stored_response_is_read_on(background: bool, tmp_path: Path) -> None:
    """Any other one is asked for again."""
    where = f"sqlite:{tmp_path / 'runs.db'}"
    async with paced() as vendor:
        found = agent(vendor.simulator, background=background)
        await left(where, found)
        vendor.told.set()
        await ended(where, found)
        assert vendor.sent() == (["POST", "GET"] if background else ["POST", "POST"])


async def test_other_model_is_asked_again(tmp_path: Path) -> None:
    """A newer version of the agent has another model: the response of the first one is not its own."""
    where = f"sqlite:{tmp_path / 'runs.db'}"
    async with paced() as vendor:
        await left(where, agent(vendor.simulator, background=True))
        vendor.told.set()
        await ended(where, agent(vendor.simulator, "gpt-5-mini", background=True))
        assert vendor.sent() == ["POST", "POST"]


async def test_forgotten_response_is_asked_again(tmp_path: Path) -> None:
    """The vendor, another simulator here, knows nothing of it any more; and the next crash is no worse."""
    where = f"sqlite:{tmp_path / 'runs.db'}"
    async with paced() as vendor, paced() as other:
        await left(where, agent(vendor.simulator, background=True))
        found = agent(other.simulator, background=True)
        await left(where, found, before=1)
        assert other.sent() == ["GET", "POST"]
        other.told.set()
        await ended(where, found, retries=2)
        assert other.sent() == ["GET", "POST", "GET"]
