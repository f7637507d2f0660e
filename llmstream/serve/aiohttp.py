"""Sends a body from aiohttp.web."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Final

from aiohttp import web

from llmstream.serve.body import Body, Source, body_of

__all__ = ["respond"]

# How often a response looks whether its client is there. Without `handler_cancellation=True`, aiohttp tells a
# handler only at its next write, which a silent response does not have.
_LOOK_S: Final = 0.05


async def respond(request: web.Request, body: Body | Source) -> web.StreamResponse:
    """Sends the body and returns the response, for a handler to return.

    A HEAD request gets the headers of a success, and asks no model.
    """
    sent = body_of(body)
    response = web.StreamResponse()
    # A task of its own, so that the watch can cancel the sending without cancelling the handler.
    sending = asyncio.create_task(_send(request, sent, response))
    sent.on_lost = sending.cancel
    watch = _Watch(request, sending)
    try:
        await asyncio.wait((sending,))
    finally:
        watch.stop()
        sending.cancel()
        await asyncio.wait((sending,))
    if not sending.cancelled():
        sending.result()
    return response


async def _send(request: web.Request, body: Body, response: web.StreamResponse) -> None:
    """Sends the response, and leaves the body in any case."""
    head = request.method == "HEAD"
    # A HEAD request has no body: no model is asked.
    if head:
        await body.aclose()
    else:
        await body.open()
    async with aclosing(body):
        response.set_status(body.status)
        response.headers.update(body.headers)
        try:
            await response.prepare(request)
        except ConnectionError:  # the client has left
            return
        try:
            if head or await _send_chunks(body, response):
                with suppress(ConnectionError):
                    await response.write_eof()
        except BaseException:
            # aiohttp ends a response in order even if its handler raises; a cut connection tells the client.
            if request.transport is not None:
                request.transport.abort()
            raise


async def _send_chunks(body: Body, response: web.StreamResponse) -> bool:
    """Returns whether the client is there to the end."""
    async with aclosing(aiter(body)) as chunks:
        async for chunk in chunks:
            try:
                await response.write(chunk)
            except ConnectionError:
                return False
    return True


class _Watch:
    """Cancels a task when the client of a request has left; a timer, because a task for each costs more."""

    def __init__(self, request: web.Request, sending: asyncio.Task[None]) -> None:
        self._request, self._sending = request, sending
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._look()

    def _look(self) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            self._sending.cancel()
        else:
            self._timer = self._loop.call_later(_LOOK_S, self._look)

    def stop(self) -> None:
        """Ends the watch."""
        if self._timer is not None:
            self._timer.cancel()
