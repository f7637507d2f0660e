"""A server's answers over HTTP are counted: none takes all memory."""

from __future__ import annotations

import gzip
from functools import partial
from typing import Any

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.mcp import mcp_tools
from llmstream.mcp.transports import bounded_client

httpx2 = pytest.importorskip("httpx2", reason="mcp is not installed (extra: test)")


def answering(content_type: str, pieces: int, written: list[int]) -> Any:
    """Writes so many pieces of 64 KiB; notes how many were taken."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": content_type})
        await response.prepare(request)
        for number in range(pieces):
            written[:] = [number]
            await response.write(b" " * 65536)
        return response

    return answer


async def test_an_answer_without_end_is_cut(serve: Any) -> None:
    written: list[int] = []
    url = await serve(answering("application/json", 100_000, written))
    async with bounded_client({}, httpx2.Timeout(30.0), max_bytes=1_000_000) as client:
        with pytest.raises(httpx2.ReadError, match="longer than 1000000 bytes"):
            await client.post(url)
    assert written[0] < 1_000


async def test_an_event_stream_may_be_long(serve: Any) -> None:
    url = await serve(answering("text/event-stream; charset=utf-8", 100, []))
    async with bounded_client({}, httpx2.Timeout(30.0), max_bytes=1_000_000) as client:
        assert len((await client.post(url)).content) == 100 * 65536


async def test_a_compressed_answer_is_refused(serve: Any) -> None:
    async def bomb(request: web.Request) -> web.Response:
        assert request.headers["accept-encoding"] == "identity"
        return web.Response(body=gzip.compress(b" " * 10_000_000), headers={"content-encoding": "gzip"})

    async with bounded_client({}, httpx2.Timeout(30.0)) as client:
        with pytest.raises(httpx2.ReadError, match="compressed"):
            await client.post(await serve(bomb))


async def test_session_with_bad_server_fails_typed(serve: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("llmstream.mcp.bounded_client", partial(bounded_client, max_bytes=1_000_000))
    url = await serve(answering("application/json", 100_000, []))
    with pytest.raises(ls.LLMStreamError):
        async with mcp_tools(url=url, connect_timeout_s=20):
            pass
