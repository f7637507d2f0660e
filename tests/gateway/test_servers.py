"""The gateway as an ASGI application on uvicorn, and from its file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from gateway_parts import PRICE, model_at, on_uvicorn, request_of, script_of

import llmstream as ls
from llmstream.exchange import HttpRequest
from llmstream.gateway import Gateway, asgi, open_ledger
from llmstream.gateway.running import running
from llmstream.testing import Cut, Pace, Simulator, Stall, Turn


async def test_asgi_answers_cuts_and_leaves(tmp_path: Path) -> None:
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    script = script_of(
        [
            Turn(text="Hello"),
            Turn(text="one two three four five six", fault=Cut(after_events=4, clean=True)),
            Turn(text="one two three four five six", fault=Stall(after_events=4, stall_s=None)),
        ]
    )
    async with Simulator(script) as simulator:
        gateway = Gateway({"*": model_at(simulator.url, "gemini")}, keys=tmp_path / "gateway.db")
        async with on_uvicorn(gateway.asgi) as url:
            model = model_at(url, "openai-chat")
            assert (await model.ask("Hi")).text == "Hello"
            with pytest.raises(ls.LLMStreamError):
                await model.ask("Hi")
            async with model.stream("Hi") as stream:
                async for _ in stream.text_deltas():
                    break
            async with asyncio.timeout(30):
                await simulator.requests[2].done.wait()
            assert simulator.requests[2].disconnected
    ledger = open_ledger(tmp_path / "gateway.db")  # closed at the end of the lifespan, with all rows
    assert [row.outcome for row in ledger.rows()] == ["left", "cut", "complete"]
    ledger.close()


async def test_asgi_refuses_large_bodies() -> None:
    """By the length that the client names, and by what comes where it names none."""
    gateway = Gateway({"*": "sim:demo"}, max_body_bytes=1000)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100

    async with on_uvicorn(gateway.asgi) as url, aiohttp.ClientSession() as session:
        for data in (b"x" * 2000, endless()):
            async with session.post(f"{url}/v1/messages", data=data) as response:
                assert response.status == 413
                assert (await response.json())["type"] == "error"


async def test_asgi_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gateway.toml"
    monkeypatch.setenv("LLMSTREAM_GATEWAY", str(path))
    with pytest.raises(ls.InvalidRequest, match="Set LLMSTREAM_GATEWAY"):
        asgi()
    path.write_text('[models.fast]\nuse = "sim:demo"')
    async with on_uvicorn(asgi()) as url:
        assert (await model_at(url, "anthropic", name="fast").ask("Hi")).text.startswith("You said: Hi")
    assert (tmp_path / "gateway.db").exists()


async def test_draining_lets_calls_finish() -> None:
    """A stop in the middle of an answer: new calls find the port closed, the answer comes to its end."""
    slow = Turn(text="one two three four five six", pace=Pace(tokens_per_s=20))
    async with Simulator(script_of([slow])) as simulator:
        gateway = Gateway({"*": model_at(simulator.url, "ollama")})
        async with aiohttp.ClientSession() as session:
            sent = request_of("openai-chat")
            async with running(gateway, "127.0.0.1", 0) as (url, stop):
                response = await session.post(url + sent.url, data=sent.body)
                assert not stop.is_set()
            # The block ends once the drain is over.
            body = await response.read()
            assert body.endswith(b"data: [DONE]\n\n")
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.post(url + sent.url, data=sent.body)
    assert gateway.draining


def test_prices_of_routes_are_per_million() -> None:
    assert PRICE.cost(ls.Usage(1_000_000, 100_000)) == 2.0


async def test_websockets_are_refused() -> None:
    gateway = Gateway({"*": "sim:demo"})
    async with aiohttp.ClientSession() as session, on_uvicorn(gateway.asgi) as url:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(f"{url}/v1/responses")


async def test_head_of_unknown_pages() -> None:
    body = await Gateway({"*": "sim:demo"}).answer(HttpRequest("/", method="GET"))
    assert body.status == 200  # Ollama's clients look whether a server is there
