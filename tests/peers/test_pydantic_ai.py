"""Pydantic AI on Mistral is content with the simulator: its output is a forced call."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from llmstream.simulator import Simulator

pydantic = pytest.importorskip("pydantic")
pydantic_ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed (extra: frameworks)")
mistral_models = pytest.importorskip("pydantic_ai.models.mistral")
mistral_provider = pytest.importorskip("pydantic_ai.providers.mistral")
client = pytest.importorskip("mistralai.client")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Clients that leave their connections to the collector are collected with their test."""
    yield
    gc.collect()


class City(pydantic.BaseModel):
    """A city."""

    name: str
    people: int


def agent_at(simulator: Simulator, **options: Any) -> Any:
    mistral = client.Mistral(api_key="sim-key", server_url=f"{simulator.url}/mistral")
    provider = mistral_provider.MistralProvider(mistral_client=mistral)
    model = mistral_models.MistralModel("mistral-large-latest", provider=provider)
    return pydantic_ai.Agent(model, **options)


async def test_tool_output_is_read_from_a_stream() -> None:
    async with Simulator() as simulator:
        agent = agent_at(simulator, output_type=pydantic_ai.ToolOutput(City))
        async with agent.run_stream("Which city?") as run:
            outputs = [one async for one in run.stream_output()]
    assert isinstance(outputs[-1], City)


async def test_tool_output_is_read_without_one() -> None:
    async with Simulator() as simulator:
        run = await agent_at(simulator, output_type=pydantic_ai.ToolOutput(City)).run("Which city?")
    assert isinstance(run.output, City)


async def test_tools_run_for_two_steps() -> None:
    async with Simulator() as simulator:
        agent = agent_at(simulator)

        @agent.tool_plain
        def weather(city: str) -> str:
            """Weather of a city."""
            return f"7 degrees in {city}"

        run = await agent.run("How warm is it?")
    assert "7 degrees in" in run.output
