"""A response body made from a stream: status, headers, and an async iterator of bytes."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from llmstream.errors import ErrorInfo, IncompleteStream, InvalidRequest, LLMStreamError
from llmstream.events import Event
from llmstream.exchange import HttpResponse
from llmstream.serve.encoding import Encoding
from llmstream.serve.writers import SSEWriter, Writer

__all__ = ["Body", "Silence", "Source", "body_of"]

Source: TypeAlias = AsyncIterable[Event]
"""An `EventStream`, an `AgentRun`, or any async iterable of events that obeys the grammar."""

_Fill: TypeAlias = "Callable[[Body], Coroutine[Any, Any, None]]"

_SENT: Final = "a Body is sent once. Create a new one for another response."

# Maximum of buffered bytes for the client: one read of the vendor's socket.
_AHEAD_BYTES: Final = 64 * 1024


class Body:
    """The response to one HTTP request, without a server.

        body = Body(stream)
        await body.open()          # body.status, body.headers
        async for chunk in body:   # bytes
            ...

    The adapters `serve.starlette`, `serve.aiohttp`, `serve.asgi`, `serve.django` and `serve.wsgi` do this. A
    body is read once, and owns its source: closing the body closes the stream and the vendor's socket. A
    program that sends a body itself calls `aclose()` when its client disconnects.

    A failure before the first content becomes a status, with `retry-after` if the vendor sent one. A
    later one is written in the writer's own form. Any exception that is not an LLMStreamError is raised to
    the server, which cuts the connection, so that no client treats an incomplete response as complete. For
    the same reason iteration raises if `aclose()` was called before the end.

    source:         an `EventStream`, an `AgentRun`, or events
    writer:         the format; by default frames of SSE
    heartbeat_s:    seconds without output after which `writer.heartbeat` is written; below the 29 to 60 s
                    after which common proxies cut
    head_wait_s:    how long the status waits for the vendor's first content; then it is 200, so that proxies
                    and the client see a response
    send_timeout_s: a client that reads nothing for this time is considered disconnected, as after a network
    failure without a FIN
    """

    # A source of bytes that the sending task reads itself.
    _direct: AsyncIterable[bytes] | None = None

    def __init__(
        self,
        source: Source,
        writer: Writer | None = None,
        *,
        heartbeat_s: float = 15.0,
        head_wait_s: float = 10.0,
        send_timeout_s: float = 30.0,
    ) -> None:
        writer = SSEWriter() if writer is None else writer
        encoding = Encoding(writer)
        self._prepare(
            {"content-type": writer.content_type, **writer.headers},
            source=source,
            encoding=encoding,
            fill=lambda body: body._read(source, encoding),
            heartbeat=writer.heartbeat,
            heartbeat_s=heartbeat_s,
            head_wait_s=head_wait_s,
            send_timeout_s=send_timeout_s,
        )

    def _prepare(
        self,
        headers: Mapping[str, str],
        *,
        status: int = 200,
        source: object = None,
        encoding: Encoding | None = None,
        fill: _Fill | None = None,
        heartbeat: bytes = b"",
        heartbeat_s: float = 15.0,
        head_wait_s: float | None = None,
        send_timeout_s: float = 30.0,
    ) -> None:
        """The common part of all constructors. `fill` reads the source to its end; None without a source."""
        self.status, self.headers = status, dict(headers)
        self.lost = ""  # why the client is considered disconnected
        # Called with each chunk passed to the server, and with b"" once the body is closed.
        self.watch: Callable[[bytes], object] | None = None
        # Called when the client has read nothing for `send_timeout_s`; an adapter cancels its writing here.
        self.on_lost: Callable[[], object] = _nothing
        self._source, self._fill = source, fill
        self._encoding = encoding  # for a source of events
        self._head_wait_s = head_wait_s
        self._ready = bytearray()
        self._decided = asyncio.Event()  # set when the status is known
        self._room = asyncio.Event()  # set when the client has read the buffer
        self._waiter: asyncio.Future[None] | None = None  # awaited by the iteration
        self._heartbeat = heartbeat
        self._beat = False  # whether a heartbeat is due
        self._silence = Silence(heartbeat_s if heartbeat else None, self._silent, send_timeout_s, self._lose)
        self._write: Callable[[bytes], bool] | None = None
        self._fault: Exception | None = None  # raised by an encoder, outside the reader
        self._reader: asyncio.Task[None] | None = None
        self._sent = self._left = False
        self._over = fill is None

    @classmethod
    def of_bytes(
        cls,
        source: AsyncIterable[bytes],
        headers: Mapping[str, str],
        *,
        status: int = 200,
        heartbeat: bytes = b"",
        heartbeat_s: float = 15.0,
        send_timeout_s: float = 30.0,
        direct: bool = False,
    ) -> Self:
        """Returns a response whose bytes are written elsewhere, such as from an event log.

        What `source` raises cuts the connection. Closing the body closes `source`.

        headers:   by name, in lower case
        heartbeat: bytes that clients ignore, written after `heartbeat_s` without output; b"" for none
        direct:    the sending task reads the source, which costs less per chunk. Then there is no heartbeat,
                   and no other task may close the body while it is sent
        """
        # Bypasses `__init__`, which is for a source of events.
        body = cls.__new__(cls)
        body._prepare(
            headers,
            status=status,
            source=source,
            fill=lambda body: body._copy(source),
            heartbeat=heartbeat,
            heartbeat_s=heartbeat_s,
            send_timeout_s=send_timeout_s,
        )
        body._decided.set()
        body._direct = source if direct else None
        return body

    @classmethod
    def later(cls, answer: Callable[[], Awaitable[HttpResponse]]) -> Self:
        """Returns a response that is complete once `answer` returns it, such as after a wait for news.

        Closing the body cancels `answer`. Its exceptions are raised to the server.
        """
        body = cls.__new__(cls)
        body._prepare({}, fill=lambda body: body._await(answer))
        return body

    @classmethod
    def complete(cls, response: HttpResponse) -> Self:
        """Returns a response that is complete, such as one JSON object."""
        body = cls.__new__(cls)
        body._prepare({})
        body._answer(response)
        body._decided.set()
        return body

    @classmethod
    def plain(cls, status: int, text: str = "") -> Self:
        """Returns a response without a stream: a status, and a text for the client."""
        headers = {"cache-control": "no-store"}
        if text:
            headers["content-type"] = "text/plain; charset=utf-8"
        return cls.complete(HttpResponse(status, text.encode(), headers))

    @property
    def error(self) -> ErrorInfo | None:
        """Why the response failed; None if it has not failed, and for bytes."""
        return None if self._encoding is None else self._encoding.error

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def open(self) -> None:
        """Starts to read the source, and returns when `status` and `headers` are final. Idempotent.

        If this raises or is cancelled, the body is closed.

        raises: the exception of the source before its first content, if it is not an LLMStreamError;
                IncompleteStream if the body was closed; InvalidRequest if it has been sent
        """
        if self._left:
            self._check_complete()
            raise InvalidRequest(_SENT)
        if self._direct is not None:
            self._silence.start()
            return
        if self._reader is None and not self._over:
            assert self._fill is not None  # otherwise the source has ended
            self._reader = asyncio.create_task(self._fill(self))
            self._reader.add_done_callback(self._end)
        try:
            await self._head()
        except BaseException:
            await self.aclose()
            raise
        self._silence.start()

    async def _head(self) -> None:
        if not self._decided.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._head_wait_s):
                    await self._decided.wait()
            # From here on the response has begun, and a failure is written into its body.
            self._decided.set()
        if self._over and not self._ready:
            self._check_complete()

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        if self._sent:
            raise InvalidRequest(_SENT)
        self._sent = True
        try:
            await self.open()
            if self._direct is not None:
                self._silence.waits()
                async for chunk in self._direct:
                    self._silence.given()
                    if self.watch is not None:
                        self.watch(chunk)
                    yield chunk
                    self._silence.waits()
                return
            while not self._over or self._ready:
                heartbeat = b"" if self._ready else await self._wait()
                if chunk := self._chunk() or heartbeat:
                    self._silence.given()
                    if self.watch is not None:
                        self.watch(chunk)
                    yield chunk
            self._check_complete()
        finally:
            await self.aclose()

    def pour(self, write: Callable[[bytes], bool]) -> None:
        """Writes chunks immediately while the iteration waits, if the source supports it.

        This saves the loop iterations in which tasks wake up for a chunk. Called by an adapter, between two
        chunks.

        write: writes a chunk, and returns True; False if the client must read earlier ones first, or has
        disconnected: then the iteration returns the chunk
        """
        self._write = write if self.watch is None else self._watched(write)
        source: Any = self._direct
        if hasattr(source, "pour"):
            source.pour(self._write)

    def _take(self, events: Sequence[Event]) -> bool:
        """Encodes events in the callback in which they arrive; False leaves them to `_read`."""
        if self._left or len(self._ready) > _AHEAD_BYTES:
            return False
        assert self._encoding is not None  # of a source of events
        feed, pieces = self._encoding.feed, list[bytes]()
        try:
            for event in events:
                pieces.append(feed(event))
        except Exception as error:
            self._fault = error
        # If the iteration waits and nothing is buffered before them, they need not wake it.
        if data := b"".join(pieces):
            if self._waiter is not None and not self._ready and self._write is not None and self._write(data):
                self._silence.waits()
            else:
                self._ready += data
                self._wake()
        return self._fault is None

    def _watched(self, write: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
        def watched(chunk: bytes) -> bool:
            written = write(chunk)
            if written and self.watch is not None:
                self.watch(chunk)
            return written

        return watched

    async def aclose(self) -> None:
        """Closes the source, and with it the vendor's socket. Idempotent."""
        reader, left, self._left = self._reader, self._left, True
        self._silence.stop()
        if reader is None:
            self._over = True
            self._decided.set()
        else:
            if not left:  # a second cancellation would interrupt the cleanup of the source
                reader.cancel()
            # `asyncio.wait`, unlike `await`, distinguishes a cancellation of this task from one of the
            # reader.
            await asyncio.wait((reader,))
        # The reader has already closed it, unless it was cancelled before it started.
        await _close(self._source)
        watch, self.watch = self.watch, None
        if watch is not None:
            watch(b"")

    def _chunk(self) -> bytes:
        """Returns and clears the buffer."""
        chunk = bytes(self._ready)
        self._ready.clear()
        self._room.set()
        return chunk

    async def _wait(self) -> bytes:
        """Waits for bytes, the end or a heartbeat, which it returns."""
        self._waiter = asyncio.get_running_loop().create_future()
        self._silence.waits()
        try:
            await self._waiter
        finally:
            self._waiter = None
        is_due, self._beat = self._beat, False
        return self._heartbeat if is_due else b""

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _silent(self) -> None:
        self._beat = True
        self._wake()

    def _lose(self, silent_s: float) -> None:
        """Closes the source for a client that no longer reads."""
        self.lost = f"the client has taken nothing for {silent_s:g} s, so the response was cut off"
        # The buffer will not be read.
        self._ready.clear()
        if self._reader is not None and not self._left:
            self._left = True
            self._reader.cancel()
        self.on_lost()

    def _end(self, reader: asyncio.Task[None]) -> None:
        """Ends the iteration once the reader has ended, even if it never started."""
        failed = reader.cancelled() or reader.exception() is not None
        if failed and not self._decided.is_set():
            self._ready.clear()  # so that `open` raises
        self._over = True
        self._decided.set()
        self._wake()

    def _check_complete(self) -> None:
        """Raises if the response is not complete: a clean end would make it look complete."""
        if self.lost:
            raise TimeoutError(self.lost)
        if self._reader is None and not self._left:
            return  # there is no source
        if self._reader is None or not self._reader.done() or self._reader.cancelled():
            raise IncompleteStream("the response was closed before its end")
        self._reader.result()

    async def _read(self, source: Source, encoding: Encoding) -> None:
        """Reads events to their end, in a separate task: a heartbeat must not cancel a pending read."""
        events, has_content = aiter(source), False
        try:
            async for event in events:
                if self._fault is not None:
                    raise self._fault
                self._ready += encoding.feed(event)
                if not has_content and encoding.has_content:
                    has_content = True
                    self._decided.set()
                    if hasattr(source, "pour"):
                        source.pour(self._take)
                if self._waiter is not None:
                    self._wake()
                if len(self._ready) > _AHEAD_BYTES:
                    await self._taken()
            if not encoding.finished:
                raise IncompleteStream("the source ended without a finish")
        except LLMStreamError as error:  # a stream raises after its finish
            if not encoding.finished:
                self._ready += encoding.fail(error.info)
        finally:
            await _close(events)
            await _close(source)
        refused: HttpResponse | None = None
        if encoding.error is not None and not self._decided.is_set():
            refused = encoding.refusal(encoding.error)
        if refused is None:
            self._ready += encoding.close()
        else:
            self._answer(refused)

    async def _copy(self, source: AsyncIterable[bytes]) -> None:
        """Reads bytes to their end."""
        chunks = aiter(source)
        try:
            async for chunk in chunks:
                self._ready += chunk
                self._wake()
                if len(self._ready) > _AHEAD_BYTES:
                    await self._taken()
        finally:
            await _close(chunks)
            await _close(source)

    async def _await(self, answer: Callable[[], Awaitable[HttpResponse]]) -> None:
        self._answer(await answer())

    def _answer(self, response: HttpResponse) -> None:
        """Replaces the response before anything was sent."""
        self.status, self.headers = response.status, dict(response.headers)
        self._ready[:] = response.body

    async def _taken(self) -> None:
        """Waits until the client has read the buffer."""
        self._room.clear()
        await self._room.wait()


