"""Ollama's own Python client is content with the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmstream.dialects.ollama import Ollama
from llmstream.events import Usage
from llmstream.simulator import Break, Call, Cut, Refuse, Script, Simulator, Turn

ollama = pytest.importorskip("ollama", reason="Ollama's own client is not installed")

pytestmark = pytest.mark.slow

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASKED: list[Any] = [{"role": "user", "content": "How warm is it?"}]


@asynccontextmanager
async def connected(*turns: Turn) -> AsyncIterator[Any]:
    async with (
        Simulator(Script(turns) if turns else None, dialects=[Ollama()]) as simulator,
        ollama.AsyncClient(host=simulator.url) as client,
    ):
        yield client


async def collect(client: Any, **options: Any) -> list[Any]:
    options = {"model": "sim", "messages": ASKED, "stream": True, **options}
    return [part async for part in await client.chat(**options)]


async def test_client_reads_each_block_and_counts() -> None:
    """Thinking, text, calls and token counts."""
    turn = Turn(
        reasoning="Hm hm.",
        text="Привет, мир",
        calls=(Call("weather", {"city": "Oslo"}),),
        usage=Usage(11, 22, 33),
    )
    async with connected(turn) as client:
        parts = await collect(client)
    assert "".join(p.message.thinking or "" for p in parts) == "Hm hm."
    assert "".join(p.message.content or "" for p in parts) == "Привет, мир"
    calls = [c for p in parts for c in p.message.tool_calls or ()]
    assert [(c.function.name, c.function.arguments) for c in calls] == [("weather", {"city": "Oslo"})]
    assert parts[-1].done
    assert parts[-1].done_reason == "stop"
    assert (parts[-1].prompt_eval_count, parts[-1].eval_count) == (11, 22)
    assert parts[-1].model == "sim"


async def test_second_turn_with_results_works() -> None:
    async with connected() as client:
        first = await collect(client, tools=[TOOL])
        call = next(c for p in first for c in p.message.tool_calls or ())
        history = [
            *ASKED,
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "7 degrees", "tool_name": "weather"},
        ]
        second = await collect(client, messages=history, tools=[TOOL])
        listed = await client.list()
    assert "weather says: 7 degrees" in "".join(p.message.content or "" for p in second)
    assert [m.model for m in listed.models] == ["sim"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503, 529])
async def test_refusals_are_its_typed_errors(status: int) -> None:
    async with connected(Turn(fault=Refuse(status=status, message="no"))) as client:
        with pytest.raises(ollama.ResponseError, match="no") as caught:
            await collect(client)
    assert caught.value.status_code == status


async def test_in_stream_error_raises_its_error() -> None:
    async with connected(Turn(text="a b", fault=Break(after_events=3, message="out of memory"))) as client:
        with pytest.raises(ollama.ResponseError, match="out of memory"):
            await collect(client)


async def test_dropped_connection_transport_error() -> None:
    httpx = pytest.importorskip("httpx", reason="the transport of Ollama's client is not installed")
    async with connected(Turn(text="a b", fault=Cut(after_events=3))) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await collect(client)


def thoughts_of(parts: list[Any]) -> str:
    return "".join(p.message.thinking or "" for p in parts)


def text_of(parts: list[Any]) -> str:
    return "".join(p.message.content or "" for p in parts)


@pytest.mark.parametrize("think", [True, "low", "high"])
async def test_it_thinks_where_it_was_asked_to(think: Any) -> None:
    async with connected() as client:
        assert thoughts_of(await collect(client, think=think))
        assert not thoughts_of(await collect(client, think=False))
        parts = await collect(client, think=think, tools=[TOOL])
    assert thoughts_of(parts) == "The tool weather can help here."
    assert [c.function.name for p in parts for c in p.message.tool_calls or ()] == ["weather"]


async def test_a_function_is_a_tool() -> None:
    def weather(city: str) -> str:
        """Weather of a city.

        Args:
            city: where
        """
        return f"7 degrees in {city}"

    async with connected() as client:
        parts = await collect(client, tools=[weather])
    assert [c.function.arguments for p in parts for c in p.message.tool_calls or ()] == [{"city": "Paris"}]


async def test_an_answer_of_a_schema_is_json() -> None:
    pydantic = pytest.importorskip("pydantic")
    place = pydantic.create_model("Place", city=str, year=int)
    async with connected() as client:
        text = text_of(await collect(client, format=place.model_json_schema()))
    assert place.model_validate_json(text) == place(city="Paris", year=1)


async def test_each_model_has_a_digest_of_its_own() -> None:
    """llm-ollama takes names of one digest for one model."""
    async with Simulator(models=("a", "b")) as simulator, ollama.AsyncClient(host=simulator.url) as client:
        listed = (await client.list()).models
    assert ([m.model for m in listed], len({m.digest for m in listed})) == (["a", "b"], 2)


async def test_a_model_is_looked_up() -> None:
    async with connected() as client:
        assert {"completion", "tools", "thinking"} <= set((await client.show("sim")).capabilities)


async def test_blocking_client_reads_the_same() -> None:
    async with Simulator(Script((Turn(text="Hello."),)), dialects=[Ollama()]) as simulator:
        options: Any = {"model": "sim", "messages": ASKED, "stream": True}
        with ollama.Client(host=simulator.url) as own:
            parts = await asyncio.to_thread(lambda: list(own.chat(**options)))
    assert text_of(parts) == "Hello."
