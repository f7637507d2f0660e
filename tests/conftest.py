"""Fixtures that the whole suite shares."""

from __future__ import annotations

import functools
import gc
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import aioresponses.core
import pytest
from aiohttp import ClientResponse, web
from hypothesis import settings

from llmstream.transport import retry

SHARED = Path(__file__).resolve().parents[2] / "shared"

# The same examples in every run, and no deadline on a busy machine; LLMSTREAM_EXPLORE=1 looks for new ones.
settings.register_profile("llmstream", derandomize="LLMSTREAM_EXPLORE" not in os.environ, deadline=None)
settings.load_profile("llmstream")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of outside cases and recordings; tests over it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared with outside cases is not here")
    return SHARED


_tests = itertools.count()


@pytest.fixture(autouse=True)
def frozen() -> None:
    """What has gathered by now is not looked at by each of the many collections that leaks are found by."""
    if next(_tests) % 100 == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def retry_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test does not pay for the retries of those before it."""
    monkeypatch.setattr(retry, "_budgets", {})


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts real servers on loopback: `await serve(handler)` answers every path and gives the address."""
    runners: list[web.AppRunner] = []

    async def start(handler: Handler) -> str:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await handler(request)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        return f"http://{host}:{port}"

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[aioresponses.aioresponses]:
    """Answers for any address, and what was sent there; a body comes in one piece.

    aioresponses 0.7.9 does not know an argument that aiohttp 3.14 requires of a response.
    """
    mended = functools.partial(ClientResponse, stream_writer=Mock())
    monkeypatch.setattr(aioresponses.core, "ClientResponse", mended)
    with aioresponses.aioresponses() as answers:
        yield answers
