"""Proxies of the environment: which targets they are for, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.transport.egress import proxy_for, proxy_secrets

PASSWORD = "s3cret-word"
ONCE = ls.Retry(max_retries=0)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def failure(url: str, **options: Any) -> ls.LLMStreamError:
    model = ls.Model("openai:m", base_url=url, api_key="a-key-of-mine", retry=ONCE)
    events = []
    with pytest.raises(ls.LLMStreamError) as caught:
        async with model.stream("Hi", **options) as stream:
            async for event in stream:
                events.append(event)
    assert ls.grammar.check(events) == []
    return caught.value


MALFORMED = [
    f"http://bo:{PASSWORD}@127.0.0.1:port",
    f"http://bo:{PASSWORD}@127.0.0.1:99999",
    f"http://bo:{PASSWORD}@127.0.0.1:0",
    f"http://bo:{PASSWORD}@[::1",
    f"http://bo:{PASSWORD}\r\n@127.0.0.1:9",
    f"http://bo:{PASSWORD}@ 127.0.0.1:9",
    f"http://bo:12/{PASSWORD}@127.0.0.1:9",
    f"http://bo:{PASSWORD}#@127.0.0.1:9",
    f"http://{PASSWORD}:@/",
    f"bo:{PASSWORD}@127.0.0.1:port",
    f"ftp://bo:{PASSWORD}@127.0.0.1",
    f"http:/bo:{PASSWORD}@127.0.0.1:9",
]


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("address", MALFORMED)
async def test_malformed_proxy_is_named_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, scheme: str, address: str
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", address)
    error = await failure(f"{scheme}://vendor.invalid/v1")
    assert type(error) is ls.ProxyError
    assert f"{scheme.upper()}_PROXY" in error.message
    assert "base_url" not in error.message
    assert PASSWORD not in f"{error!s} {error!r} {vars(error)} {error.info}" + caplog.text


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks4"])
async def test_a_socks_proxy_is_refused(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setenv("https_proxy", f"{scheme}://bo:{PASSWORD}@127.0.0.1:1080")
    error = await failure("https://vendor.invalid/v1")
    assert type(error) is ls.ProxyError
    assert "SOCKS" in error.message
    assert "https_proxy" in error.message
    assert PASSWORD not in error.message


async def test_proxy_without_scheme_is_http(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    logins = []

    async def proxy(request: web.Request) -> web.StreamResponse:
        logins.append(request.headers.get("proxy-authorization"))
        return web.json_response({"error": {"message": "seen by the proxy"}}, status=400)

    monkeypatch.setenv("HTTP_PROXY", f"bo:{PASSWORD}@{(await serve(proxy)).removeprefix('http://')}")
    error = await failure("http://vendor.example/v1")
    assert type(error) is ls.BadRequest
    assert logins == ["Basic Ym86czNjcmV0LXdvcmQ="]


async def test_a_proxy_that_echoes_its_password(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def proxy(request: web.Request) -> web.StreamResponse:
        echo = f"no {request.headers['proxy-authorization']} {PASSWORD}"
        return web.json_response({"error": {"message": echo}}, status=400, headers={"x-request-id": PASSWORD})

    url = (await serve(proxy)).removeprefix("http://")
    monkeypatch.setenv("HTTP_PROXY", f"http://bo:{PASSWORD}@{url}")
    error = await failure("http://vendor.example/v1")
    assert PASSWORD not in f"{error!s} {error.info}"
    assert "Ym86" not in error.message


@pytest.fixture
async def connecting() -> AsyncIterator[Any]:
    """Starts proxies that answer every CONNECT with the head they are given."""
    servers = []

    async def start(head: bytes) -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("status", "retryable"), [(500, True), (502, True), (503, True), (429, True), (403, False), (405, False)]
)
async def test_a_proxys_refusal_of_connect(
    connecting: Any, monkeypatch: pytest.MonkeyPatch, status: int, retryable: bool
) -> None:
    monkeypatch.setenv(
        "HTTPS_PROXY", await connecting(b"HTTP/1.1 %d No\r\ncontent-length: 0\r\n\r\n" % status)
    )
    error = await failure("https://vendor.invalid/v1")
    assert type(error) is ls.ProxyError
    assert (error.status, error.retryable) == (status, retryable)


async def test_a_connect_that_wants_a_login(connecting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", await connecting(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n"))
    error = await failure("https://vendor.invalid/v1")
    assert (type(error), error.retryable) == (ls.ProxyError, False)
    assert "requires a login" in error.message


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_unresolvable_proxy_is_blamed_itself(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setenv("ALL_PROXY", f"http://bo:{PASSWORD}@no-such-proxy.invalid:3128")
    error = await failure(f"{scheme}://vendor.example/v1")
    assert type(error) is ls.ProxyError
    assert "base_url" not in error.message
    assert "no-such-proxy" not in error.message


async def test_a_closed_proxy_is_asked_again(monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{unused_tcp_port}")
    error = await failure("https://vendor.example/v1")
    assert (type(error), error.retryable) == (ls.ProxyError, True)
    assert str(unused_tcp_port) not in error.message


@pytest.mark.parametrize(
    ("entry", "host", "port", "direct"),
    [
        ("*", "api.example", None, True),
        ("api.example", "api.example", None, True),
        ("api.example", "API.example.", None, True),
        ("api.example", "sub.api.example", None, True),
        ("api.example", "myapi.example", None, False),
        (".example", "api.example", None, True),
        ("*.example", "api.example", None, True),
        ("api.example:443", "api.example", None, True),
        ("api.example:443", "api.example", 8443, False),
        ("api.example:8443", "api.example", 8443, True),
        ("other.example, api.example", "api.example", None, True),
        ("other.example api.example", "api.example", None, True),
        ("10.0.0.0/8", "10.1.2.3", None, True),
        ("10.0.0.0/8", "11.1.2.3", None, False),
        ("10.0.0.0/8", "api.example", None, False),
        ("10.1.2.3", "10.1.2.3", 9141, True),
        ("10.1.2.3:9141", "10.1.2.3", 9141, True),
        ("10.1.2.3:9141", "10.1.2.3", 9142, False),
        ("fd00::/8", "fd00::1", None, True),
        ("[fd00::1]:8080", "fd00::1", 8080, True),
        ("[fd00::1]:8080", "fd00::1", None, False),
        ("fd00::1", "fd00::1", None, True),
        ("0.0.0.0/99", "10.1.2.3", None, False),
        (",,:", "api.example", None, False),
    ],
)
def test_no_proxy(
    monkeypatch: pytest.MonkeyPatch, entry: str, host: str, port: int | None, direct: bool
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", entry)
    assert (proxy_for("https", host, port) is None) == direct


def test_what_passwords_look_like_in_an_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://bo:s3cret%2Dword@proxy.example")
    assert set(proxy_secrets()) == {"s3cret%2Dword", PASSWORD, "Ym86czNjcmV0LXdvcmQ="}
