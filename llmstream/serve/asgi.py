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
        sender = _Sender(sent, further, send)
        # Watched beside the writing: a silent response has no next write that would report the disconnect.
        sending = asyncio.create_task(sender.run(head=scope["method"] == "HEAD"))
        leaving = asyncio.create_task(_disconnect(receive))
        sent.on_lost = sending.cancel
        try:
            # Whichever is first ends the other.
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.wait((sending, leaving))
        error = TimeoutError(sent.lost) if sent.lost else None if sending.cancelled() else sending.exception()
        if error is not None:
            await sender.cut(error)
            raise error
        await sender.end()

    return application


class _Sender:
    """Sends a response to a server, and leaves the body in any case."""

    def __init__(self, body: Body, further: list[tuple[bytes, bytes]], send: Send) -> None:
        self._body, self._further, self._send = body, further, send
        self._begun = False

    async def run(self, *, head: bool) -> None:
        """Sends all of it.

        In a task that is not the framework's: a cancel scope of anyio would cancel the leaving too.
        """
        if head:
            await self._body.aclose()
        else:
            await self._body.open()
        async with aclosing(self._body):
            await self._start(self._body.status, self._body.headers)
            if head or await self._chunks():
                with suppress(OSError):
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start(self, status: int, headers: dict[str, str]) -> None:
        # Header fields of HTTP/1.1 are Latin-1 at most.
        own = {name.encode("latin-1"): value.encode("latin-1") for name, value in headers.items()}
        for name, _ in self._further:
            own.pop(name, None)
        sent = [*own.items(), *self._further]
        self._begun = True
        # By version 2.4 of the specification, OSError is a client that has left; the next write says so too.
        with suppress(OSError):
            await self._send({"type": "http.response.start", "status": status, "headers": sent})

    async def _chunks(self) -> bool:
        """Returns whether the client is there to the end."""
        async with aclosing(aiter(self._body)) as chunks:
            async for chunk in chunks:
                try:
                    await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                except OSError:
                    return False
        return True

    async def end(self) -> None:
        """Begins a response whose client left before: some layers report one without a head as a defect."""
        if not self._begun:
            with suppress(Exception):
                # The status that nginx logs for it.
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


async def _disconnect(receive: Receive) -> None:
    """Returns when the client has left; what is left of its request is dropped."""
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    except Exception:
        # It does not tell. The writing will notice.
        await asyncio.get_running_loop().create_future()
