"""Patches of aiohttp's connections, which lose data before a fault, wait forever or are slow.

If bytes are not valid HTTP, aiohttp sets the error on the connection but not on the body, whose reader then
waits until a deadline; an answer in the same segment as the fault is lost; and a reset of a connection whose
body has no length counts as the end of the body.

aiohttp takes bytes that arrive on a pooled connection for the response to the next request. They answer no
request, and the connection may serve another tenant next: here they close the connection.

And asyncio allocates 256 KiB before each read. glibc requests this much from the kernel and returns it each
time, which costs more than all other work for an event. A request with a body costs aiohttp a task.
"""

from __future__ import annotations

import asyncio
import functools
import select
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, cast

import aiohttp
from aiohttp import hdrs
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_writer import StreamWriter
from aiohttp.streams import StreamReader

__all__ = [
    "CarefulConnector",
    "CarefulProtocol",
    "Exchange",
    "LargeBody",
    "WholeRequest",
    "divert",
    "exchange",
]


# Read size: below malloc's mmap threshold, and four TLS records.
_READ_BYTES: Final = 64 * 1024
# Of a large body; the first one is copied behind the headers.
_PIECE_BYTES: Final = 128 * 1024


class Exchange:
    """One request: which connection it may use, and the state of that connection.

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
"""The exchange of this task that requests a connection, if llmstream started it."""


class CarefulProtocol(ResponseHandler):
    """Reads the response head separately, and reports broken framing to the reader of the body.

    served: whether any bytes have arrived
    pooled: no request uses it; any received bytes then close it
    take:   gets the pieces of the body as they arrive; see `divert`
    """

    served = False
    pooled = False
    take: Callable[[bytes], bool] | None = None
    exchange: Exchange | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when a socket is open; lowers the read size of asyncio's transport, TLS or plain."""
        reader: Any = getattr(transport, "_ssl_protocol", transport)
        if getattr(reader, "max_size", 0) > _READ_BYTES:  # absent in other event loops
            reader.max_size = _READ_BYTES
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Called with bytes from the socket."""
        if data:  # with no bytes, aiohttp only processes its buffer
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
        """Called when the socket is closed: by us or by the server, or with an error after a reset."""
        payload = self._payload
        if exc is not None and payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(exc)
        super().connection_lost(exc)


class WholeRequest(aiohttp.ClientRequest):
    """A request that is written together with its body.

    aiohttp starts a task to write a body, which is a tenth of the work before a request is sent, and in
    Python 3.11 one loop iteration.
    """

    _complete_body: bytes | None = None

    def update_body_from_data(self, body: Any, _stacklevel: int = 3) -> None:
        """Sets the body. aiohttp writes one in pieces, or one with length headers of the caller."""
        headers = self.headers
        described = hdrs.CONTENT_LENGTH in headers or hdrs.TRANSFER_ENCODING in headers
        if type(body) is bytes and body and not described and hdrs.EXPECT not in headers:
            self._complete_body = body
            headers[hdrs.CONTENT_LENGTH] = str(len(body))
            headers.setdefault(hdrs.CONTENT_TYPE, "application/octet-stream")
        else:
            super().update_body_from_data(body, _stacklevel + 1)

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """Writes the request, and returns the response without its head."""
        protocol = conn.protocol
        if self._complete_body is None or protocol is None:
            return await super().send(conn)
        # An HTTP proxy needs the complete address; https goes through a tunnel.
        target = str(self.url) if self.proxy and not self.is_ssl() else self.url.raw_path_qs
        writer = StreamWriter(protocol, self.loop)
        await writer.write_headers(f"{self.method} {target} HTTP/1.1", self.headers)
        await writer.write(self._complete_body, drain=False)
        protocol.start_timeout()
        response = self.response_class(
            self.method,
            self.original_url,
            writer=None,
            continue100=None,
            timer=self._timer,
            request_info=self.request_info,
            traces=self._traces,
            loop=self.loop,
            session=self._session,
            stream_writer=writer,
        )
        # aiohttp gives it no type: what mypy infers depends on which file it reads first.
        self.response = cast("Any", response)
        return response


class LargeBody(aiohttp.payload.Payload):
    """The body of a request, written in pieces, of which only the first is copied.

    aiohttp warns of large bytes, because it writes them at once; of the file that it recommends instead it
    copies all to learn the length, and each piece again.
    """

    def __init__(self, body: bytes) -> None:
        super().__init__(body, content_type="application/octet-stream")
        self._size = len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text."""
        text: str = self._value.decode(encoding, errors)
        return text

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Writes the body; waits where the server is slower, and lets other tasks run between two pieces."""
        body = memoryview(self._value)
        for start in range(0, len(body), _PIECE_BYTES):
            if start:
                await asyncio.sleep(0)
            await writer.write(body[start : start + _PIECE_BYTES])


class CarefulConnector(aiohttp.TCPConnector):
    """Its connections use `CarefulProtocol`, and report whether they were used before."""

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
        """A connection from the pool, or None; closes those that the server closed or wrote to."""
        current = exchange.get()
        if current is not None and current.fresh:
            return None
        while (connection := await super()._get(key, traces)) is not None:
            try:
                usable = not await _was_written_to(connection.protocol)
            except asyncio.CancelledError:
                connection.close()
                raise
            if usable:
                return connection
            connection.close()
        return None

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        """Returns a connection to the pool, or closes it."""
        if isinstance(protocol, CarefulProtocol):
            protocol.pooled = True
            protocol.exchange = protocol.take = None
        # A server may respond before it has read a large request, whose rest is not yet written.
        super()._release(key, protocol, should_close=should_close or protocol.writing_paused)


class _DivertedReader(StreamReader):
    """A body whose pieces go to `CarefulProtocol.take`, until that returns False."""

    __slots__ = ()  # required to assign this class to an existing object

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        """Called by the parser with a piece of the body."""
        protocol: Any = self._protocol
        take: Callable[[bytes], bool] | None = protocol.take
        if take is not None and data:
            if take(data):
                return False
            protocol.take = None
        return super().feed_data(data, size)


def divert(content: StreamReader, take: Callable[[bytes], bool]) -> bool:
    """Passes the pieces of a body to `take` as they arrive, in the socket's callback.

    Waking a task for a piece costs as much as all other work on it: a future, a loop iteration, and in
    aiohttp 3.14 another run of the parser after the read. Call it right before a read. If `take` returns
    False, the diversion ends and the read returns that piece.

    take:    must not raise, nor close the connection, whose parser is running
    returns: whether the body can be diverted, and has no unread bytes
    """
    protocol: Any = content._protocol
    if not isinstance(protocol, CarefulProtocol) or content._buffer or content.is_eof():
        return False
    if type(content) is StreamReader:
        # The parser already references this object, and aiohttp offers no way to choose its class.
        content.__class__ = _DivertedReader
    protocol.take = take
    return True


async def _was_written_to(protocol: ResponseHandler | None) -> bool:
    """Whether the server closed a pooled connection or wrote to it, which a busy loop may not have seen."""
    if not _has_input(protocol):
        return False
    # What TLS itself sends is no reason to close it, as the session tickets after a handshake: the loop reads
    # them in an iteration of its own. Other bytes close a pooled connection then.
    for _ in range(2):
        await asyncio.sleep(0)
    return protocol is None or not protocol.is_connected() or protocol.should_close or _has_input(protocol)


def _has_input(protocol: ResponseHandler | None) -> bool:
    """Whether the socket has unread bytes or was closed."""
    transport = protocol.transport if protocol is not None else None
    socket = transport.get_extra_info("socket") if transport is not None else None
    if socket is None or socket.fileno() < 0:
        return False
    if not hasattr(select, "poll"):  # Windows, whose select has no limit on the numbers of sockets
        return bool(select.select([socket.fileno()], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
