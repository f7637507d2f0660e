"""Sends a body from aiohttp.web."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Final
from weakref import WeakKeyDictionary

from aiohttp import web

from llmstream.serve.body import Body, Source, body_of

__all__ = ["respond"]

_MAX_UNSENT_BYTES: Final = 64 * 1024

# Polling interval for disconnected clients. Without `handler_cancellation=True`, aiohttp reports a disconnect
# only at the handler's next write, which may be far off.
_POLL_S: Final = 0.025


async def respond(
    request: web.Request, body: Body | Source | Callable[[], Awaitable[Body]]
) -> web.StreamResponse:
    """Sends the body and returns the response, for a handler to return.

    A HEAD request gets the headers of a success, and no model is called.

    body: or a function that returns it, which is cancelled when the client disconnects
    """
    response = web.StreamResponse()
    task = asyncio.current_task()
    assert task is not None  # handlers run in a task
    leaving = _Leaving(request, task)
    watch = _watch_of(asyncio.get_running_loop())
    watch.open.add(leaving)
    watch.begin()
    try:
        await _send(request, body, response, leaving)
    except asyncio.CancelledError:
        if not leaving.end():
            raise
    finally:
        watch.open.discard(leaving)
        leaving.end()
    return response


async def _send(
    request: web.Request,
    given: Body | Source | Callable[[], Awaitable[Body]],
    response: web.StreamResponse,
    leaving: _Leaving,
) -> None:
    """Sends the response, and closes the body in any case."""
    body = await given() if callable(given) else body_of(given)
    body.on_lost = leaving.notice
    head = request.method == "HEAD"
    # A HEAD request has no body: no model is called.
    if head:
        await body.aclose()
    else:
        await body.open()
    async with aclosing(body):
        response.set_status(body.status)
        response.headers.update(body.headers)
        try:
            await response.prepare(request)
        except ConnectionError:  # the client has disconnected
            return
        try:
            if head or await _send_chunks(body, response, request):
                with suppress(ConnectionError):
                    await response.write_eof()
        except BaseException:
            # aiohttp ends a response normally even if its handler raises; cutting the connection shows the
            # client the failure.
            if request.transport is not None:
                request.transport.abort()
            raise


async def _send_chunks(body: Body, response: web.StreamResponse, request: web.Request) -> bool:
    """Returns whether the client stayed connected to the end."""
    poured = False
    async with aclosing(aiter(body)) as chunks:
        async for chunk in chunks:
            try:
                await response.write(chunk)
            except ConnectionError:
                return False
            if not poured:  # the first chunk is sent together with the headers
                poured = True
                if (write := await _writing(response, request)) is not None:
                    body.pour(write)
    return True


async def _writing(response: web.StreamResponse, request: web.Request) -> Callable[[bytes], bool] | None:
    """A function that writes a chunk to the client's transport directly; None without chunked encoding."""
    transport, writer = request.transport, await response.prepare(request)
    chunked = response.headers.get("transfer-encoding") == "chunked"
    if transport is None or writer is None or not chunked or response.compression:
        return None

    def write(chunk: bytes) -> bool:
        # As aiohttp's high-water mark: above it, writers wait until the client has read.
        if transport.is_closing() or transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            return False
        framed = b"%x\r\n%b\r\n" % (len(chunk), chunk)
        writer.output_size += len(framed)  # for access logs
        transport.write(framed)
        return True

    return write


class _Leaving:
    """Cancels the task that sends a response, once, when the client has disconnected.

    The handler's own task, as `asyncio.timeout` does it: one for each response would cost more than the rest
    of this module.
    """

    def __init__(self, request: web.Request, task: asyncio.Task[Any]) -> None:
        self._request, self._task = request, task
        self._noticed = False
        self._others = task.cancelling()

    def look(self) -> None:
        """Checks whether the client is connected."""
        transport = self._request.transport
        if transport is None or transport.is_closing():
            self.notice()

    def notice(self) -> None:
        """Records that the client has disconnected."""
        if not self._noticed:
            self._noticed = True
            self._task.cancel()

    def end(self) -> bool:
        """Undoes the cancellation; returns whether it was the only one. Idempotent."""
        if not self._noticed:
            return False
        self._noticed = False
        return self._task.uncancel() <= self._others


class _Watch:
    """Detects disconnected clients.

    One timer for all responses of a loop: one for each costs ten times as much, and a task still more.
    """

    def __init__(self) -> None:
        self.open: set[_Leaving] = set()
        self._polling = False  # not the timer's handle, which would keep a closed loop alive

    def begin(self) -> None:
        """Polls from now on until no response is open."""
        if not self._polling:
            self._polling = True
            asyncio.get_running_loop().call_later(_POLL_S, self._look)

    def _look(self) -> None:
        for leaving in self.open:
            leaving.look()
        self._polling = False
        if self.open:
            self.begin()


_watches: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch]] = WeakKeyDictionary()


def _watch_of(loop: asyncio.AbstractEventLoop) -> _Watch:
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = _Watch()
    return watch
