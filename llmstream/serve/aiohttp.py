"""Sends a body from aiohttp.web."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Final
from weakref import WeakKeyDictionary

from aiohttp import web

from llmstream.serve.body import Body, Source, body_of

__all__ = ["respond"]

# How often the watch looks whether clients are there. Without `handler_cancellation=True`, aiohttp tells a
# handler only at its next write, which a silent response does not have.
_LOOK_S: Final = 0.025


async def respond(
    request: web.Request, body: Body | Source | Callable[[], Awaitable[Body]]
) -> web.StreamResponse:
    """Sends the body and returns the response, for a handler to return.

    A HEAD request gets the headers of a success, and asks no model.

    body: or a function that makes it, which is cancelled when the client leaves
    """
    response = web.StreamResponse()
    # A task of its own, so that the watch can cancel the sending without cancelling the handler.
    sending = asyncio.create_task(_send(request, body, response))
    watch = _watch_of(asyncio.get_running_loop())
    watch.add(request, sending)
    try:
        await asyncio.wait((sending,))
    finally:
        watch.remove(sending)
        sending.cancel()
        await asyncio.wait((sending,))
    if not sending.cancelled():
        sending.result()
    return response


async def _send(
    request: web.Request,
    given: Body | Source | Callable[[], Awaitable[Body]],
    response: web.StreamResponse,
) -> None:
    """Sends the response, and leaves the body in any case."""
    body = await given() if callable(given) else body_of(given)
    task = asyncio.current_task()
    assert task is not None
    body.on_lost = task.cancel
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
    """Cancels the sending of responses whose clients have left.

    One timer for all responses of a loop: one for each costs ten times as much, and a task still more.
    """

    def __init__(self) -> None:
        self._open: dict[asyncio.Task[None], web.Request] = {}
        self._looks = False  # no handle of the timer, which would keep a closed loop alive

    def add(self, request: web.Request, sending: asyncio.Task[None]) -> None:
        """Watches a response."""
        self._open[sending] = request
        if not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def remove(self, sending: asyncio.Task[None]) -> None:
        """Ends the watch of a response."""
        del self._open[sending]

    def _look(self) -> None:
        for sending, request in self._open.items():
            transport = request.transport
            if transport is None or transport.is_closing():
                sending.cancel()
        self._looks = bool(self._open)
        if self._looks:
            asyncio.get_running_loop().call_later(_LOOK_S, self._look)


_watches: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch]] = WeakKeyDictionary()


def _watch_of(loop: asyncio.AbstractEventLoop) -> _Watch:
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = _Watch()
    return watch
