"""Sends a body from any ASGI server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from llmstream.serve.body import Body, Source, body_of

__all__ = ["ASGIApp", "Receive", "Scope", "Send", "respond"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def respond(body: Body | Source, *, send_timeout_s: float = 30.0) -> ASGIApp:
    """Returns an ASGI application that sends the body once: the last step of a route.

    send_timeout_s: a client that takes nothing for so long is gone, as after a network failure without a FIN
    """
    sent = body_of(body)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        # Watched beside the writing: a silent response has no next write that would report the disconnect.
        sending = asyncio.create_task(_send(sent, send, send_timeout_s))
        leaving = asyncio.create_task(_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.wait((sending, leaving))
            await sent.aclose()
        if not sending.cancelled():
            # What is raised here cuts the connection.
            sending.result()

    return application


async def _send(body: Body, send: Send, send_timeout_s: float) -> None:
    await body.open()
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in body.headers.items()]
    await send({"type": "http.response.start", "status": body.status, "headers": headers})
    async for chunk in body:
        async with asyncio.timeout(send_timeout_s):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnect(receive: Receive) -> None:
    """Returns when the client has left; what is left of its request is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass
