"""Pieces of a body that are taken in the callback of their socket, past the task that reads."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from llmstream.errors import LLMStreamError
from llmstream.exchange import HttpRequest
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.http import Response, send


class Vendor:
    """Writes a piece for each that is put in `pieces`; None ends the body, an exception breaks it."""

    def __init__(self, first: bytes = b"first", **headers: str) -> None:
        self.pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.pieces.put_nowait(first)
        self.answers = 0
        self._headers = headers

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.answers += 1
        response = web.StreamResponse(headers=self._headers)
        await response.prepare(request)
        while (piece := await self.pieces.get()) is not None:
            if isinstance(piece, Exception):
                assert request.transport is not None
                request.transport.abort()
                break
            await response.write(piece)
        return response

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[Response]:
        app = web.Application()
        app.add_routes([web.get("/", self.answer)])
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
            response = await self.ask()
            assert await response.read() == b"first"
            yield response
            response.close()
        finally:
            self.pieces.put_nowait(None)
            await runner.cleanup()

    async def ask(self) -> Response:
        return await send(HttpRequest(self.url, b"", {}, "GET"), Deadlines())


class Taken:
    """Takes pieces, up to so many; the test waits for each."""

    def __init__(self, most: int = 1_000) -> None:
        self.pieces: list[bytes] = []
        self.tasks: set[object] = set()
        self._most = most
        self._came = asyncio.Event()

    def __call__(self, piece: bytes) -> bool:
        if len(self.pieces) >= self._most:
            return False
        self.pieces.append(piece)
        self.tasks.add(asyncio.current_task())
        self._came.set()
        return True

    async def next(self) -> bytes:
        async with asyncio.timeout(30):
            await self._came.wait()
        self._came.clear()
        return self.pieces[-1]


async def test_pieces_are_taken_without_a_task() -> None:
    vendor, taken = Vendor(), Taken()
    async with vendor.answering() as response:
        response.divert(taken)
        reading = asyncio.create_task(response.read())
        for piece in (b"a", b"b", b"c"):
            vendor.pieces.put_nowait(piece)
            assert await taken.next() == piece
        vendor.pieces.put_nowait(None)
        assert await reading == b""
    assert (taken.pieces, taken.tasks) == ([b"a", b"b", b"c"], {None})


async def test_refused_pieces_go_to_the_reader() -> None:
    """From the first that is refused on, until the body is diverted again."""
    vendor, taken = Vendor(), Taken(most=1)
    async with vendor.answering() as response:
        response.divert(taken)
        reading = asyncio.create_task(response.read())
        for piece in (b"a", b"b"):
            vendor.pieces.put_nowait(piece)
        assert await taken.next() == b"a"
        assert await reading == b"b"
        vendor.pieces.put_nowait(b"c")
        assert await response.read() == b"c"
        again = Taken()
        response.divert(again)
        vendor.pieces.put_nowait(b"d")
        vendor.pieces.put_nowait(None)
        assert await response.read() == b""
    assert (b"".join(taken.pieces), b"".join(again.pieces)) == (b"a", b"d")


async def test_unread_bytes_come_first() -> None:
    vendor, taken = Vendor(), Taken()
    async with vendor.answering() as response:
        vendor.pieces.put_nowait(b"a")
        content = response._response.content
        async with asyncio.timeout(30):
            while not content._buffer:
                await asyncio.sleep(0.01)
        response.divert(taken)
        assert await response.read() == b"a"
        vendor.pieces.put_nowait(b"b")
        assert await response.read() == b"b"
    assert taken.pieces == []


async def test_compressed_bodies_are_diverted() -> None:
    squeeze = zlib.compressobj(wbits=31)

    def squeezed(text: bytes) -> bytes:
        return squeeze.compress(text) + squeeze.flush(zlib.Z_SYNC_FLUSH)

    vendor, taken = Vendor(squeezed(b"first"), **{"content-encoding": "gzip"}), Taken()
    async with vendor.answering() as response:
        response.divert(taken)
        for piece in (squeezed(b"a"), squeezed(b"b"), squeeze.flush(), None):
            vendor.pieces.put_nowait(piece)
        assert await response.read() == b""
    assert b"".join(taken.pieces) == b"ab"


async def test_a_break_reaches_the_reader() -> None:
    vendor, taken = Vendor(), Taken()
    async with vendor.answering() as response:
        response.divert(taken)
        reading = asyncio.create_task(response.read())
        vendor.pieces.put_nowait(b"a")
        assert await taken.next() == b"a"
        vendor.pieces.put_nowait(ConnectionError())
        with pytest.raises(LLMStreamError):
            await reading


async def test_the_next_answer_is_its_own() -> None:
    """A connection that serves again has no diversion of the answer before."""
    vendor, taken = Vendor(), Taken()
    async with vendor.answering() as response:
        response.divert(taken)
        vendor.pieces.put_nowait(None)
        assert await response.read() == b""
        response.close()
        vendor.pieces.put_nowait(b"second")
        again = await vendor.ask()
        assert await again.read() == b"second"
        vendor.pieces.put_nowait(None)
        assert await again.read() == b""
    assert (taken.pieces, vendor.answers) == ([], 2)


async def test_tapped_bodies_are_read_as_ever() -> None:
    vendor, taken, tapped = Vendor(), Taken(), list[bytes]()
    async with vendor.answering() as response:
        response.tap(tapped.append)
        response.divert(taken)
        vendor.pieces.put_nowait(b"a")
        assert await response.read() == b"a"
    assert (taken.pieces, tapped) == ([], [b"a"])
