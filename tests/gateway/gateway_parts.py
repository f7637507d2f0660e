"""A gateway on each server, before a simulator of every vendor."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import uvicorn
from aiohttp import web

import llmstream as ls
from llmstream.dialects.base import dialect_class
from llmstream.exchange import HttpRequest
from llmstream.gateway import Gateway, Price, Route, Routes, Target
from llmstream.providers.registry import find_provider
from llmstream.request import Request, Settings
from llmstream.simulator.script import ScriptFunction
from llmstream.testing import Script, Simulator, Turn

WIRES = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "gemini-interactions",
    "bedrock-converse",
    "cohere",
    "mistral",
    "ollama",
)

# A provider of each wire; at the simulator, whose paths are the vendors'.
PROVIDERS = {
    "openai-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "google",
    "gemini-interactions": "google-interactions",
    "bedrock-converse": "bedrock",
    "cohere": "cohere",
    "mistral": "mistral",
    "ollama": "ollama",
}

_BASES = {
    "openai-chat": "/v1",
    "openai-responses": "/v1",
    "gemini": "/v1beta",
    "gemini-interactions": "/v1beta",
    "mistral": "/mistral/v1",
}


def model_at(url: str, wire: str, name: str = "sim", **options: object) -> ls.Model:
    """A model of a wire behind an address: the simulator's, or the gateway's."""
    base = url + _BASES.get(wire, "")
    key = {"api_key": "vendor-key-of-the-gateway"} | options
    spec = f"{PROVIDERS[wire]}:{name}"
    find_provider(PROVIDERS[wire])
    return ls.Model(spec, base_url=base, retry=ls.Retry(max_retries=0), **key)


PRICE = Price(input=1.0, output=10.0)


def target_at(url: str, wire: str) -> dict[str, object]:
    """The fields of a target at the simulator."""
    os.environ.setdefault("GATEWAY_TEST_KEY", "vendor-key-of-the-gateway")
    return {"base_url": url + _BASES.get(wire, ""), "api_key_env": "GATEWAY_TEST_KEY", "price": PRICE}


@asynccontextmanager
async def serving(gateway: Gateway) -> AsyncIterator[str]:
    """The address of a gateway on aiohttp.web."""
    runner = web.AppRunner(gateway.aiohttp(), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def on_uvicorn(app: object) -> AsyncIterator[str]:
    """The address of an ASGI application on uvicorn, in this loop."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, lifespan="on", log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()


@asynccontextmanager
async def on_granian(app: object) -> AsyncIterator[str]:
    """The address of an ASGI application on granian, whose sockets are in threads of Rust."""
    from granian.constants import Interfaces
    from granian.server.embed import Server

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Server(app, port=port, interface=Interfaces.ASGI, log_enabled=False)
    serving = asyncio.create_task(server.serve())
    try:
        await _listening(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()
        await serving


async def _listening(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return


SERVERS = [
    "aiohttp",
    pytest.param("uvicorn", marks=pytest.mark.slow),
    pytest.param("granian", marks=pytest.mark.slow),
]


@asynccontextmanager
async def on_server(server: str, gateway: Gateway) -> AsyncIterator[str]:
    """The address of a gateway on the server of this name."""
    on = {"uvicorn": on_uvicorn, "granian": on_granian}.get(server)
    async with serving(gateway) if on is None else on(gateway.asgi) as url:
        yield url


@asynccontextmanager
async def gateway_before(
    wire: str,
    script: list[Turn] | ScriptFunction | None = None,
    *,
    record: bool = False,
    drain: bool = False,
    **options: object,
) -> AsyncIterator[tuple[str, Simulator]]:
    """The address of a gateway whose models answer over one wire, and the simulator of their vendor."""
    async with Simulator(script_of(script)) as simulator:
        target = Target(f"{PROVIDERS[wire]}:*", **target_at(simulator.url, wire))
        route = Route("*", (target,), record=record, drain=drain)
        gateway = Gateway(Routes([route]), **options)
        async with serving(gateway) as url:
            yield url, simulator


def script_of(turns: list[Turn] | ScriptFunction | None) -> Script | ScriptFunction | None:
    """Turns as a script, or a function; None for the simulator's demo."""
    return Script(tuple(turns)) if isinstance(turns, list) else turns


def request_of(wire: str, *, streamed: bool = True) -> HttpRequest:
    """A request of a wire, as its client sends it to the gateway or the simulator."""
    dialect = dialect_class(wire)()
    asked = Request(
        model="sim", messages=(ls.Message.user("Hello"),), settings=Settings(max_output_tokens=100)
    )
    http = dialect.encode(asked, provider=PROVIDERS[wire]).http
    path, body = http.url, http.json()
    if not streamed:
        path = path.partition("?")[0].replace(":streamGenerateContent", ":generateContent")
        path = path.replace("converse-stream", "converse")
        if "stream" in body:
            body["stream"] = False
            body.pop("stream_options", None)
    base = "" if path.startswith(_BASES.get(wire, "/")) else _BASES.get(wire, "")
    return HttpRequest(base + path, msgspec.json.encode(body), http.headers)
