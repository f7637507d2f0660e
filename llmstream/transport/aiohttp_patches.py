"""Patches of aiohttp's connections, which lose data before a fault, wait forever or are slow.

If bytes are not valid HTTP, aiohttp notes it on the connection but not on the body, whose reader then waits
until a deadline; an answer in the same segment as the fault is lost; and a reset of a connection whose body
has no length counts as the end of the body.

Bytes that arrive on a connection in the pool become the answer to the next request in aiohttp. No request
asked for them, and the connection may serve another tenant next: here they close the connection.

And asyncio allocates 256 KiB before each read. glibc takes this much from the kernel and returns it each
time, which costs more than all other work for an event.
"""

from __future__ import annotations

import asyncio
import functools
import select
from contextvars import ContextVar
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection

__all__ = ["CarefulConnector", "CarefulProtocol", "Exchange", "exchange"]


# Asked for at a time: below what malloc takes from the kernel, and four records of TLS.
_READ_BYTES: Final = 64 * 1024


class Exchange:
    """One request: which connection it may use, and what happened on it.

    fresh:    whether only a new connection may be used
    reused:   the connection had served before, so the server may have closed it since
    answered: at least one byte of the answer has arrived
    """

    __slots__ = ("answered", "fresh", "reused")

    def __init__(self, *, fresh: bool = False) -> None:
        self.fresh = fresh
        self.reused = False
        self.answered = False


exchange: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
"""The exchange that this task asks for a connection, where it is one of ours."""


class CarefulProtocol(ResponseHandler):
    """Reads the response head separately, and reports broken framing to the reader of the body.

    served: whether any bytes have arrived
    pooled: no request uses it; any bytes then close it
    """

    served = False
    pooled = False
    exchange: Exchange | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when a socket is open; lowers the read size of asyncio's transport, TLS or plain."""
        reader: Any = getattr(transport, "_ssl_protocol", transport)
        if getattr(reader, "max_size", 0) > _READ_BYTES:  # other event loops have no such size
            reader.max_size = _READ_BYTES
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Called with bytes from the socket."""
        if data:  # without, aiohttp only goes on with what it holds
            if self.pooled:
                self.force_close()
                self.close()
                return
            self.served = True
            if self.exchange is not None:
                self.exchange.answered = True
        payload = self._payload
        if payload is None or payload.is_eof():
            end = data.find(b"\r\n\r\n") + 4
            if 4 <= end < len(data):
                super().data_received(data[:end])
                data = data[end:]
        super().data_received(data)
        error = self.exception()
        payload = self._payload
        if error is not None and payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(error)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called when the socket is closed: by us, by the server, or with an error, by a reset."""
        payload = self._payload
        if exc is not None and payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(exc)
        super().connection_lost(exc)


class CarefulConnector(aiohttp.TCPConnector):
    """Its connections use `CarefulProtocol`, and report whether they have served before."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        made = functools.partial(CarefulProtocol, loop=asyncio.get_running_loop())
        self._factory = made  # type: ignore[assignment]  # a subclass of what it makes otherwise

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  # aiohttp's
    ) -> Connection:
        """A connection from the pool without unread input, or a new one."""
        connection = await super().connect(req, traces, timeout)
        protocol, current = connection.protocol, exchange.get()
        if isinstance(protocol, CarefulProtocol):
            protocol.pooled = False
            protocol.exchange = current
            if current is not None:
                current.reused = protocol.served
        return connection

    async def _get(self, key: ConnectionKey, traces: list[Any]) -> Connection | None:
        """A connection from the pool, or None; closes those with unread input."""
        current = exchange.get()
        if current is not None and current.fresh:
            return None
        while (connection := await super()._get(key, traces)) is not None:
            if not _has_input(connection.protocol):
                return connection
            connection.close()
        return None

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        """Returns a connection to the pool, or closes it."""
        if isinstance(protocol, CarefulProtocol):
            protocol.pooled = True
            protocol.exchange = None
        super()._release(key, protocol, should_close=should_close)


def _has_input(protocol: ResponseHandler | None) -> bool:
    """Whether the socket has unread bytes or was closed, which a busy loop has not noticed yet."""
    transport = protocol.transport if protocol is not None else None
    socket = transport.get_extra_info("socket") if transport is not None else None
    if socket is None or socket.fileno() < 0:
        return False
    if not hasattr(select, "poll"):  # Windows, whose select has no limit on the numbers of sockets
        return bool(select.select([socket.fileno()], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
