"""Events that go through a gateway in the callback of the vendor's socket: flow control, silence, ends."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from gateway_parts import model_at, request_of, serving

import llmstream as ls
from llmstream.gateway import Gateway, open_ledger
from llmstream.gateway.accounts import Row

# A client of the vendor's wire, and of another, whose answer is translated.
CLIENTS = ["anthropic", "openai-chat"]

BEGIN = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":'
    b'"assistant","model":"sim","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}'
    b'\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":'
    b'"text","text":""}}\n\n'
)
END = (
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":'
    b'{"output_tokens":7}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
)
ERROR = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"full"}}\n\n'


def delta(text: str) -> bytes:
    return (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":'
        b'"text_delta","text":"%s"}}\n\n' % text.encode()
    )


class Vendor:
    """Writes what is put in `pieces`, each by itself; b"" ends the answer, None cuts it."""

    def __init__(self, flood: Iterator[bytes] | None = None) -> None:
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.sent_bytes = 0
        self.left = asyncio.Event()
        self._flood = flood

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            await reader.readexactly(int(length[1]) if length else 0)
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            leaving = asyncio.create_task(self._watch(reader))
            for piece in self._flood or ():
                await self._write(writer, piece)
            while piece := await self.pieces.get():
                await self._write(writer, piece)
            if piece is None:
                writer.transport.abort()
            else:
                writer.write(b"0\r\n\r\n")
            leaving.cancel()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # a connection that is opened ahead and never used, or left
        finally:
            writer.close()

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(1024):
                pass
        self.left.set()
        self.pieces.put_nowait(None)

    async def _write(self, writer: asyncio.StreamWriter, piece: bytes) -> None:
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
        self.sent_bytes += len(piece)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self.pieces.put_nowait(None)


class Client:
    """A client's socket: what came so far, and whether it ended in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.got = bytearray()
        self.writer = writer
        self._reader = reader

    @classmethod
    async def asking(cls, url: str, wire: str) -> Client:
        http = request_of(wire)
        host, port = url.removeprefix("http://").split(":")
        client = cls(*await asyncio.open_connection(host, int(port)))
        head = f"POST {http.url} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        client.writer.write(f"{head}content-length: {len(http.body)}\r\n\r\n".encode() + http.body)
        return client

    async def until(self, text: bytes) -> None:
        """Reads on until it has come."""
        async with asyncio.timeout(30):
            while text not in self.got:
                piece = await self._reader.read(64 * 1024)
                assert piece, self.got
                self.got += piece

    async def end(self) -> bool:
        """Reads to the end; whether it is one of HTTP's."""
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                while piece := await self._reader.read(64 * 1024):
                    self.got += piece
                    if self.got.endswith(b"\r\n0\r\n\r\n"):
                        return True
        return False

    @property
    def body(self) -> bytes:
        """Without the chunks of HTTP."""
        got, body = bytes(self.got), bytearray()
        at = got.index(b"\r\n\r\n") + 4
        while size := int(got[at : (begin := got.index(b"\r\n", at) + 2)], 16):
            body += got[begin : begin + size]
            at = begin + size + 2
        return bytes(body)


@asynccontextmanager
async def before(vendor: Vendor, **options: object) -> AsyncIterator[str]:
    """The address of a gateway."""
    model = {name: options.pop(name) for name in ("deadlines",) if name in options}
    async with contextlib.AsyncExitStack() as stack:
        base = await stack.enter_async_context(vendor.listening())
        gateway = Gateway({"*": model_at(base, "anthropic", **model)}, **options)
        yield await stack.enter_async_context(serving(gateway))


def rows_of(path: Path) -> list[Row]:
    with contextlib.closing(open_ledger(path)) as ledger:
        return ledger.rows()


async def told(vendor: Vendor, client: Client, words: list[str]) -> None:
    """The vendor writes each word once the client has the one before, so that each is poured by itself."""
    vendor.pieces.put_nowait(BEGIN)
    for word in words:
        vendor.pieces.put_nowait(delta(word))
        await client.until(word.encode())


