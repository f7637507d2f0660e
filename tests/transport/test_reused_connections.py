"""A connection of the pool: when it serves again, and when a request goes out once more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest

from llmstream.errors import ConnectionLost, LLMStreamError, ProtocolError
from llmstream.exchange import HttpRequest
from llmstream.transport import aiohttp_patches, http
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.http import send
from llmstream.transport.sessions import close_session, current_session

CLOSE = None
Script: TypeAlias = "list[bytes | asyncio.Event | None]"
"""What a request is answered with: bytes, an event to wait for, CLOSE."""


def answer(text: str, head: str = "HTTP/1.1 200 OK") -> bytes:
    return f"{head}\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode()


class Server:
    """Answers the n-th request, and writes down what it was and on which connection."""

    def __init__(self, script_of: Callable[[int], Script]) -> None:
        self.script_of = script_of
        self.requests: list[int] = []
        self.connections = 0
        self.url = ""
        self.written = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                number = len(self.requests)
                self.requests.append(connection)
                for step in self.script_of(number):
                    if step is CLOSE:
                        return
                    if isinstance(step, asyncio.Event):
                        await step.wait()
                    else:
                        writer.write(step)
                        await writer.drain()
                self.written.set()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(script_of: Callable[[int], Script]) -> AsyncIterator[Server]:
    server = Server(script_of)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        await close_session()
        listening.close()


async def ask(server: Server) -> bytes:
    response = await send(HttpRequest(server.url, b"", {}), Deadlines())
    try:
        return await response.read_all(1 << 20)
    finally:
        response.close()


async def test_an_unwritten_request_is_last() -> None:
    """A server may answer before it has read all of a request: its rest must not go before the next one."""
    answered = asyncio.Event()
    head, body = answer("ok").split(b"ok")[0], b"ok"
    async with serving(lambda number: [head, answered, body]) as server:
        response = await send(HttpRequest(server.url, b"", {}), Deadlines())
        connection = response._response.connection
        assert connection is not None
        assert connection.protocol is not None
        connection.protocol.pause_writing()  # as asyncio does while a socket takes no more
        answered.set()
        assert await response.read_all(10) == b"ok"
        await response.finish()
        assert await ask(server) == b"ok"
        assert server.requests == [1, 2]


async def test_leaving_during_the_look_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection with bytes to read is taken from the pool while the loop reads them."""
    looking = asyncio.Event()

    async def look(protocol: object) -> bool:
        looking.set()
        await asyncio.sleep(60)
        return False

    async with serving(lambda number: [answer("ok")]) as server:
        assert await ask(server) == b"ok"
        with monkeypatch.context() as patched:
            patched.setattr(aiohttp_patches, "_was_written_to", look)
            task = asyncio.create_task(ask(server))
            await looking.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not (await current_session()).connector._acquired
        assert await ask(server) == b"ok"
        assert server.requests == [1, 2]


UNASKED = {
    "an answer": answer("unasked"),
    "half a head": b"HTTP/1.1 200 OK\r\n",
    "no HTTP": b"garbage garbage\r\n\r\n",
    "an interim answer": b"HTTP/1.1 100 Continue\r\n\r\n",
}


@pytest.mark.parametrize("unasked", UNASKED.values(), ids=list(UNASKED))
async def test_unrequested_bytes_close_idle_socket(unasked: bytes) -> None:
    idle = asyncio.Event()
    async with serving(lambda n: [answer("A"), idle, unasked] if n == 0 else [answer("B")]) as server:
        assert await ask(server) == b"A"
        idle.set()
        await server.written.wait()
        await asyncio.sleep(0.05)
        assert await ask(server) == b"B"
        assert server.requests == [1, 2]


@pytest.mark.parametrize("unasked", UNASKED.values(), ids=list(UNASKED))
async def test_bytes_unread_by_the_loop_count_too(unasked: bytes) -> None:
    """The loop is busy while they come; the request finds them in the socket."""
    idle = asyncio.Event()
    async with serving(lambda n: [answer("A"), idle, unasked] if n == 0 else [answer("B")]) as server:
        assert await ask(server) == b"A"
        idle.set()
        await server.written.wait()  # written, and the next thing that runs is the request
        assert await ask(server) == b"B"
        assert server.requests == [1, 2]


async def test_sound_connection_serves_many() -> None:
    async with serving(lambda n: [answer(f"{n}")]) as server:
        assert [await ask(server) for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
        assert server.connections == 1


async def test_stale_connection_costs_one_request() -> None:
    """However many are in the pool: the second goes over a new one."""
    many = 10
    full = asyncio.Event()

    def script_of(number: int) -> Script:
        if number == many - 1:
            full.set()
        return [full, answer("A")] if number < many else [CLOSE]

    async with serving(script_of) as server:
        await asyncio.gather(*[ask(server) for _ in range(many)])
        assert server.connections == many
        with pytest.raises(ConnectionLost):
            await ask(server)
        assert len(server.requests) == many + 2
        assert server.requests[-1] == many + 1


@pytest.mark.parametrize("begun", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"H"])
async def test_no_resend_after_a_response_byte(begun: bytes) -> None:
    async with serving(lambda n: [answer("A")] if n == 0 else [begun, CLOSE]) as server:
        assert await ask(server) == b"A"
        with pytest.raises(LLMStreamError):
            await ask(server)
        assert server.requests == [1, 1]


@pytest.mark.parametrize("head", ["HTTP/1.1 206 Partial Content", "HTTP/2.0 200 OK", "HTTP/3.0 200 OK"])
async def test_head_for_another_request_is_refused(head: str) -> None:
    async with serving(lambda n: [answer("A", head)]) as server:
        with pytest.raises(ProtocolError):
            await ask(server)


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
BEGUN = CHUNKED + b"1\r\nA\r\n"
END = b"0\r\n\r\n"


@asynccontextmanager
async def finishing(*script: bytes | asyncio.Event) -> AsyncIterator[tuple[Server, asyncio.Task[None]]]:
    """An answer whose first piece was read, and the wait for its end; the next request is answered "B"."""
    async with serving(lambda n: list(script) if n == 0 else [answer("B")]) as server:
        response = await send(HttpRequest(server.url, b"", {}), Deadlines())
        assert await response.read() == b"A"
        yield server, asyncio.create_task(response.finish())


@pytest.fixture
def patient(monkeypatch) -> None:
    """The end of a body may take as long as a busy machine needs."""
    monkeypatch.setattr(http, "_DRAIN_S", 30.0)


@pytest.mark.usefixtures("patient")
async def test_end_that_came_keeps_connection() -> None:
    async with finishing(BEGUN + END) as (server, ended):
        await ended
        assert await ask(server) == b"B"
        assert server.requests == [1, 1]


@pytest.mark.usefixtures("patient")
async def test_end_that_comes_late_is_waited_for() -> None:
    late = asyncio.Event()
    async with finishing(BEGUN, late, END) as (server, ended):
        await asyncio.sleep(0)
        late.set()
        await ended
        assert await ask(server) == b"B"
        assert server.requests == [1, 1]


async def test_end_that_never_comes_costs_it() -> None:
    """A server that stalls after the last event holds nobody up for longer than the limit."""
    async with finishing(BEGUN, asyncio.Event()) as (server, ended):
        await ended
        assert await ask(server) == b"B"
        assert server.requests == [1, 2]


@pytest.mark.usefixtures("patient")
async def test_cancelled_wait_for_the_end_closes() -> None:
    async with finishing(BEGUN, asyncio.Event()) as (server, ended):
        await asyncio.sleep(0)
        ended.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ended
        assert await ask(server) == b"B"
        assert server.requests == [1, 2]
