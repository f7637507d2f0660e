"""What our connections ask of the event loop; how they read broken HTTP is in tests/faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
import pytest
from yarl import URL

from llmstream.exchange import HttpRequest
from llmstream.simulator import Simulator
from llmstream.transport.aiohttp_patches import CarefulProtocol, Exchange
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.http import send
from llmstream.transport.sessions import close_session

MOST = 64 * 1024


async def test_read_is_bounded_by_malloc_threshold() -> None:
    loop = asyncio.get_running_loop()
    async with Simulator() as simulator:
        host, port = simulator.url.removeprefix("http://").split(":")
        transport, _ = await loop.create_connection(lambda: CarefulProtocol(loop=loop), host, int(port))
        assert getattr(transport, "max_size", 0) <= MOST
        transport.close()


async def test_what_reads_tls_is_told_as_well() -> None:
    class Transport(asyncio.Transport):
        _ssl_protocol = SimpleNamespace(max_size=256 * 1024)

    CarefulProtocol(loop=asyncio.get_running_loop()).connection_made(Transport())
    assert Transport._ssl_protocol.max_size == MOST


async def test_a_call_without_bytes_is_no_answer() -> None:
    """aiohttp makes one when a body that was paused is read on; the request may still go out again."""
    protocol, current = CarefulProtocol(loop=asyncio.get_running_loop()), Exchange()
    protocol.exchange = current
    protocol.data_received(b"")
    assert not current.answered
    assert not protocol.served


@asynccontextmanager
async def recording() -> AsyncIterator[tuple[str, list[bytearray]]]:
    """A server's address, and what each connection has sent; a request that ends in END is answered."""
    received: list[bytearray] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(bytearray())
        while piece := await reader.read(1 << 16):
            received[-1] += piece
            if received[-1].endswith(b"END"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/path?query=1%2F2", received
    finally:
        await close_session()
        server.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json", "x-name": "value", "accept-encoding": "identity"},
        {"accept-encoding": "identity"},
        {"accept-encoding": "identity", "Content-Length": "3"},
        {"accept-encoding": "identity", "Transfer-Encoding": "chunked"},
    ],
)
async def test_a_whole_request_is_as_aiohttps(headers: dict[str, str]) -> None:
    async with recording() as (url, received):
        await (await send(HttpRequest(url, b"END", headers), Deadlines())).finish()
        same = URL(url, encoded=True)
        async with aiohttp.ClientSession() as session, session.post(same, data=b"END", headers=headers):
            pass
        ours, theirs = (sorted(sent.split(b"\r\n")) for sent in received)
        assert ours == theirs
