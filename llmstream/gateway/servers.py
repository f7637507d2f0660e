"""A gateway on a server: as an ASGI application, and on aiohttp.web."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from aiohttp import web

from llmstream.errors import BadRequest, LLMStreamError
from llmstream.exchange import HttpRequest
from llmstream.serve import aiohttp as aiohttp_adapter
from llmstream.serve import asgi as asgi_adapter
from llmstream.serve.body import Body

if TYPE_CHECKING:
    from llmstream.gateway.gateway import Gateway
    from llmstream.serve.asgi import Receive, Scope, Send

_log: Final = logging.getLogger("llmstream.gateway")

# As uvicorn's; proxies cut connections idle for 30 to 60 s.
_PING_S: Final = 20.0

__all__ = ["aiohttp_application", "asgi_application"]


def asgi_application(gateway: Gateway) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Returns the gateway as an ASGI application."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(gateway, receive, send)
            return
        if scope["type"] == "websocket":
            refused = await gateway.answer_socket(_of_scope(scope), _ASGISocket(receive, send))
            if refused is not None:
                await _refuse_asgi(refused, scope, send)
            return
        http, most = _of_scope(scope), gateway.max_body_bytes

        async def answer(read: Receive) -> Body:
            return await gateway.answer(http, lambda: _read_asgi(read, http, most))

        await asgi_adapter.respond(answer)(scope, receive, send)

    return application


class _ASGISocket:
    """A client's WebSocket; see `sockets.ClientSocket`."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send

    async def accept(self) -> None:
        await self._send({"type": "websocket.accept"})

    async def receive(self) -> bytes | None:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return None
            if message["type"] == "websocket.receive":
                text: str | None = message.get("text")
                return message.get("bytes") or b"" if text is None else text.encode()

    async def send(self, message: bytes) -> None:
        try:
            await self._send({"type": "websocket.send", "text": message.decode("utf-8", "replace")})
        except RuntimeError as error:  # raised by servers after the client has disconnected
            raise ConnectionError(str(error)) from None

    async def close(self, code: int, reason: str) -> None:
        await self._send({"type": "websocket.close", "code": code, "reason": reason})


async def _refuse_asgi(body: Body, scope: Scope, send: Send) -> None:
    """Answers a handshake with a status; servers without that extension answer 403."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await body.aclose()
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in body.headers.items()]
    await send({"type": "websocket.http.response.start", "status": body.status, "headers": headers})
    # In one message: granian 2.8 does not accept a second one.
    page = b"".join([chunk async for chunk in body])
    await send({"type": "websocket.http.response.body", "body": page, "more_body": False})


async def _lifespan(gateway: Gateway, receive: Receive, send: Send) -> None:
    warming: asyncio.Task[None] | None = None
    while True:
        kind = (await receive())["type"]
        if kind == "lifespan.startup":
            # Concurrently with the start: an unavailable vendor must not delay the others.
            warming = asyncio.create_task(gateway.warm_up())
        if kind == "lifespan.shutdown":
            await _ended(warming)
            await gateway.aclose()
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _of_scope(scope: Scope) -> HttpRequest:
    # The raw path: `path` has decoded the encoded slashes in model names.
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    url = raw.partition(b"?")[0] + (b"?" + query if query else b"")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    return HttpRequest(url.decode("latin-1"), b"", headers, scope.get("method", "GET"))


async def _read_asgi(receive: Receive, http: HttpRequest, most: int) -> bytes:
    """raises: BadRequest past the limit (status 413) before the rest is read, and if the client leaves"""
    _check_length(http, most)
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _incomplete()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most:
            raise _too_large(most)
    return bytes(body)


def _incomplete() -> BadRequest:
    return BadRequest("the client left before its request was complete", status=400)


def _check_length(http: HttpRequest, most: int) -> None:
    """raises: BadRequest for a request that names a length past the limit"""
    length = http.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise _too_large(most)


def _too_large(most: int) -> BadRequest:
    from llmstream.gateway.gateway import too_large

    return too_large(most)


def aiohttp_application(gateway: Gateway) -> web.Application:
    """Returns the gateway as an application of aiohttp.web."""
    # The gateway limits the size itself, in the form of the client's wire.
    application = web.Application(client_max_size=0)

    async def handle(incoming: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in incoming.headers.items()}
        http, most = HttpRequest(incoming.raw_path, b"", headers, incoming.method), gateway.max_body_bytes

        async def answer() -> Body:
            return await gateway.answer(http, lambda: _read_aiohttp(incoming, http, most))

        if headers.get("upgrade", "").lower() == "websocket":
            socket = _AiohttpSocket(incoming, most)
            refused = await gateway.answer_socket(http, socket)
            return socket.response if refused is None else await aiohttp_adapter.respond(incoming, refused)
        try:
            return await aiohttp_adapter.respond(incoming, answer)
        except (LLMStreamError, TimeoutError) as error:
            # The connection has been cut. Re-raising would log a traceback for each broken stream of a
            # vendor.
            _log.info("a response was cut off: %s", error)
            return web.Response(status=502)

    async def warm(_: web.Application) -> AsyncIterator[None]:
        warming = asyncio.create_task(gateway.warm_up())
        yield
        await _ended(warming)

    async def stop_sockets(_: web.Application) -> None:
        gateway.stop_sockets()

    async def close(_: web.Application) -> None:
        await gateway.aclose()

    application.router.add_route("*", "/{path:.*}", handle)
    application.cleanup_ctx.append(warm)
    application.on_shutdown.append(stop_sockets)
    application.on_cleanup.append(close)
    return application


class _AiohttpSocket:
    """A client's WebSocket; see `sockets.ClientSocket`."""

    def __init__(self, incoming: web.Request, max_message_bytes: int) -> None:
        # Pings: nothing else detects a client that vanished without closing.
        self.response = web.WebSocketResponse(
            heartbeat=_PING_S, max_msg_size=max_message_bytes, decode_text=False
        )
        self._incoming = incoming

    async def accept(self) -> None:
        await self.response.prepare(self._incoming)

    async def receive(self) -> bytes | None:
        message = await self.response.receive()
        return bytes(message.data) if message.type in (web.WSMsgType.TEXT, web.WSMsgType.BINARY) else None

    async def send(self, message: bytes) -> None:
        await self.response.send_frame(message, web.WSMsgType.TEXT)

    async def close(self, code: int, reason: str) -> None:
        await self.response.close(code=code, message=reason.encode())


async def _read_aiohttp(incoming: web.Request, http: HttpRequest, most: int) -> bytes:
    """raises: BadRequest past the limit (status 413) before the rest is read, and if the client leaves"""
    _check_length(http, most)
    body = bytearray()
    try:
        async for piece in incoming.content.iter_any():
            body += piece
            if len(body) > most:
                raise _too_large(most)
    except OSError:
        raise _incomplete() from None
    return bytes(body)
