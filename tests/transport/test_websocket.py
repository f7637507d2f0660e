"""WebSockets without a dialect: how long they stay idle, who opens them, and no key in their errors."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from llmstream.errors import ConnectionFailed, LLMStreamError, ProtocolError, ProxyError, ServerError
from llmstream.exchange import HttpRequest, MessageKind, Steering
from llmstream.transport import websocket as socket_pool
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.socket_body import SocketAnswer, SocketOptions, ask
from llmstream.transport.websocket import SocketPool

KEY = "sk-secret-secret"


class Echo:
    """A protocol in which each message is a response; a server may send "reconnect"."""

    has_response_id = False

    def __init__(self) -> None:
        self.is_idle = True
        self.said = b""

    def continues(self, request: bytes) -> bool:
        return bool(self.said) and request.startswith(self.said)

    def send(self, request: bytes) -> bytes:
        self.is_idle, self.said = False, request
        return request

    def receive(self, message: bytes) -> MessageKind:
        if message in (b"reconnect", b"unrelated"):
            return "reconnect" if message == b"reconnect" else "unrelated"
        self.is_idle = message == b"end"
        return "response"

    def steer(self, content: Any) -> Steering:
        raise NotImplementedError


def refusal(status: int, headers: dict[str, str], body: bytes) -> LLMStreamError:
    return ServerError(body.decode(), status=status)


async def asked(address: str, pool: SocketPool, words: str = "hi", **headers: str) -> SocketAnswer:
    request = HttpRequest(address, words.encode(), {"authorization": f"Bearer {KEY}", **headers})
    return await ask(request, Deadlines(), None, SocketOptions(Echo, bytes, pool, 1000), refusal)


async def whole(address: str, pool: SocketPool, words: str = "hi", **headers: str) -> list[bytes]:
    answer = await asked(address, pool, words, **headers)
    body = await answer.read()
    while not body.endswith(b"data: end\n\n"):
        body += await answer.read()
    await answer.finish()
    return [line.removeprefix(b"data: ") for line in body.split(b"\n\n") if line]


class Server:
    """Says what it is asked for, word by word, and the number of the socket."""

    def __init__(self) -> None:
        self.opened = 0
        self.headers: list[dict[str, str]] = []
        self.closed = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        number, self.opened = self.opened, self.opened + 1
        self.headers.append({k.lower(): v for k, v in request.headers.items()})
        try:
            async for message in ws:
                if message.type is WSMsgType.TEXT:
                    for word in (*message.data.split(), str(number), "end"):
                        await ws.send_str(word)
        finally:
            self.closed.set()
        return ws


async def test_a_socket_serves_again(serve) -> None:
    server, pool = Server(), SocketPool()
    address = await serve(server)
    assert await whole(address, pool, "a b") == [b"a", b"b", b"0", b"end"]
    assert await whole(address, pool, "c") == [b"c", b"0", b"end"]
    pool.close()
    await server.closed.wait()


async def test_who_goes_on_finds_its_socket(serve) -> None:
    server, pool = Server(), SocketPool()
    address = await serve(server)
    await asyncio.gather(whole(address, pool, "a"), whole(address, pool, "b"))
    first, second = [(await whole(address, pool, f"{word} more"))[-2] for word in "ab"]
    assert {first, second} == {b"0", b"1"}
    assert (await whole(address, pool, "b more"))[-2] == second
    pool.close()


@pytest.mark.parametrize("other", [{"authorization": "Bearer other"}, {"x-team": "blue"}])
async def test_other_headers_open_another(serve, other: dict[str, str]) -> None:
    server, pool = Server(), SocketPool()
    address = await serve(server)
    await whole(address, pool)
    await whole(address, pool, **other)
    await whole(address + "/elsewhere", pool)
    assert server.opened == 3
    pool.close()


async def test_headers_of_one_request_do_not_count(serve) -> None:
    server, pool = Server(), SocketPool()
    address = await serve(server)
    for number in ("1", "2"):
        await whole(address, pool, **{"idempotency-key": number, "content-type": "application/json"})
    assert server.opened == 1
    assert "idempotency-key" not in server.headers[0]
    assert "content-type" not in server.headers[0]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    pool.close()


async def test_handshake_headers_reported_once(serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse()
        ws.headers["x-request-id"] = "r1"
        await ws.prepare(request)
        async for _ in ws:
            await ws.send_str("end")
        return ws

    pool, address = SocketPool(), await serve(handler)
    first = await asked(address, pool)
    await first.finish()
    second = await asked(address, pool)
    assert (first.headers["x-request-id"], first.headers["content-type"]) == ("r1", "text/event-stream")
    assert second.headers == {"content-type": "text/event-stream"}
    second.close()
    pool.close()


async def test_an_old_socket_serves_no_more(serve, monkeypatch) -> None:
    monkeypatch.setattr(socket_pool, "_LIFETIME_S", 0.0)
    server, pool = Server(), SocketPool()
    address = await serve(server)
    for _ in range(2):
        await whole(address, pool)
    assert server.opened == 2
    await server.closed.wait()


async def test_a_socket_left_alone_closes(serve, monkeypatch) -> None:
    monkeypatch.setattr(socket_pool, "_IDLE_S", 0.01)
    server, pool = Server(), SocketPool()
    await whole(await serve(server), pool)
    await server.closed.wait()


async def test_unrelated_words_leave_it_idle(serve) -> None:
    read, opened = asyncio.Event(), []

    async def handler(request: web.Request) -> web.StreamResponse:
        opened.append(request)
        ws = web.WebSocketResponse(autoping=False)
        await ws.prepare(request)
        async for message in ws:
            if message.type is WSMsgType.PONG:
                read.set()
                continue
            await ws.send_str("end")
            if not read.is_set():
                await ws.send_str("unrelated")
                await ws.ping()
        return ws

    pool, address = SocketPool(), await serve(handler)
    await whole(address, pool)
    await read.wait()
    assert await whole(address, pool) == [b"end"]
    assert len(opened) == 1
    pool.close()


async def test_only_so_many_are_idle(serve, monkeypatch) -> None:
    monkeypatch.setattr(socket_pool, "_MAX_IDLE", 1)
    server, pool = Server(), SocketPool()
    address = await serve(server)
    await asyncio.gather(whole(address, pool, "a"), whole(address, pool, "b"))
    await server.closed.wait()
    assert (await whole(address, pool, "c"))[-2] in (b"0", b"1")
    assert server.opened == 2
    pool.close()


async def test_a_closed_pool_takes_nothing_back(serve) -> None:
    server, pool = Server(), SocketPool()
    answer = await asked(await serve(server), pool, "a b")
    pool.close()
    while b"end" not in await answer.read():
        pass
    await answer.finish()
    await server.closed.wait()


async def test_unrelated_words_precede_the_answer(serve) -> None:
    pool = SocketPool()
    assert (await whole(await serve(Server()), pool, "unrelated a"))[:2] == [b"unrelated", b"a"]
    pool.close()


async def test_a_new_socket_is_not_replaced(serve) -> None:
    pool = SocketPool()
    assert (await whole(await serve(Server()), pool, "reconnect"))[0] == b"reconnect"
    pool.close()


async def test_multiline_message_is_one_event(serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        await ws.receive()
        await ws.send_str("")
        await ws.send_str("{\r\n}\n\n")
        await ws.receive()
        return ws

    pool = SocketPool()
    answer = await asked(await serve(handler), pool)
    assert await answer.read() == b"data: {  }  \n\n"
    answer.close()


async def test_messages_that_are_here_come_at_once(serve) -> None:
    pool = SocketPool()
    answer = await asked(await serve(Server()), pool, " ".join("abcdef"))
    assert await answer.read() == b"data: a\n\n"
    await asyncio.sleep(0.05)
    words = [*"bcdef0", "end"]
    assert await answer.read() == "".join(f"data: {word}\n\n" for word in words).encode()
    answer.close()
    pool.close()


async def test_what_came_before_a_break_is_given(serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        await ws.receive()
        for word in "abc":
            await ws.send_str(word)
        await ws.ping()
        await ws.send_str("d")
        assert request.transport is not None
        request.transport.close()
        return ws

    pool = SocketPool()
    answer, found = await asked(await serve(handler), pool), []
    with pytest.raises(LLMStreamError, match="broke while it answered"):
        while True:
            found.append(await answer.read())
    assert b"".join(found) == b"".join(b"data: " + word.encode() + b"\n\n" for word in "abcd")
    answer.close()


async def test_environment_proxy_carries_socket(serve, monkeypatch) -> None:
    server, pool = Server(), SocketPool()
    monkeypatch.setenv("HTTP_PROXY", await serve(server))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert await whole("http://api.example/v1/responses", pool) == [b"hi", b"0", b"end"]
    assert server.headers[0]["host"] == "api.example"
    pool.close()


async def test_who_leaves_ends_a_read(serve) -> None:
    pool = SocketPool()

    async def handler(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        await ws.receive()
        await ws.send_str("a")
        await ws.receive()
        return ws

    answer = await asked(await serve(handler), pool)
    await answer.read()
    reading = asyncio.create_task(answer.read())
    await asyncio.sleep(0)
    answer.close()
    answer.close()
    with pytest.raises(LLMStreamError):
        await reading
    with pytest.raises(LLMStreamError, match="was closed"):
        await answer.read()


async def test_proxy_login_is_no_server_error(serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=407)

    with pytest.raises(ProxyError):
        await asked(await serve(handler), SocketPool())


async def test_nobody_there_is_no_connection() -> None:
    with pytest.raises(ConnectionFailed):
        await asked("http://127.0.0.1:1", SocketPool())


async def refused(request: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text="out of order")


async def half(request: web.Request) -> web.StreamResponse:
    response = web.Response(status=101, headers={"upgrade": "websocket", "connection": "upgrade"})
    response.headers["sec-websocket-accept"] = "wrong"
    return response


async def gone(request: web.Request) -> web.StreamResponse:
    ws = web.WebSocketResponse()
    await ws.prepare(request)
    assert request.transport is not None
    request.transport.abort()
    return ws


@pytest.mark.parametrize(
    ("handler", "kind"), [(refused, ServerError), (half, ProtocolError), (gone, LLMStreamError)]
)
async def test_no_key_is_seen_in_a_failure(serve, handler: Any, kind: type[LLMStreamError]) -> None:
    with pytest.raises(kind) as caught:
        await asked(await serve(handler), SocketPool())
    error = caught.value
    assert error.__context__ is None or KEY not in repr(error.__context__)
    lines = "".join(traceback.TracebackException.from_exception(error).format())
    assert KEY not in lines + repr(error) + repr(vars(error))
