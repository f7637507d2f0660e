"""LangChain's models for OpenAI and Anthropic are content with the simulator."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from llmstream.simulator import Simulator

WANTED = "is not installed (extra: frameworks)"
pydantic = pytest.importorskip("pydantic")
core = pytest.importorskip("langchain_core.tools", reason=f"langchain-core {WANTED}")

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


@core.tool
def weather(city: str) -> str:
    """Weather of a city."""
    return f"7 degrees in {city}"


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with Simulator() as running:
        yield running


def anthropic(simulator: Simulator, **options: Any) -> Any:
    made = pytest.importorskip("langchain_anthropic", reason=f"langchain-anthropic {WANTED}")
    return made.ChatAnthropic(
        model="claude-sonnet-4-5",
        base_url=simulator.url,
        api_key="sim-key",
        max_tokens=2048,
        max_retries=0,
        **options,
    )


def openai(simulator: Simulator, **options: Any) -> Any:
    made = pytest.importorskip("langchain_openai", reason=f"langchain-openai {WANTED}")
    return made.ChatOpenAI(
        model="gpt-5",
        base_url=f"{simulator.url}/v1",
        api_key="sim-key",
        max_retries=0,
        stream_usage=True,
        **options,
    )


def responses(simulator: Simulator, **options: Any) -> Any:
    return openai(simulator, use_responses_api=True, **options)


def thinking(simulator: Simulator) -> Any:
    return anthropic(simulator, thinking={"type": "enabled", "budget_tokens": 1024})


MODELS = [anthropic, thinking, openai, responses]
models = pytest.mark.parametrize("model_at", MODELS, ids=lambda made: made.__name__)


async def answer(model: Any, messages: list[Any], *, streamed: bool) -> Any:
    if not streamed:
        return await model.ainvoke(messages)
    total = None
    async for chunk in model.astream(messages):
        total = chunk if total is None else total + chunk
    return total


@models
@pytest.mark.parametrize("streamed", [True, False])
async def test_tools_run_for_two_steps(model_at: Any, streamed: bool, simulator: Simulator) -> None:
    """What the first response says goes back as LangChain sends it, with its thinking."""
    model = model_at(simulator).bind_tools([weather])
    messages: list[Any] = [("user", "How warm is it?")]
    first = await answer(model, messages, streamed=streamed)
    (call,) = first.tool_calls
    assert call["name"] == "weather"
    messages += [first, await weather.ainvoke(call)]
    second = await answer(model, messages, streamed=streamed)
    assert "7 degrees in" in second.text
    assert second.usage_metadata["output_tokens"] > 0


@pytest.mark.parametrize("model_at", [anthropic, openai, responses], ids=lambda made: made.__name__)
@pytest.mark.parametrize("streamed", [True, False])
async def test_structured_output_is_parsed(model_at: Any, streamed: bool, simulator: Simulator) -> None:
    model = model_at(simulator).with_structured_output(City)
    if streamed:
        city = [one async for one in model.astream("Which city?")][-1]
    else:
        city = await model.ainvoke("Which city?")
    assert isinstance(city, City)
