"""What our connections ask of the event loop; how they read broken HTTP is in tests/faults."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from llmstream.simulator import Simulator
from llmstream.transport.aiohttp_patches import CarefulProtocol, Exchange

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
