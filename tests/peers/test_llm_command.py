"""Simon Willison's `llm` and its plugins for Anthropic and Ollama are content with the simulator."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from llmstream.simulator import Simulator

llm = pytest.importorskip("llm", reason="llm is not installed (extra: frameworks)")

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


ASKED = "How warm is it?"


def weather(city: str) -> str:
    """Weather of a city."""
    return f"7 degrees in {city}"


@pytest.fixture
async def simulator(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Simulator]:
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    async with Simulator() as running:
        yield running


def chat(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = pytest.importorskip("llm.default_plugins.openai_models")
    return made.Chat("gpt-4o", key="sim-key", api_base=f"{simulator.url}/v1", supports_tools=True)


def anthropic(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("llm_anthropic", reason="llm-anthropic is not installed (extra: frameworks)")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", simulator.url)
    model = llm.get_model("claude-sonnet-4.5")
    model.key = "sim-key"
    return model


def ollama(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("llm_ollama", reason="llm-ollama is not installed (extra: frameworks)")
    monkeypatch.setenv("OLLAMA_HOST", simulator.url)
    return llm.get_model("ollama/sim")


@pytest.mark.parametrize("model_at", [chat, anthropic, ollama], ids=lambda made: made.__name__)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_chain_runs_its_tools(
    model_at: Callable[..., Any], stream: bool, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chained() -> str:
        model = model_at(simulator, monkeypatch)
        return model.chain(ASKED, tools=[weather], stream=stream).text()

    said = await asyncio.to_thread(chained)
    assert "7 degrees in" in said
    assert len([one for one in simulator.requests if one.request is not None]) == 2
