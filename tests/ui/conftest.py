"""A web server whose routes read runs of an event log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import pytest
from aiohttp import web

from llmstream.serve import Body
from llmstream.serve.aiohttp import respond

Route: TypeAlias = Callable[[web.Request], Awaitable[Body]]
Served: TypeAlias = Callable[[Route], AbstractAsyncContextManager[str]]


@pytest.fixture
def served() -> Served:
    """`async with served(route) as url`: a server on a free port, until the end of the block."""

    @asynccontextmanager
    async def serving(route: Route) -> AsyncIterator[str]:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await respond(request, await route(request))

        app = web.Application()
        app.router.add_get("/runs/{run}", answer)  # HEAD too
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/runs"
        finally:
            await runner.cleanup()

    return serving
