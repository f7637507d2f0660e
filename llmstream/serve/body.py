"""A response body made from a stream: status, headers, and an async iterator of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from llmstream.errors import ErrorInfo, IncompleteStream, InvalidRequest, LLMStreamError
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ResponseMetadata,
    RetryNotice,
    StepStart,
    StreamStart,
)
from llmstream.serve.failures import failure_headers, status_of
from llmstream.serve.writers import SSEWriter, Writer

__all__ = ["Body", "Source", "body_of"]

Source: TypeAlias = AsyncIterable[Event]
"""An `EventStream`, an `AgentRun`, or any async iterable of events that obeys the grammar."""

# Events that a refused request yields too, so they leave the status open.
_PRELUDE: Final = frozenset({StreamStart, StepStart, ResponseMetadata, RetryNotice})

# How much is written ahead of the client: what one read of the vendor's socket may hold.
_AHEAD_BYTES: Final = 64 * 1024


class Body:
    """The response to one HTTP request, without a server.

        body = Body(stream)
        await body.open()          # body.status, body.headers
        async for chunk in body:   # bytes
            ...

    The adapters `serve.starlette`, `serve.aiohttp`, `serve.asgi` and `serve.wsgi` do this. A body is read
    once, and owns its source: leaving the body leaves the stream, which closes the vendor's socket.

    A failure before the first content becomes a status, with `retry-after` where the vendor named one. A
    later one is written in the writer's own form. Any exception that is not an LLMStreamError is raised to
    the server, which cuts the connection, so that no client takes half a response for a complete one.

    source:      an `EventStream`, an `AgentRun`, or events
    writer:      the format; by default frames of SSE
    heartbeat_s: seconds of silence after which `writer.heartbeat` is written; below the 29 to 60 s after
                 which common proxies cut
    head_wait_s: how long the status waits for the vendor's first content; then it is 200, so that proxies and
                 the client see a response
    """

    def __init__(
        self,
        source: Source,
        writer: Writer | None = None,
        *,
        heartbeat_s: float = 15.0,
        head_wait_s: float = 10.0,
    ) -> None:
        self.status = 200
        self.error: ErrorInfo | None = None
        self._writer: Writer = SSEWriter() if writer is None else writer
        self.headers = {"content-type": self._writer.content_type, **self._writer.headers}
        self._source = source
        self._heartbeat_s = heartbeat_s
        self._head_wait_s = head_wait_s
        self._ready = bytearray()
        self._decided = asyncio.Event()  # set when the status is known
        self._wake = asyncio.Event()  # set when there are bytes, or the end
        self._room = asyncio.Event()  # set when the client has taken what was ready
        self._reader: asyncio.Task[None] | None = None
        self._sent = self._over = False
        self._finished = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def open(self) -> None:
        """Starts to read the source, and returns when `status` and `headers` are final. Idempotent."""
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._head_wait_s):
                await self._decided.wait()
        self._decided.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._sent:
            raise InvalidRequest("a Body is sent once. Create a new one for another response.")
        await self.open()
        self._sent = True
        try:
            while not self._over or self._ready:
                if not self._ready and not await self._woken():
                    yield self._writer.heartbeat
                    continue
                chunk = bytes(self._ready)
                self._ready.clear()
                self._room.set()
                if chunk:
                    yield chunk
            await self._reader_done()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Leaves the source, which closes the vendor's socket. Idempotent."""
        reader = self._reader
        if reader is None:
            self._over = True
            await _close(self._source)
            return
        reader.cancel()
        with suppress(Exception):
            await self._reader_done()

    async def _reader_done(self) -> None:
        """Waits for the reading task; raises its exception, such as a bug in the source."""
        if self._reader is not None:
            # `asyncio.wait`, unlike `await`, tells the cancellation of this task from that of the reader.
            await asyncio.wait((self._reader,))
            if not self._reader.cancelled():
                self._reader.result()

    async def _woken(self) -> bool:
        """Waits for bytes or the end; returns False after a silence that needs a heartbeat."""
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._heartbeat_s if self._writer.heartbeat else None):
                await self._wake.wait()
        # Not what the timeout says: bytes may have come between it and now.
        return self._wake.is_set()

    async def _read(self) -> None:
        """Reads the source to its end, in a task of its own: a heartbeat must not cancel a pending read."""
        try:
            try:
                async for event in self._source:
                    self._take(event)
                    if len(self._ready) > _AHEAD_BYTES:
                        self._room.clear()
                        await self._room.wait()
                if not self._finished:
                    raise IncompleteStream("the source ended without a finish")
            except LLMStreamError as error:  # after its finish, a stream raises
                self._fail(error.info)
            finally:
                await _close(self._source)
            if self._decided.is_set() or self.error is None:
                self._ready += self._writer.close()
            else:
                self._refuse(self.error)
        finally:
            self._over = True
            self._decided.set()
            self._wake.set()

    def _take(self, event: Event) -> None:
        kind = type(event)
        if kind is ErrorEvent:
            self.error = event.error  # type: ignore[union-attr]
        elif kind is Finish:
            self._finished = True
        elif kind not in _PRELUDE:
            self._decided.set()
        self._ready += self._writer.feed(event)
        self._wake.set()

    def _fail(self, error: ErrorInfo) -> None:
        """Ends a response whose source raised without a finish, such as a generator of the application."""
        if not self._finished:
            self._take(ErrorEvent(error))
            self._take(Finish("error"))

    def _refuse(self, error: ErrorInfo) -> None:
        """Makes the response an HTTP error: nothing of it has been sent."""
        content_type, body = self._writer.refuse(error)
        self.status = status_of(error)
        self.headers = {"content-type": content_type, "cache-control": "no-store", **failure_headers(error)}
        self._ready[:] = body


def body_of(body: Body | Source) -> Body:
    """Returns a body as it is; any other source as frames of SSE."""
    return body if isinstance(body, Body) else Body(body)


async def _close(source: Any) -> None:
    """Leaves streams, runs and async generators; other iterables have nothing to leave."""
    if hasattr(source, "aclose"):
        await source.aclose()
