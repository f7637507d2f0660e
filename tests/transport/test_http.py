"""One request and its answer: what is refused before anything is sent, and what a failure is called."""

from __future__ import annotations

import random
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from llmstream import Model
from llmstream.errors import InvalidRequest, LLMStreamError, ProxyError, TransportError
from llmstream.exchange import HttpRequest
from llmstream.testing import FaultServer, head
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.http import send


class Unreachable:
    """A session that reaches nobody."""

    async def request(self, *args: Any, **options: Any) -> Any:
        raise aiohttp.ClientConnectionError("nobody is there")


async def asked(url: str = "http://a.example", headers: dict[str, Any] | None = None) -> LLMStreamError:
    with pytest.raises(LLMStreamError) as caught:
        await send(HttpRequest(url, b"", headers or {}), Deadlines(), session=Unreachable())
    return caught.value


@pytest.mark.parametrize("value", [5, None, b"x"])
async def test_a_header_that_is_no_text_is_refused(value) -> None:
    error = await asked(headers={"x-team": value})
    assert isinstance(error, InvalidRequest)
    assert "'x-team' is text" in error.message


async def test_invalid_host_fails_like_any_other() -> None:
    error = await asked("http://xn--.example/v1")
    assert isinstance(error, TransportError)
    assert "xn--.example" in error.message


async def test_proxy_login_is_no_vendor_error() -> None:
    async with FaultServer([head(407, {"content-length": "0"})]) as server:
        with pytest.raises(LLMStreamError) as caught:
            await send(HttpRequest(server.url, b"", {}), Deadlines())
    error = caught.value
    assert isinstance(error, ProxyError)
    assert (error.status, error.retryable) == (407, False)


@pytest.mark.parametrize("headers", [{b"x": "y"}, {1: "y"}, {None: "y"}, {"x-key": b"y"}, {"x-key": ["y"]}])
async def test_a_models_header_that_is_no_text(headers: Any) -> None:
    model = Model("openai:m", base_url="http://127.0.0.1:9", api_key="k", headers=headers)
    with pytest.raises(InvalidRequest, match=r"is text, not|must be str"):
        await model.stream("Hi").collect()


@pytest.mark.parametrize("own_session", [False, True])
async def test_a_large_body_arrives_whole(own_session: bool) -> None:
    """It is written in pieces; with the length that it has, as some servers want no chunks."""
    body, seen = random.Random(1).randbytes(3_000_001), []

    async def answer(request: web.Request) -> web.Response:
        seen.append(
            (request.headers["content-length"], request.headers["content-type"], await request.read())
        )
        return web.Response(text="Thanks.")

    app = web.Application(client_max_size=len(body))
    app.router.add_post("/", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        url, headers = str(server.make_url("/")), {"content-type": "application/json"}
        request = HttpRequest(url, body, headers)
        response = await send(request, Deadlines(), session if own_session else None)
        assert await response.read_all(100) == b"Thanks."
        await response.finish()
    assert seen == [(str(len(body)), "application/json", body)]
