"""Sends a body from WSGI servers, which have no event loop: Flask, and Django without ASGI."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, cast

from llmstream.errors import IncompleteStream, InvalidRequest
from llmstream.serve.body import Body, Source, body_of
from llmstream.serve.loop_thread import loop_thread

__all__ = ["SyncBody", "respond"]

# How often a response looks whether its client is there, and so how long it runs on in a silence.
_LOOK_S: Final = 0.05


class SyncBody:
    """A body for a synchronous server: its stream runs in an event loop in a thread, one for the process.

        sent = respond(lambda: model.stream(prompt), request.environ)
        return Response(sent, status=sent.status, headers=sent.headers)    # Flask

    The server takes a chunk when it can send one, which holds the vendor back, and closes the iterable when
    the client leaves. It notices that at a write; in a silence, `environ` shows it earlier.

    make:    returns the body or its source; called within the loop
    environ: of the request; where it has the client's socket (gunicorn, Flask's own server) or shows
             whether the client is gone (waitress, with `channel_request_lookahead=1`), leaving is noticed
             within 50 ms
    raises:  what the source raised before its first content, if it is not an LLMStreamError
    """

    def __init__(self, make: Callable[[], Body | Source], environ: Mapping[str, Any] | None = None) -> None:
        self._loop = loop_thread()
        self._gone = False
        self._watch: asyncio.Task[None] | None = None
        self._body = self._loop.call(self._opened(make, _client_check(environ or {})))
        self.status = self._body.status
        self.headers = self._body.headers
        self._chunks: AsyncIterator[bytes] = aiter(self._body)

    @property
    def status_line(self) -> str:
        """The status as WSGI's `start_response` takes it, such as "200 OK"."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"

    def __iter__(self) -> Iterator[bytes]:
        try:
            while chunk := self._loop.call(self._next()):
                yield chunk
        finally:
            self.close()

    def close(self) -> None:
        """Leaves the stream. Servers call it when the response is over or its client has left."""
        self._loop.start(self._leave)

    async def _opened(self, make: Callable[[], Body | Source], is_gone: Callable[[], bool] | None) -> Body:
        body = body_of(make())
        if is_gone is not None:
            self._watch = asyncio.create_task(self._look(body, is_gone))
        try:
            await body.open()
        except BaseException as error:
            await self._left(body)
            # The client has left, so nobody waits for a status.
            if not (self._gone and isinstance(error, IncompleteStream)):
                raise
        return body

    async def _look(self, body: Body, is_gone: Callable[[], bool]) -> None:
        while not is_gone():  # noqa: ASYNC110  # a socket that the server owns, not the loop
            await asyncio.sleep(_LOOK_S)
        self._gone = True
        await body.aclose()

    async def _next(self) -> bytes:
        try:
            return await anext(self._chunks, b"")
        except IncompleteStream:
            if self._gone:  # nobody reads what is missing
                return b""
            raise

    async def _leave(self) -> None:
        await self._left(self._body)

    async def _left(self, body: Body) -> None:
        if self._watch is not None:
            self._watch.cancel()
        await body.aclose()


def respond(make: Callable[[], Body | Source], environ: Mapping[str, Any] | None = None) -> SyncBody:
    """Returns the body that `make` returns, opened, for a synchronous view.

    `make` has the context of the view, such as Flask's `request`.

    raises: as `SyncBody`; InvalidRequest if `make` is not a function
    """
    if not callable(make):
        raise InvalidRequest(
            "serve.wsgi.respond takes a function, because a stream begins in the loop that reads it: "
            "respond(lambda: model.stream(prompt))"
        )
    return SyncBody(make, environ)


def _client_check(environ: Mapping[str, Any]) -> Callable[[], bool] | None:
    """Returns a function that checks whether the client is gone; None if the server does not show it."""
    if (check := environ.get("waitress.client_disconnected")) is not None:
        return cast(Callable[[], bool], check)
    connection: socket.socket | None = environ.get("gunicorn.socket") or environ.get("werkzeug.socket")
    # Windows has no `poll`.
    if connection is None or not hasattr(select, "poll"):
        return None
    # Linux reports the client's FIN even where bytes before it are unread, such as those that close TLS.
    left = getattr(select, "POLLRDHUP", select.POLLHUP)

    def is_gone() -> bool:
        # The server has closed it.
        if connection.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(connection, left)
        return bool(poll.poll(0))

    return is_gone