def body_of(body: Body | Source) -> Body:
    """Returns a body as it is; any other source as frames of SSE."""
    return body if isinstance(body, Body) else Body(body)


async def _close(source: Any) -> None:
    """Closes a stream, a run or an async generator; other sources have no close method."""
    if hasattr(source, "aclose"):
        await source.aclose()


def _nothing() -> None:
    """The default callback without an adapter."""


# Detects idle sides of a response: an idle source needs a heartbeat, an idle client ends the response.


class Silence:
    """One timer for a response. Reads and writes only record the time; the timer compares, and starts again.

    Starting a timer for each write would cost more than writing.

    heartbeat_s:    how long the response may wait for its source until `on_silent()`; None is for ever
    send_timeout_s: how long the client may read nothing until `on_lost(send_timeout_s)`
    """

    def __init__(
        self,
        heartbeat_s: float | None,
        on_silent: Callable[[], object],
        send_timeout_s: float,
        on_lost: Callable[[float], object],
    ) -> None:
        self._heartbeat_s = math.inf if heartbeat_s is None else heartbeat_s
        self._send_timeout_s = send_timeout_s
        self._on_silent, self._on_lost = on_silent, on_lost
        self._loop: asyncio.AbstractEventLoop | None = None
        self._time = time.monotonic  # set once there is a loop, which may have another clock
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = False  # waiting for the source; otherwise for the client
        self._since = 0.0

    def start(self) -> None:
        """Starts measuring, once. Until `waits`, data is pending for the client."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._time = self._loop.time
            self._since = self._time()
            self._look()

    def stop(self) -> None:
        """Ends the measuring."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        # A timer that has just fired must not start again.
        self._send_timeout_s = self._heartbeat_s = math.inf
        # They reference the owner, and the cycle would need the garbage collector.
        self._on_silent = self._on_lost = _after_the_end

    def waits(self) -> None:
        """Records that all data was sent, so that the response waits for its source."""
        self._waiting, self._since = True, self._time()

    def given(self) -> None:
        """Records that data is pending for the client."""
        self._waiting, self._since = False, self._time()

    def _look(self) -> None:
        assert self._loop is not None
        now = self._time()
        limit_s = self._heartbeat_s if self._waiting else self._send_timeout_s
        if now >= self._since + limit_s:
            self._since = now
            if not self._waiting:
                self._on_lost(limit_s)
                return
            self._on_silent()
        # Never later than the shorter limit: by then the response may wait for the other side.
        shorter_s = min(self._heartbeat_s, self._send_timeout_s)
        if shorter_s < math.inf:
            self._timer = self._loop.call_at(min(self._since + limit_s, now + shorter_s), self._look)


def _after_the_end(*_: float) -> None:
    """The callback after the end of a response."""
