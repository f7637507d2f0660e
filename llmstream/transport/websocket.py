"""One WebSocket, over the connections, proxies and certificates of HTTP; and the pool of sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from typing import Any, Final, TypeAlias

import aiohttp
from aiohttp.http import WS_CLOSING_MESSAGE

from llmstream.errors import ConnectionLost, LimitExceeded, LLMStreamError, ProtocolError, TransportError
from llmstream.exchange import HttpRequest, SocketProtocol
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.egress import check_may_leave, proxy_for
from llmstream.transport.failures import typed_failure
from llmstream.transport.http import Response, check_answer, check_headers, parsed_url
from llmstream.transport.sessions import LoopBound, current_session

__all__ = ["PooledSocket", "Refusal", "SocketPool", "connect", "current_pool", "handshake_headers"]


Refusal: TypeAlias = Callable[[int, dict[str, str], bytes], LLMStreamError]
"""(status, headers in lower case, body) of an HTTP response to the corresponding error."""

# source: RFC 9110, 15.2.2
_SWITCHING: Final = 101
# Request headers that do not affect the choice of a socket, which carries many requests.
_OF_ONE_REQUEST: Final = frozenset({"content-type", "content-length", "accept", "idempotency-key"})

# Close codes of a normal end or a server that goes away; source: RFC 6455, 7.4.1.
_ORDERLY: Final = frozenset({None, 1000, 1001, 1005})

# Close codes for invalid input; the same message would fail again.
_CALLERS: Final = frozenset({1003, 1007, 1008, 1009, 1010})

# source: RFC 6455, 7.4.1
_TOO_BIG: Final = 1009


def handshake_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request that open a socket for it and for similar ones."""
    return {name: value for name, value in headers.items() if name not in _OF_ONE_REQUEST}


class Socket:
    """An open WebSocket.

    headers: of the server's response to the handshake, in lower case
    """

    def __init__(self, ws: aiohttp.ClientWebSocketResponse[Any], headers: dict[str, str], host: str) -> None:
        self.headers = headers
        self._ws = ws
        self._host = host
        self._dropped = False

    @property
    def closed(self) -> bool:
        """Whether it is known to be unusable."""
        return self._dropped or self._ws.closed

    @property
    def waiting(self) -> bool:
        """Whether the next message has arrived, so that `receive` returns it without waiting."""
        queue: Any = getattr(self._ws._reader, "_buffer", ())
        # After a ping, receive() would wait for the next message.
        return bool(queue) and queue[0][0].type is aiohttp.WSMsgType.TEXT

    async def send(self, message: bytes) -> None:
        """Sends one text message.

        raises: ConnectionLost
        """
        try:
            await self._ws.send_frame(message, aiohttp.WSMsgType.TEXT)
            return
        except Exception as error:
            failure = typed_failure(error, self._host, answered=False)
        raise failure

    async def receive(self) -> bytes:
        """The next message with content; b"" once the server has closed normally.

        Pings are answered meanwhile. JSON may also come in a binary message.

        raises: ConnectionLost; LimitExceeded for a message that is too long, ProtocolError
        """
        while True:
            message = await self._ws.receive()
            kind = message.type
            if kind is aiohttp.WSMsgType.TEXT or kind is aiohttp.WSMsgType.BINARY:
                if message.data:
                    return bytes(message.data)
            elif kind is aiohttp.WSMsgType.CLOSE:
                return self._closed(message.data, str(message.extra or ""))
            else:
                raise self._broken(message.data if kind is aiohttp.WSMsgType.ERROR else None)

    def drop(self) -> None:
        """Closes at once, without a closing handshake; a waiting task is woken."""
        if not self._dropped:
            self._dropped = True
            if not self._ws.closed:
                # Its own close() waits for the peer, and over TLS the reader would also wait for it.
                self._ws._reader.feed_data(WS_CLOSING_MESSAGE, 0)
            self._ws._response.close()

    def _closed(self, code: int | None, reason: str) -> bytes:
        if code in _ORDERLY:
            return b""
        cause = f"code {code}, {reason!r}" if reason else f"code {code}"
        raise ConnectionLost(
            f"{self._host} closed the WebSocket while it answered: {cause}", retryable=code not in _CALLERS
        )

    def _broken(self, error: object) -> LLMStreamError:
        if isinstance(error, aiohttp.WebSocketError):
            if error.code == _TOO_BIG:
                return LimitExceeded(
                    f"a message of {self._host} is too long: {error}. "
                    "Raise StreamLimits(max_event_bytes=...) if that is right."
                )
            return ProtocolError(f"{self._host} broke the rules of WebSocket: {error}", retryable=True)
        if isinstance(error, Exception):
            return typed_failure(error, self._host, answered=True)
        return ConnectionLost(f"the connection to {self._host} broke while it answered")


