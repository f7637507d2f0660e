"""Proxies from the environment, and the pooled session."""

from __future__ import annotations

import os
import subprocess
import sys

import aiohttp
import pytest
from aiohttp import web

import llmstream as ls
from llmstream.transport.egress import proxy_for
from llmstream.transport.sessions import close_session, current_session, is_untouched


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_the_environment_names_the_proxy(monkeypatch) -> None:
    assert proxy_for("https", "api.example") is None
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert proxy_for("https", "api.example") == "http://proxy.example:3128"
    assert proxy_for("http", "api.example") is None
    monkeypatch.setenv("NO_PROXY", "api.example")
    assert proxy_for("https", "api.example") is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_loopback_is_never_proxied(monkeypatch, host) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")
    assert proxy_for("http", host) is None


FORKING = """
import asyncio, os, sys
from llmstream.transport.sessions import current_session

loop = asyncio.new_event_loop()
session = loop.run_until_complete(current_session())
child = os.fork()
other = loop.run_until_complete(current_session())
if child == 0:
    os._exit(other is session)  # 0 where it opened its own
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
loop.run_until_complete(loop.shutdown_asyncgens())
loop.close()
sys.exit(code or other is not session)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_forked_child_opens_its_own_session() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_one_session_per_loop_until_closed() -> None:
    session = await current_session()
    assert await current_session() is session
    await session.close()
    assert await current_session() is not session


async def test_a_request_goes_through_the_proxy(serve, monkeypatch) -> None:
    asked = []

    async def proxy(request: web.Request) -> web.StreamResponse:
        asked.append(str(request.url))
        return web.json_response({"error": {"message": "seen by the proxy"}}, status=400)

    monkeypatch.setenv("HTTP_PROXY", await serve(proxy))
    model = ls.Model("openai:m", base_url="http://vendor.example/v1", api_key="key")
    with pytest.raises(ls.BadRequest, match="seen by the proxy"):
        await model.stream("Hi").collect()
    assert asked == ["http://vendor.example/v1/chat/completions"]


async def test_missing_proxy_is_a_proxy_error(monkeypatch, unused_tcp_port) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_tcp_port}")
    model = ls.Model("openai:m", base_url="http://vendor.example/v1", api_key="key")
    with pytest.raises(ls.ProxyError, match="HTTPS_PROXY"):
        await model.stream("Hi", retry=ls.Retry(max_retries=0)).collect()


async def test_server_without_tls_is_a_tls_error(serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response()

    url = (await serve(handler)).replace("http:", "https:")
    model = ls.Model("openai:m", base_url=url, api_key="key")
    with pytest.raises(ls.TLSError, match="does not speak TLS on this port"):
        await model.stream("Hi", retry=ls.Retry(max_retries=0)).collect()


async def hello(request: web.Request) -> web.Response:
    return web.json_response({"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]})


async def test_tracers_of_every_session_see_calls(serve, monkeypatch) -> None:
    """Instrumentation adds its traces to each session that is made."""
    seen, original = list[str](), aiohttp.ClientSession.__init__
    trace = aiohttp.TraceConfig()

    async def started(session: object, context: object, params: aiohttp.TraceRequestStartParams) -> None:
        seen.append(params.method)

    trace.on_request_start.append(started)

    def traced(self: aiohttp.ClientSession, **options: object) -> None:
        original(self, **{**options, "trace_configs": [trace]})

    await close_session()
    monkeypatch.setattr(aiohttp.ClientSession, "__init__", traced)
    model = ls.Model("openai:any", base_url=await serve(hello), api_key="key")
    assert str(await model.ask("Hi")) == "Hello."
    await close_session()
    assert seen == ["POST"]


async def test_mocks_of_aiohttp_answer_calls(vendors) -> None:
    """A mock that replaces aiohttp's method, although a session is open already."""
    assert not is_untouched(await current_session())
    vendors.post(
        "https://vendor.example/chat/completions",
        body=b'{"choices": [{"message": {"content": "Mocked."}, "finish_reason": "stop"}]}',
    )
    model = ls.Model("openai:any", base_url="https://vendor.example", api_key="key")
    assert str(await model.ask("Hi")) == "Mocked."


async def test_our_own_session_is_untouched() -> None:
    assert is_untouched(await current_session())
