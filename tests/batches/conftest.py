"""A simulator of four batch APIs, and models that speak to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import llmstream as ls
from llmstream.testing import BatchFaults, Simulator

PATHS = {
    "openai": "/v1",
    "openai-responses": "/v1",
    "anthropic": "",
    "google": "/v1beta",
    "mistral": "/mistral",
}
NAMES = {"mistral": "mistral-small-latest", "google": "gemini-2.5-flash"}


class Bench:
    """A simulator, and how many requests it has answered in batches."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator

    @property
    def url(self) -> str:
        return self.simulator.url

    def model(self, vendor: str, **options: Any) -> ls.Model[Any]:
        url = self.url + PATHS[vendor]
        retry = ls.Retry(max_retries=2, max_wait_s=0.01)
        return ls.Model(
            f"{vendor}:{NAMES.get(vendor, 'm-1')}", base_url=url, api_key="k", retry=retry, **options
        )

    @property
    def paid(self) -> list[str]:
        """The prompts that were answered in batches, in order."""
        return self._prompts("BATCH")

    @property
    def online(self) -> list[str]:
        """The prompts that were answered one by one."""
        return self._prompts("POST")

    def _prompts(self, method: str) -> list[str]:
        return [
            received.request.messages[-1].text
            for received in self.simulator.requests
            if received.http.method == method and received.request is not None
        ]

    @property
    def jobs(self) -> list[Any]:
        return list(self.simulator._batches._jobs.values())

    @staticmethod
    async def collect(batch: Any) -> list[Any]:
        return [row async for row in batch.results(poll_s=0.01)]

    @staticmethod
    def price(model: str, usage: ls.Usage) -> float:
        """A dollar a thousand tokens."""
        return (usage.total_tokens or 0) / 1000


def answer(request: ls.Request) -> str:
    return f"Answer to {request.messages[-1].text}"


@pytest.fixture
def open_bench():
    @asynccontextmanager
    async def opened(script: Any = answer, **faults: Any) -> AsyncIterator[Bench]:
        async with Simulator(script, batches=BatchFaults(**faults)) as simulator:
            yield Bench(simulator)

    return opened


@pytest.fixture
async def bench(open_bench) -> AsyncIterator[Bench]:
    async with open_bench() as found:
        yield found


@pytest.fixture(params=list(PATHS))
def vendor(request: pytest.FixtureRequest) -> str:
    return request.param
