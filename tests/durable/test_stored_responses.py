"""A response that its vendor stores is read on by the next process, and paid once."""

from __future__ import annotations

from collections.abc import AsyncIterator
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


def simulated() -> Simulator:
    return Simulator(lambda request: Turn(text=ANSWER, pace=Pace(delta_s=0.05)))


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with simulated() as found:
        yield found


def agent(simulator: Simulator, **options: Any) -> ls.Agent:
    model = ls.Model("openai-responses:gpt-5", base_url=f"{simulator.url}/v1", api_key="x")
    return ls.Agent(model, name="clerk", **options)


async def left(where: str, found: ls.Agent, before: int = 0) -> None:
    """A process that leaves the run in the middle of the response, as so many others before it."""
    async with Runs(where) as runs:
        async for event in runs.stream(found, "order", "Tell me a story."):
            before -= isinstance(event, RetryNotice)
            if before <= 0 and isinstance(event, ls.TextDelta):
                return


async def ended(where: str, found: ls.Agent) -> list[ls.Event]:
    async with Runs(where) as runs:
        run = runs.stream(found, "order")
        events = [event async for event in run]
        assert run.text == ANSWER
        assert [m.text for m in run.messages()] == ["Tell me a story.", ANSWER]
    assert grammar.check(events) == []
    assert len([event for event in events if isinstance(event, RetryNotice)]) == 1
    return events


def sent(simulator: Simulator) -> list[str]:
    return [received.http.method for received in simulator.requests]


async def test_stored_response_is_read_on(simulator: Simulator, tmp_path: Path) -> None:
    where, found = f"sqlite:{tmp_path / 'runs.db'}", agent(simulator, background=True)
    await left(where, found)
    await ended(where, found)
    assert sent(simulator) == ["POST", "GET"]


async def test_other_responses_are_asked_again(simulator: Simulator, tmp_path: Path) -> None:
    where, found = f"sqlite:{tmp_path / 'runs.db'}", agent(simulator)
    await left(where, found)
    await ended(where, found)
    assert sent(simulator) == ["POST", "POST"]


async def test_forgotten_response_is_asked_again(simulator: Simulator, tmp_path: Path) -> None:
    """The vendor, another simulator here, knows nothing of it any more; and the next crash is no worse."""
    where = f"sqlite:{tmp_path / 'runs.db'}"
    await left(where, agent(simulator, background=True))
    async with simulated() as other:
        found = agent(other, background=True)
        await left(where, found, before=1)
        assert sent(other) == ["GET", "POST"]
        async with Runs(where) as runs:
            run = runs.stream(found, "order")
            assert (await run.collect()).text == ANSWER
        assert sent(other) == ["GET", "POST", "GET"]
