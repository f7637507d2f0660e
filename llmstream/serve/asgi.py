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


def respond(
    body: Body | Source | Callable[[Receive], Awaitable[Body]], *, headers: Iterable[tuple[bytes, bytes]] = ()
) -> ASGIApp:
    """Returns an ASGI application that sends the body once: the last step of a route.

    A HEAD request gets the headers of a success, and no model is called.

    body:    or a function that returns it, which is cancelled when the client disconnects; it may read the
             request from the `receive` that it gets
    headers: additional ones, such as cookies; they override those of the body
    """
    sent, further = body if callable(body) else body_of(body), list(headers)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        sender = _Sender(sent, further, send)
        leaving = _Leaving(receive)
        sending = asyncio.create_task(sender.run(leaving, head=scope["method"] == "HEAD"))
        leaving.on_left = sending.cancel
        try:
            await asyncio.wait((sending,))
        finally:
            sending.cancel()
            await leaving.stop()
            await asyncio.wait((sending,))
        lost = sender.lost
        error = TimeoutError(lost) if lost else None if sending.cancelled() else sending.exception()
        if error is not None:
            await sender.cut(error)
            raise error
        await sender.end()

    return application


class _Leaving:
    """Detects that the client has disconnected, once its request has been read.

    Concurrently with the writing: an idle response has no write that would report the disconnect.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._task: asyncio.Task[None] | None = None
        self.on_left: Callable[[], object] = _nothing

    async def receive(self) -> MutableMapping[str, Any]:
        """The next message of the request, for its reader; after its end, only the watch reads."""
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            self.watch()
        return message

    def watch(self) -> None:
        """Starts the watch. Idempotent."""
        if self._task is None:
            self._task = asyncio.create_task(self._disconnect())

    async def _disconnect(self) -> None:
        """Waits until the client has disconnected; drops the rest of its request."""
        try:
            while (await self._receive())["type"] != "http.disconnect":
                pass
        except Exception:
            return  # the server does not report it; a write will detect it
        self.on_left()

    async def stop(self) -> None:
        """Ends the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))


class _Sender:
    """Sends a response to a server, and closes the body in any case."""

    def __init__(
        self,
        given: Body | Callable[[Receive], Awaitable[Body]],
        further: list[tuple[bytes, bytes]],
        send: Send,
    ) -> None:
        self._given, self._further, self._send = given, further, send
        self._body: Body | None = None
        self._begun = False

    @property
    def lost(self) -> str:
        """Why the client is considered disconnected, if it is."""
        return "" if self._body is None else self._body.lost

    async def run(self, leaving: _Leaving, *, head: bool) -> None:
        """Sends all of it.

        In a separate task: a cancel scope of anyio would also cancel the cleanup.
        """
        given = self._given
        body = self._body = await given(leaving.receive) if callable(given) else given
        body.on_lost = leaving.on_left
        leaving.watch()
        if head:
            await body.aclose()
        else:
            await body.open()
        async with aclosing(body):
            await self._start(body.status, body.headers)
            if head or await self._chunks(body):
                with suppress(OSError):
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start(self, status: int, headers: dict[str, str]) -> None:
        # Header fields of HTTP/1.1 are Latin-1 at most.
        own = {name.encode("latin-1"): value.encode("latin-1") for name, value in headers.items()}
        for name, _ in self._further:
            own.pop(name, None)
        sent = [*own.items(), *self._further]
        self._begun = True
        # In version 2.4 of the specification, OSError means a disconnected client; the next write raises it
        # too.
        with suppress(OSError):
            await self._send({"type": "http.response.start", "status": status, "headers": sent})

    async def _chunks(self, body: Body) -> bool:
        """Returns whether the client stayed connected to the end."""
        async with aclosing(aiter(body)) as chunks:
            async for chunk in chunks:
                try:
                    await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                except OSError:
                    return False
        return True

    async def end(self) -> None:
        """Starts a response after the client disconnected: some layers report a missing response as a bug."""
        if not self._begun:
            with suppress(Exception):
                # The status that nginx logs in this case.
                await self._start(499, {})
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def cut(self, error: BaseException) -> None:
        """Makes the layers above fail too, so that the connection is cut.

        Servers cut it for an exception of the application. Starlette's BaseHTTPMiddleware (1.10) ends the
        response in order and raises only afterwards; it fails, as servers do, at an unknown message.
        """
        if self._begun:
            with suppress(Exception):
                await self._send({"type": "llmstream.response.failed", "reason": repr(error)})


def _nothing() -> None:
    """Placeholder until there is a task to cancel."""
