"""Clients that leave before the head of their response: the vendor is left too, and the call accounted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_parts import SERVERS, gateway_before, model_at, on_server, request_of

from llmstream.events import Usage
from llmstream.exchange import HttpRequest
from llmstream.gateway import Gateway, open_ledger
from llmstream.gateway.accounts import Row
from llmstream.gateway.ledger import Busy
from llmstream.gateway.sqlite_ledger import SQLiteLedger
from llmstream.serve.body import Body
from llmstream.testing import Pace, Turn

# A client of the vendor's wire, and of another, whose answer is translated.
CLIENTS = ["anthropic", "openai-chat"]


class SilentVendor:
    """Takes requests, and never answers; notes when the socket of one closes."""

    def __init__(self) -> None:
        self.port = 0
        self.asked = asyncio.Event()
        self.closed = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.asked.set()
            while await reader.read(1024):
                pass
            self.closed.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # a connection that is opened ahead and never used
        finally:
            writer.close()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self, "127.0.0.1", 0)
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{self.port}"


def sent_by(wire: str, *, streamed: bool) -> bytes:
    http = request_of(wire, streamed=streamed)
    head = f"POST {http.url} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(http.body)}\r\n\r\n".encode() + http.body


def rows_of(path: Path) -> list[Row]:
    ledger = open_ledger(path)
    rows = ledger.rows()
    ledger.close()
    return rows


async def left_before_the_head(url: str, sent: bytes, vendor: SilentVendor) -> None:
    """Asks, leaves once the vendor has the request, and waits until the vendor's socket closes."""
    _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(sent)
    async with asyncio.timeout(30):
        await vendor.asked.wait()
    writer.close()
    # Shorter than the 10 s after which the head is sent anyway, whose write would notice the same.
    async with asyncio.timeout(8):
        await vendor.closed.wait()


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("server", SERVERS)
async def test_vendor_is_left_at_once(tmp_path: Path, server: str, client: str, streamed: bool) -> None:
    path = tmp_path / "gateway.db"
    vendor = SilentVendor()
    async with vendor.listening() as base:
        gateway = Gateway({"*": model_at(base, "anthropic")}, keys=path)
        async with on_server(server, gateway) as url:
            await left_before_the_head(url, sent_by(client, streamed=streamed), vendor)
    (row,) = rows_of(path)
    assert (row.outcome, row.estimated, row.first_s) == ("left", True, None)
    assert row.input_tokens > 0


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_drained_calls_are_not_left(tmp_path: Path, client: str, streamed: bool) -> None:
    """With `drain`, what the vendor reports at the end is billed, though its response had not begun."""
    script = [Turn(text="one two", usage=Usage(1000, 100), pace=Pace(first_s=0.2))]
    async with gateway_before("anthropic", script, keys=tmp_path / "gateway.db", drain=True) as (
        url,
        simulator,
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(sent_by(client, streamed=streamed))
        async with asyncio.timeout(30):
            while not simulator.requests:
                await asyncio.sleep(0.01)
            writer.close()
            await simulator.requests[0].done.wait()
        assert not simulator.requests[0].disconnected
    (row,) = rows_of(tmp_path / "gateway.db")
    assert (row.outcome, row.estimated) == ("left", False)
    assert (row.input_tokens, row.output_tokens) == (1000, 100)


class SlowLedger(SQLiteLedger):
    """A ledger whose reserves wait until they may."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked, self.may = threading.Event(), threading.Event()

    def reserve(self, *given: Any, waits: bool = True) -> None:
        if not waits:
            raise Busy
        self.asked.set()
        self.may.wait(30)
        super().reserve(*given)


async def test_left_reserves_are_settled(tmp_path: Path) -> None:
    """A client that leaves while its reserve is being stored owes nothing, and is no open call."""
    ledger = SlowLedger(tmp_path / "gateway.db")
    gateway = Gateway({"*": "sim:demo"}, keys=ledger)
    call = asyncio.create_task(gateway.answer(request_of("anthropic")))
    assert await asyncio.to_thread(ledger.asked.wait, 30)
    call.cancel()
    await asyncio.wait((call,))
    assert call.cancelled()
    ledger.may.set()
    await gateway.aclose()
    (row,) = rows_of(tmp_path / "gateway.db")
    assert (row.outcome, row.cost_usd, row.output_tokens, row.estimated) == ("left", 0.0, 0, False)


@pytest.mark.parametrize("server", SERVERS)
async def test_half_requests_are_no_defects(server: str, caplog: pytest.LogCaptureFixture) -> None:
    """A client that leaves while it sends is not logged as a failure of the gateway."""
    gateway = Gateway({"*": "sim:demo"})
    reading = asyncio.Event()
    answer = gateway.answer

    async def watched(http: HttpRequest, read: Any) -> Body:
        reading.set()
        return await answer(http, read)

    gateway.answer = watched  # type: ignore[method-assign]
    async with on_server(server, gateway) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(sent_by("anthropic", streamed=True)[:-5])
        async with asyncio.timeout(30):
            await reading.wait()
        writer.close()
    assert "the gateway failed" not in caplog.text
