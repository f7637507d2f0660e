"""Sends a body from aiohttp.web."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from llmstream.serve.body import Body, Source, body_of

__all__ = ["respond"]

# How often a silent response looks whether its client is there. Without `handler_cancellation=True`, aiohttp
# tells a handler only at its next write.
_LOOK_S: Final = 0.05


async def respond(request: web.Request, body: Body | Source) -> web.StreamResponse:
    """Sends the body and returns the response, for a handler to return."""
    sent = body_of(body)
    sending = asyncio.create_task(_send(request, sent))
    try:
        while not sending.done() and _is_connected(request):
            await asyncio.wait((sending,), timeout=_LOOK_S)
    finally:
        sending.cancel()
        await asyncio.wait((sending,))
        await sent.aclose()
    if sending.cancelled() or isinstance(sending.exception(), ConnectionResetError):
        # Nobody reads it: the client left, in a silence or while a chunk was written.
        return web.StreamResponse()
    return sending.result()


async def _send(request: web.Request, body: Body) -> web.StreamResponse:
    await body.open()
    response = web.StreamResponse(status=body.status, headers=body.headers)
    await response.prepare(request)
    try:
        async for chunk in body:
            await response.write(chunk)
        await response.write_eof()
    except BaseException:
        # aiohttp ends a response in order even if its handler raises: only a cut connection tells the client.
        if request.transport is not None:
            request.transport.abort()
        raise
    return response


def _is_connected(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()
