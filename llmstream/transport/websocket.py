"""One WebSocket: messages out and in, over the connections, proxies and certificates of HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import aiohttp
from aiohttp.http import WS_CLOSING_MESSAGE

from llmstream.errors import ConnectionLost, LimitExceeded, LLMStreamError, ProtocolError, TransportError
from llmstream.exchange import HttpRequest
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.failures import typed_failure
from llmstream.transport.forbidding import check_may_leave
from llmstream.transport.http import Response, check_answer, check_headers, parsed_url
from llmstream.transport.proxies import proxy_for
from llmstream.transport.sessions import current_session

__all__ = ["Refusal", "Socket", "connect", "handshake_headers"]

Refusal: TypeAlias = Callable[[int, dict[str, str], bytes], LLMStreamError]
"""(status, headers in lower case, body) of an HTTP answer to the error that it means."""

_SWITCHING: Final = 101
_OF_ONE_REQUEST: Final = frozenset({"content-type", "content-length", "accept", "idempotency-key"})
"""Headers of a request that say nothing of a socket, which carries many."""

_ORDERLY: Final = frozenset({None, 1000, 1001, 1005})
"""Close codes of a server that is done or goes away; source: RFC 6455, 7.4.1."""

_CALLERS: Final = frozenset({1003, 1007, 1008, 1009, 1010})
"""Close codes that blame what was sent; the same again would end the same."""

_TOO_BIG: Final = 1009


def handshake_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request that open a socket for it and for others like it."""
    return {name: value for name, value in headers.items() if name not in _OF_ONE_REQUEST}


class Socket:
    """An open WebSocket.

    headers: of the server's answer to the handshake, in lower case
    """

    def __init__(self, ws: aiohttp.ClientWebSocketResponse[Any], headers: dict[str, str], host: str) -> None:
        self.headers = headers
        self._ws = ws
        self._host = host
        self._dropped = False

    @property
    def closed(self) -> bool:
        """Whether it is known to be of no more use."""
        return self._dropped or self._ws.closed

    @property
    def waiting(self) -> bool:
        """Whether the next message is here, so that `receive` gives it without a wait."""
        queue: Any = getattr(self._ws._reader, "_buffer", ())
        # Behind a ping, receive() would wait for what follows.
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
        """The next message that says something; b"" once the server has closed in good order.

        Pings are answered on the way. JSON in a binary message is JSON all the same.

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
        """Closes now, without a farewell; a task that waits for a message learns it at once."""
        if not self._dropped:
            self._dropped = True
            if not self._ws.closed:
                # Its own close() waits for the peer, and over TLS the reader would wait for that too.
                self._ws._reader.feed_data(WS_CLOSING_MESSAGE, 0)
            self._ws._response.close()

    def _closed(self, code: int | None, reason: str) -> bytes:
        if code in _ORDERLY:
            return b""
        said = f"code {code}, {reason!r}" if reason else f"code {code}"
        raise ConnectionLost(
            f"{self._host} closed the WebSocket while it answered: {said}", retryable=code not in _CALLERS
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
    refusal: what an HTTP answer in place of a socket means
    raises:  what the server says in place of it; TransportError, InvalidRequest, RedirectRefused
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
    raise failure  # outside of the handler: aiohttp's exception would hold the headers that were sent


def _beside(
    session: aiohttp.ClientSession, connect_s: float | None, host: str, refusal: Refusal
) -> aiohttp.ClientSession:
    """A session on the same connections that hears what a server says in place of a socket.

    aiohttp forgets the body of such an answer, and follows redirects of a handshake, keys and all.
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
                f"{host} answered with HTTP {response.status} where a WebSocket was asked for. "
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
