"""Patches of aiohttp's connections, which lose data before a fault, wait forever or are slow.

When bytes cannot be HTTP, aiohttp notes it on the connection but not on the body, whose reader then waits
until a deadline; an answer that came in the same segment as the fault is forgotten; and a reset of a
connection whose body has no length passes for the body's end.

What comes on a connection that waits in the pool, aiohttp gives to the next request as its answer. Nobody
asked for it, and the connection may serve another tenant next: here it closes the connection.

And asyncio makes room for 256 KiB before each read. So much glibc takes from the kernel and gives back,
every time, which costs more than all else that is done for an event.
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
    """One request on its way: which connection it may use, and what became of that.

    fresh:    whether only a new connection will do
    reused:   the connection that it got had served before: its server may have closed it since
    answered: a byte of the answer has come
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

    served: whether anything has come
    pooled: no request uses it; whatever comes then closes it
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
        """Bytes came from the socket."""
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
        """The socket is closed: by us, by the server's FIN, or where there is an error, by a reset."""
        payload = self._payload
        if exc is not None and payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(exc)
        super().connection_lost(exc)


class CarefulConnector(aiohttp.TCPConnector):
    """Its connections are read by `CarefulProtocol`; whoever gets one learns whether it has served before."""

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
        """A connection from the pool on which nothing has come since, or a new one."""
        connection = await super().connect(req, traces, timeout)
        protocol, current = connection.protocol, exchange.get()
        if isinstance(protocol, CarefulProtocol):
            protocol.pooled = False
            protocol.exchange = current
            if current is not None:
                current.reused = protocol.served
        return connection

    async def _get(self, key: ConnectionKey, traces: list[Any]) -> Connection | None:
        """One from the pool, or None; those that have something to read are closed on the way."""
        current = exchange.get()
        if current is not None and current.fresh:
            return None
        while (connection := await super()._get(key, traces)) is not None:
            if not _has_input(connection.protocol):
                return connection
            connection.close()
        return None

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        """A connection goes back to the pool, or is closed."""
        if isinstance(protocol, CarefulProtocol):
            protocol.pooled = True
            protocol.exchange = None
        super()._release(key, protocol, should_close=should_close)


def _has_input(protocol: ResponseHandler | None) -> bool:
    """Whether the socket has unread bytes or its end, which a busy loop has not read yet."""
    transport = protocol.transport if protocol is not None else None
    socket = transport.get_extra_info("socket") if transport is not None else None
    if socket is None or socket.fileno() < 0:
        return False
    if not hasattr(select, "poll"):  # Windows, whose select has no limit on the numbers of sockets
        return bool(select.select([socket.fileno()], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