async def connect(
    request: HttpRequest,
    deadlines: Deadlines,
    session: aiohttp.ClientSession | None,
    *,
    max_message_bytes: int,
    refusal: Refusal,
) -> Socket:
    """Opens a socket at the address of a request, with its headers.

    session: the caller's own; by default the pooled one of the running loop
    refusal: converts an HTTP response, instead of a socket, to an error
    raises:  that error; TransportError, InvalidRequest, RedirectRefused
    """
    url, scheme, host, port = parsed_url(request.url)
    check_may_leave(host)
    check_headers(request.headers)
    if session is None:
        session = await current_session()
    if session.closed:
        raise TransportError(f"the request to {host} failed: the session is closed")
    proxy = proxy_for(scheme, host, port)
    opening = _beside(session, deadlines.connect_s, host, refusal)
    try:
        ws = await opening.ws_connect(
            url,
            headers=handshake_headers(request.headers),
            proxy=proxy,
            max_msg_size=max_message_bytes,
            decode_text=False,
        )
    except Exception as error:
        failure = typed_failure(error, host, answered=False, proxy=proxy)
    else:
        headers = {name.lower(): value for name, value in ws._response.headers.items()}
        return Socket(ws, headers, host)
    finally:
        opening.detach()
    raise failure  # outside the handler: aiohttp's exception would reference the request headers


def _beside(
    session: aiohttp.ClientSession, connect_s: float | None, host: str, refusal: Refusal
) -> aiohttp.ClientSession:
    """A session on the same connections that reads the response of a server that refuses a socket.

    aiohttp drops the body of such a response, and follows redirects of a handshake with all keys.
    """

    async def only_sockets(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        response = await handler(request)
        if response.status == _SWITCHING:
            return response
        check_answer(response, host)
        answer = Response(response, host, str(request.url))
        try:
            body = await answer.read_error()
        finally:
            answer.close()
        if response.status < 400:
            raise ProtocolError(
                f"{host} answered with HTTP {response.status} where a WebSocket was requested. "
                'Leave out transport="websocket" if it has none.',
                status=response.status,
            )
        raise refusal(answer.status, answer.headers, body)

    return aiohttp.ClientSession(
        connector=session.connector,
        connector_owner=False,
        headers=session.headers,
        cookie_jar=session.cookie_jar,
        trust_env=session.trust_env,
        trace_configs=session.trace_configs,
        timeout=aiohttp.ClientTimeout(total=None, connect=connect_s),
        middlewares=(only_sockets, *session._middlewares),
    )


# Idle sockets: each serves one request at a time and can be reused.

# OpenAI closes a socket after 60 minutes; an answer that begins by this time has ten more to end
# (developers.openai.com/api/docs/guides/websocket-mode, read 2026-11).
_LIFETIME_S: Final = 50 * 60.0

# Load balancers silently drop connections that are idle for about six minutes.
_IDLE_S: Final = 300.0

# Each holds a connection. Above this number the oldest is closed, which the vendor would close first.
_MAX_IDLE: Final = 32


class PooledSocket:
    """A socket and its protocol; the pool stores it between two requests.

    key:   identifies the requests it can serve: same address, headers and session
    since: when it was opened, in loop time
    """

    def __init__(self, socket: Socket, protocol: SocketProtocol, key: Hashable) -> None:
        self.socket = socket
        self.protocol = protocol
        self.key = key
        self.served = False
        self.since = asyncio.get_running_loop().time()
        self._watch: asyncio.Task[None] | None = None

    def usable(self) -> bool:
        """Whether it can be reused for another request."""
        young = asyncio.get_running_loop().time() - self.since < _LIFETIME_S
        return young and self.protocol.is_idle and not self.socket.closed

    def begin_idle(self) -> None:
        """Answers pings from now on, and closes the socket after an idle timeout."""
        self._watch = asyncio.create_task(self._wait(), name="llmstream: an idle WebSocket")

    async def end_idle(self) -> None:
        """Ends the idle state for the next request, because only one task may wait for messages."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])

    def drop(self) -> None:
        """Closes the socket at once."""
        if self._watch is not None:
            self._watch.cancel()
        self.socket.drop()

    async def _wait(self) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_IDLE_S):
                while message := await self.socket.receive():
                    if self.protocol.receive(message) != "unrelated":
                        break
        self.socket.drop()  # only a close message can arrive, as no request was sent


class SocketPool:
    """Idle sockets, the longest idle first."""

    def __init__(self) -> None:
        self._sockets: list[PooledSocket] = []
        self._closed = False

    def take(self, key: Hashable, request: Any) -> PooledSocket | None:
        """A socket for a request: the one whose last answer it continues, else the longest idle."""
        self._sockets = [pooled for pooled in self._sockets if not pooled.socket.closed]
        fitting = [pooled for pooled in self._sockets if pooled.key == key and pooled.usable()]
        if not fitting:
            return None
        pooled = next((pooled for pooled in fitting if pooled.protocol.continues(request)), fitting[0])
        self._sockets.remove(pooled)
        return pooled

    def put(self, pooled: PooledSocket) -> None:
        """Returns a socket after its answer; closes it if it cannot be reused."""
        if self._closed or not pooled.usable():
            pooled.drop()
            return
        self._sockets.append(pooled)
        pooled.begin_idle()
        if len(self._sockets) > _MAX_IDLE:
            self._sockets.pop(0).drop()

    def close(self) -> None:
        """Closes all idle sockets, and those returned later."""
        self._closed = True
        sockets, self._sockets = self._sockets, []
        for pooled in sockets:
            pooled.drop()


async def _pool(_: None) -> AsyncGenerator[SocketPool]:
    pool = SocketPool()
    try:
        yield pool
    finally:
        pool.close()
        await asyncio.sleep(0)  # the sockets' close callbacks run in the next loop iteration


_pools: Final = LoopBound(_pool)


async def current_pool() -> SocketPool:
    """The pool of the running loop, which is closed with it."""
    return await _pools.get(None)
