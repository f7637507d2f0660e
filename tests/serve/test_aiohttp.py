from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

import llmstream as ls
from llmstream.serve.aiohttp import respond


async def test_a_client_that_leaves_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """It leaves while chunks are written; aiohttp logs what a handler raises."""
    left = asyncio.Event()

    async def events() -> AsyncIterator[ls.Event]:
        yield ls.StreamStart()
        yield ls.TextStart("1")
        try:
            while True:
                yield ls.TextDelta("word " * 1_000, "1")
                await asyncio.sleep(0)
        finally:
            left.set()

    async def handler(request: web.Request) -> web.StreamResponse:
        return await respond(request, events())

    app = web.Application()
    app.add_routes([web.get("/", handler)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    with caplog.at_level(logging.ERROR, "aiohttp.server"):
        for _ in range(10):
            left.clear()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                await response.content.readline()
                response.close()
            await left.wait()
        await runner.cleanup()
    assert caplog.records == []
