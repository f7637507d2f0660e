"""Sends a body from any ASGI server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import aclosing, suppress
from typing import Any, TypeAlias

from llmstream.serve.body import Body, Source, body_of

__all__ = ["ASGIApp", "Receive", "Scope", "Send", "respond"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def respond(body: Body | Source, *, headers: Iterable[tuple[bytes, bytes]] = ()) -> ASGIApp:
    """Returns an ASGI application that sends the body once: the last step of a route.

    A HEAD request gets the headers of a success, and asks no model.

    headers: further ones, such as cookies; one that the body has too takes its place
    """
    sent, further = body_of(body), list(headers)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        # Watched beside the writing: a silent response has no next write that would report the disconnect.
        sending = asyncio.create_task(_send(sent, further, send, head=scope["method"] == "HEAD"))
        leaving = asyncio.create_task(_disconnect(receive))
        sent.on_lost = sending.cancel
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.wait((sending, leaving))
            await sent.aclose()
        error = TimeoutError(sent.lost) if sent.lost else None if sending.cancelled() else sending.exception()
        if error is not None:
            await _cut(send, error)
            raise error

    return application


async def _send(body: Body, further: list[tuple[bytes, bytes]], send: Send, *, head: bool) -> None:
    if not head:
        await body.open()
    own = {name.encode("latin-1"): value.encode("latin-1") for name, value in body.headers.items()}
    for name, _ in further:
        own.pop(name, None)
    await send({"type": "http.response.start", "status": body.status, "headers": [*own.items(), *further]})
    if not head:
        async with aclosing(aiter(body)) as chunks:
            async for chunk in chunks:
                try:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                except OSError:  # the client has left; by version 2.4 of the specification
                    return
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _cut(send: Send, error: BaseException) -> None:
    """Makes the layers above fail too, so that the connection is cut.

    Servers cut it for an exception of the application. Starlette's BaseHTTPMiddleware (1.10) ends the
    response in order and raises only afterwards; it fails, as servers do, at a message that nobody knows.
    """
    with suppress(Exception):
        await send({"type": "llmstream.response.failed", "reason": repr(error)})


async def _disconnect(receive: Receive) -> None:
    """Returns when the client has left; what is left of its request is dropped."""
    # A server whose `receive` raises has no client either.
    with suppress(Exception):
        while (await receive())["type"] != "http.disconnect":
            pass
