"""Sends a body from WSGI servers, which have no event loop: Flask, and Django without ASGI."""

from __future__ import annotations

import atexit
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import cache
from http import HTTPStatus

from anyio.from_thread import BlockingPortal, start_blocking_portal

from llmstream.serve.body import Body, Source, body_of

__all__ = ["SyncBody", "respond"]


class SyncBody:
    """A body for a synchronous server: its stream runs in an event loop in a thread, one for the process.

        sent = respond(lambda: model.stream(prompt))
        return Response(sent, status=sent.status, headers=sent.headers)    # Flask

    The server takes a chunk when it can send one, which holds the vendor back, and closes the iterable when
    the client leaves.

    make: returns the body or its source; called within the loop
    """

    def __init__(self, make: Callable[[], Body | Source]) -> None:
        self._portal = _portal(os.getpid())
        self._body = self._portal.call(_opened, make)
        self.status = self._body.status
        self.headers = self._body.headers
        self._chunks: AsyncIterator[bytes] = aiter(self._body)

    @property
    def status_line(self) -> str:
        """The status as WSGI's `start_response` takes it, such as "200 OK"."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"

    def __iter__(self) -> Iterator[bytes]:
        try:
            while chunk := self._portal.call(self._next):
                yield chunk
        finally:
            self.close()

    async def _next(self) -> bytes:
        return await anext(self._chunks, b"")

    def close(self) -> None:
        """Leaves the stream. Servers call it when the response is over or its client has left."""
        self._portal.call(self._leave)

    async def _leave(self) -> None:
        await self._body.aclose()


def respond(make: Callable[[], Body | Source]) -> SyncBody:
    """Returns the body that `make` returns, opened, for a synchronous view."""
    return SyncBody(make)


async def _opened(make: Callable[[], Body | Source]) -> Body:
    body = body_of(make())
    await body.open()
    return body


@cache
def _portal(process: int) -> BlockingPortal:
    """One loop for each process: a server that forks its workers does not take threads along."""
    stack = ExitStack()
    portal = stack.enter_context(start_blocking_portal(name=f"llmstream-serve-{process}"))
    atexit.register(stack.close)
    return portal
