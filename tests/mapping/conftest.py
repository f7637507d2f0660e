"""A server that counts what it is asked, and rows to ask about."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import llmstream as ls
from llmstream.simulator import Pace, Refuse, Simulator, Turn

Answer = Callable[[str, int], Turn | str]


class Vendor:
    """A simulator whose answers depend on the prompt and on how often it came.

    asked: the prompts, with how often each came
    most:  the most requests under way at once
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answer: Answer = lambda prompt, time: f"to {prompt}"
        self.simulator: Simulator | None = None

    def turn(self, request: ls.Request, number: int) -> Turn:
        prompt = request.messages[-1].text
        self.asked[prompt] += 1
        turn = self.answer(prompt, self.asked[prompt])
        return Turn(text=turn) if isinstance(turn, str) else turn

    @property
    def paid(self) -> int:
        """How many requests came."""
        return self.asked.total()

    def model(self, **options: Any) -> ls.Model[Any]:
        assert self.simulator is not None
        return ls.Model("openai:m", base_url=f"{self.simulator.url}/v1", api_key="sk-canary-12345", **options)

    @staticmethod
    def refusal(status: int, retry_after_s: float | None = None) -> Turn:
        return Turn(fault=Refuse(status=status, retry_after_s=retry_after_s))

    @staticmethod
    def slow(text: str, seconds: float) -> Turn:
        return Turn(text=text, pace=Pace(first_s=seconds))


@pytest.fixture
async def vendor() -> AsyncIterator[Vendor]:
    found = Vendor()
    async with Simulator(found) as simulator:
        found.simulator = simulator
        yield found


@pytest.fixture(autouse=True)
async def no_tasks_left() -> AsyncIterator[None]:
    """Every task of a run has ended with it."""
    before = asyncio.all_tasks()
    yield
    for _ in range(20):
        left = {task for task in asyncio.all_tasks() - before if "mapping" in repr(task.get_coro())}
        if not left:
            break
        await asyncio.sleep(0.01)
    assert not left
