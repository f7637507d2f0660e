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

__all__ = ["aiohttp_application", "asgi_application"]


def asgi_application(gateway: Gateway) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Returns the gateway as an ASGI application."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(gateway, receive, send)
            return
        if scope["type"] != "http":
            # A WebSocket: closing it before it is accepted is a refusal.
            await send({"type": "websocket.close", "code": 1003})
            return
        http, most = _of_scope(scope), gateway.max_body_bytes

        async def answer(read: Receive) -> Body:
            return await gateway.answer(http, lambda: _read_asgi(read, http, most))

        await asgi_adapter.respond(answer)(scope, receive, send)

    return application


async def _lifespan(gateway: Gateway, receive: Receive, send: Send) -> None:
    warming: asyncio.Task[None] | None = None
    while True:
        kind = (await receive())["type"]
        if kind == "lifespan.startup":
            # Beside the start: a vendor that is down must not hold up the others.
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
    # The path as sent: in `path`, an encoded slash in the name of a model has become a real one.
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    url = raw.partition(b"?")[0] + (b"?" + query if query else b"")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    return HttpRequest(url.decode("latin-1"), b"", headers, scope["method"])


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

        try:
            return await aiohttp_adapter.respond(incoming, answer)
        except (LLMStreamError, TimeoutError) as error:
            # The connection has been cut. Raised on, each broken stream of a vendor would log a traceback.
            _log.info("a response was cut off: %s", error)
            return web.Response(status=502)

    async def warm(_: web.Application) -> AsyncIterator[None]:
        warming = asyncio.create_task(gateway.warm_up())
        yield
        await _ended(warming)

    async def close(_: web.Application) -> None:
        await gateway.aclose()

    application.router.add_route("*", "/{path:.*}", handle)
    application.cleanup_ctx.append(warm)
    application.on_cleanup.append(close)
    return application


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
