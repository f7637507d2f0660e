"""aiohttp's connections, mended where they lose what came before a fault, wait for ever, or are slow.

When bytes cannot be HTTP, aiohttp notes it on the connection but not on the body, whose reader then waits
until a deadline; an answer that came in the same segment as the fault is forgotten; and a reset of a
connection whose body has no length passes for the body's end.

And asyncio makes room for 256 KiB before each read. So much glibc takes from the kernel and gives back,
every time, which costs more than all else that is done for an event.
"""

from __future__ import annotations

import asyncio
import functools
from contextvars import ContextVar
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

__all__ = ["CarefulConnector", "reused"]

_READ_BYTES: Final = 64 * 1024
"""Asked for at a time: below what malloc takes from the kernel, and four records of TLS."""


reused: ContextVar[bool] = ContextVar("reused", default=False)
"""Whether the connection that this task got last had served before: its server may have closed it since."""


class CarefulProtocol(ResponseHandler):
    """Reads the head of an answer by itself, and tells the body's reader when its framing breaks.

    served: whether anything has come
    """

    served = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A socket is open. What of asyncio reads it, TLS or the plain transport, is told to ask for less."""
        reader: Any = getattr(transport, "_ssl_protocol", transport)
        if getattr(reader, "max_size", 0) > _READ_BYTES:  # other event loops have no such size
            reader.max_size = _READ_BYTES
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Bytes came from the socket."""
        self.served = True
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
        """A connection from the pool, or a new one."""
        connection = await super().connect(req, traces, timeout)
        reused.set(getattr(connection.protocol, "served", False))
        return connection