@pytest.mark.parametrize("wire", CLIENTS)
async def test_each_event_is_there_at_once(tmp_path: Path, wire: str) -> None:
    vendor, words = Vendor(), [f"word{number}" for number in range(50)]
    async with before(vendor, keys=tmp_path / "gateway.db") as url:
        client = await Client.asking(url, wire)
        await told(vendor, client, words)
        for piece in (END, b""):
            vendor.pieces.put_nowait(piece)
        assert await client.end()
        client.writer.close()
    if wire == "anthropic":
        assert client.body == BEGIN + b"".join(delta(word) for word in words) + END
    else:
        assert re.findall(rb"word\d+", client.body) == [word.encode() for word in words]
        assert client.body.endswith(b"data: [DONE]\n\n")
    (row,) = rows_of(tmp_path / "gateway.db")
    assert (row.outcome, row.input_tokens, row.output_tokens, row.estimated) == ("complete", 9, 7, False)


@pytest.mark.parametrize("wire", CLIENTS)
@pytest.mark.parametrize("last", [b"", None, ERROR])
async def test_poured_halves_are_no_success(tmp_path: Path, wire: str, last: bytes | None) -> None:
    """The end without a finish, a cut, and an error of the vendor, after events that were poured."""
    vendor = Vendor()
    async with before(vendor, keys=tmp_path / "gateway.db") as url:
        client = await Client.asking(url, wire)
        await told(vendor, client, ["one", "two", "three"])
        for piece in (last, b""):
            vendor.pieces.put_nowait(piece)
        in_order = await client.end()
        client.writer.close()
    assert b"one" in client.got
    assert b"three" in client.got
    assert b"[DONE]" not in client.got
    # On its own wire, the vendor's error passes as it is, and its clients raise it.
    assert in_order is (wire == "anthropic" and last is ERROR)
    assert (b"full" in client.got) is (last is ERROR)
    (row,) = rows_of(tmp_path / "gateway.db")
    assert (row.outcome, row.input_tokens) == ("cut", 9)
    assert row.output_tokens > 0


@pytest.mark.parametrize("wire", CLIENTS)
async def test_left_vendors_are_closed(tmp_path: Path, wire: str) -> None:
    vendor = Vendor()
    async with before(vendor, keys=tmp_path / "gateway.db") as url:
        client = await Client.asking(url, wire)
        await told(vendor, client, ["one", "two", "three"])
        client.writer.close()
        async with asyncio.timeout(30):
            await vendor.left.wait()
    (row,) = rows_of(tmp_path / "gateway.db")
    assert (row.outcome, row.input_tokens) == ("left", 9)


@pytest.mark.parametrize("wire", CLIENTS)
async def test_silence_of_the_vendor_ends_it(wire: str) -> None:
    """The idle deadline holds after events that no task has read."""
    vendor = Vendor()
    async with before(vendor, deadlines=ls.Deadlines(idle_s=0.5)) as url:
        client = await Client.asking(url, wire)
        await told(vendor, client, ["one", "two", "three"])
        assert not await client.end()
        client.writer.close()
        async with asyncio.timeout(30):
            await vendor.left.wait()
    assert b"[DONE]" not in client.got


async def test_heartbeats_come_between_events() -> None:
    """And events are poured after them as before."""
    vendor = Vendor()
    async with before(vendor, heartbeat_s=0.05) as url:
        client = await Client.asking(url, "openai-chat")
        await told(vendor, client, ["one", "two"])
        for word in ("three", "four"):
            client.got = client.got.replace(b": ping", b"")
            await client.until(b": ping\n\n")
            vendor.pieces.put_nowait(delta(word))
            await client.until(word.encode())
        for piece in (END, b""):
            vendor.pieces.put_nowait(piece)
        assert await client.end()
        client.writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("wire", CLIENTS)
async def test_slow_clients_slow_the_vendor(wire: str) -> None:
    """What a client does not take stays with the vendor, but for the buffers of three sockets."""
    text, count = "x" * 16_000, 4_000
    vendor = Vendor(iter([BEGIN, *([delta(text)] * count)]))
    async with before(vendor) as url:
        client = await Client.asking(url, wire)
        await client.until(b"x")
        async with asyncio.timeout(60):
            before_bytes = -1
            # Until nothing moves: each look comes after many turns of the loop that all share.
            while vendor.sent_bytes != before_bytes:
                before_bytes = vendor.sent_bytes
                for _ in range(200):
                    await asyncio.sleep(0.001)
        assert vendor.sent_bytes < count * len(text) / 2
        for piece in (END, b""):
            vendor.pieces.put_nowait(piece)
        assert await client.end()
        client.writer.close()
    assert client.body.count(text.encode()) == count
