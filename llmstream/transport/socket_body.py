"""An answer over a WebSocket, read like the body of an HTTP response."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import aiohttp
import msgspec

from llmstream.errors import ConnectionLost, DeadlineExceeded, InvalidRequest, LLMStreamError
from llmstream.exchange import HttpRequest, SocketProtocol
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.websocket import (
    PooledSocket,
    Refusal,
    SocketPool,
    connect,
    current_pool,
    handshake_headers,
)

__all__ = ["SocketAnswer", "SocketOptions", "ask"]


# About as much as one read of an HTTP body.
_AT_ONCE_BYTES: Final = 32 * 1024

_FRAMED: Final = {"content-type": "text/event-stream"}


class SocketOptions(msgspec.Struct, frozen=True):
    """How requests use sockets instead of HTTP.

    protocol: creates the protocol of a new socket
    read:     converts the body of an HTTP request to the request of the protocol
    pool:     of idle sockets; by default that of the running loop
    """

    protocol: Callable[[], SocketProtocol]
    read: Callable[[bytes], Any]
    pool: SocketPool | None
    max_message_bytes: int


class SocketAnswer:
    """One answer; see `http.Body`. Each message of the server becomes a server-sent event.

    headers: of the handshake, if this is the first answer after it
    """

    def __init__(self, pooled: PooledSocket, pool: SocketPool, buffered: list[bytes], url: str) -> None:
        self.status = 200
        self.url = url
        self.headers = dict(_FRAMED) if pooled.served else {**pooled.socket.headers, **_FRAMED}
        pooled.served = True
        self._pooled = pooled
        self._pool = pool
        self._buffered = deque(buffered)
        self._read_lock = asyncio.Lock()  # the reader, and `steer` waiting for the server's acknowledgement
        self._closed = False
        self._aborted: LLMStreamError | None = None

    async def read(self) -> bytes:
        """The messages that have arrived, framed; b"" once the server has closed normally.

        raises: TransportError, StreamError
        """
        if not self._buffered:
            async with self._read_lock:
                # Two may read: the reader of the stream, and `steer`, which waits for the server's
                # acknowledgement.
                if not self._buffered:  # otherwise `steer` has read it
                    await self._receive_all()
        return self._take_buffered()

    async def _receive_all(self) -> None:
        """Waits for the next message; buffers it and later ones that have already arrived."""
        await self._receive()
        size = len(self._buffered[-1])
        # One batch of all that has arrived, as over HTTP, but bounded: the reader is another task.
        while self._pooled.socket.waiting and size < _AT_ONCE_BYTES and not self._pooled.protocol.is_idle:
            await self._receive()
            size += len(self._buffered[-1])

    def _take_buffered(self) -> bytes:
        """The buffered messages, unless the server has closed."""
        pieces: list[bytes] = []
        while self._buffered and (self._buffered[0] or not pieces):
            pieces.append(_framed(self._buffered.popleft()))
        return b"".join(pieces)

    async def _receive(self) -> None:
        """Adds the next message to the buffer."""
        if self._aborted is None:
            try:
                message = await self._pooled.socket.receive()
            except LLMStreamError as error:
                self._aborted = self._aborted or error
            else:
                if message:
                    self._pooled.protocol.receive(message)
                self._buffered.append(message)
                return
        raise self._aborted

    async def steer(self, content: Any, limit_s: float | None) -> None:
        """Sends input for the answer in progress, and waits until the server has accepted it.

        Messages that arrive meanwhile are buffered for the reader, which may be the same task.

        raises: the server's error; DeadlineExceeded, ConnectionLost; InvalidRequest once the
                answer is over
        """
        try:
            async with asyncio.timeout(limit_s) as timer:
                await self._steer(content)
        except TimeoutError:
            if limit_s is None or not timer.expired():
                raise
            raise DeadlineExceeded(
                f"the server did not confirm within {limit_s:g} s that it accepts the steering; "
                "it is unknown whether it does",
                reason="idle",
            ) from None

    async def _steer(self, content: Any) -> None:
        protocol = self._pooled.protocol
        # Steering names its response, so the id must have arrived.
        while not protocol.has_response_id and not protocol.is_idle:
            await self._buffer_one(lambda: protocol.has_response_id)
        if protocol.is_idle or self._closed:
            raise InvalidRequest("the answer is complete and cannot be steered")
        steering = protocol.steer(content)
        self._buffered.append(steering.message)  # sets the steered message in the decoder
        await self._pooled.socket.send(steering.message)
        while not steering.settled:
            await self._buffer_one(lambda: steering.settled)
        if steering.error is not None:
            raise steering.error

    async def _buffer_one(self, enough: Callable[[], bool]) -> None:
        async with self._read_lock:
            if not enough():
                await self._receive()
                if not self._buffered[-1]:
                    raise ConnectionLost("the server closed the WebSocket before it accepted the steering")

    async def read_error(self) -> bytes:
        """Nothing: an open socket is not an error."""
        return b""

    async def read_all(self, max_bytes: int) -> bytes:
        """Nothing: an answer over a socket is a stream."""
        return b""

    def abort(self, error: LLMStreamError) -> None:
        """Closes the socket at once; a waiting read and every later one raise `error`."""
        self._aborted = error
        self._close(keep=False)

    def close(self) -> None:
        """Closes the socket at once, unless the answer is complete and the socket can be reused."""
        self._close(keep=self._aborted is None)

    async def finish(self) -> None:
        """Returns the socket to the pool, if the answer is complete."""
        self.close()

    def _close(self, *, keep: bool) -> None:
        if self._closed:
            return
        self._closed = True
        if keep:
            self._pool.put(self._pooled)  # the pool closes one whose answer is incomplete
        else:
            self._pooled.drop()
        self._aborted = self._aborted or ConnectionLost(
            "the stream was closed while it was read", retryable=False
        )


def _framed(message: bytes) -> bytes:
    """A message as a server-sent event; line breaks in JSON are always white space."""
    if not message:
        return b""
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\n", b" ").replace(b"\r", b" ")
    return b"data: " + message + b"\n\n"


async def ask(
    request: HttpRequest,
    deadlines: Deadlines,
    session: aiohttp.ClientSession | None,
    options: SocketOptions,
    refusal: Refusal,
) -> SocketAnswer:
    """Sends one request and waits for the first message of its answer.

    An idle socket that is closed, or on which the server does not want to continue, is replaced once by
    a new one, because no part of the answer has arrived.

    raises: as `connect`; ConnectionLost
    """
    pool = options.pool or await current_pool()
    key = (request.url, session, tuple(sorted(handshake_headers(request.headers).items())))
    asked = options.read(request.body)
    pooled = pool.take(key, asked)
    if pooled is not None:
        found = await _asked(pooled, asked)
        if found is not None:
            return SocketAnswer(pooled, pool, found, request.url)
    socket = await connect(
        request, deadlines, session, max_message_bytes=options.max_message_bytes, refusal=refusal
    )
    pooled = PooledSocket(socket, options.protocol(), key)
    found = await _asked(pooled, asked, last=True)
    assert found is not None  # the last attempt raises
    return SocketAnswer(pooled, pool, found, request.url)


async def _asked(pooled: PooledSocket, request: Any, *, last: bool = False) -> list[bytes] | None:
    """The messages up to the first of the answer; None if the request must go over another socket.

    last: no other socket may be tried
    """
    buffered: list[bytes] = []
    try:
        await pooled.end_idle()
        await pooled.socket.send(pooled.protocol.send(request))
        while message := await pooled.socket.receive():
            buffered.append(message)
            kind = pooled.protocol.receive(message)
            if kind == "response" or (kind == "reconnect" and last):
                return buffered
            if kind == "reconnect":
                break
        else:
            raise ConnectionLost("the server closed the WebSocket before it answered")
    except ConnectionLost:
        pooled.drop()
        # A buffered message of the answer means that the request was accepted: sent again it would run twice.
        if last or buffered:
            raise
    except BaseException:
        pooled.drop()
        raise
    pooled.drop()
    return None
