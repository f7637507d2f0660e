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

# How much is written ahead of the client: what one read of the vendor's socket may hold.
_AHEAD_BYTES: Final = 64 * 1024


class Body:
    """The response to one HTTP request, without a server.

        body = Body(stream)
        await body.open()          # body.status, body.headers
        async for chunk in body:   # bytes
            ...

    The adapters `serve.starlette`, `serve.aiohttp`, `serve.asgi`, `serve.django` and `serve.wsgi` do this. A
    body is read once, and owns its source: leaving the body leaves the stream, which closes the vendor's
    socket. A program that sends a body itself calls `aclose()` when its client leaves.

    A failure before the first content becomes a status, with `retry-after` where the vendor named one. A
    later one is written in the writer's own form. Any exception that is not an LLMStreamError is raised to
    the server, which cuts the connection, so that no client takes half a response for a complete one. For
    the same reason iteration raises if the body was left by `aclose()` before its end.

    source:         an `EventStream`, an `AgentRun`, or events
    writer:         the format; by default frames of SSE
    heartbeat_s:    seconds of silence after which `writer.heartbeat` is written; below the 29 to 60 s after
                    which common proxies cut
    head_wait_s:    how long the status waits for the vendor's first content; then it is 200, so that proxies
                    and the client see a response
    send_timeout_s: a client that takes nothing for so long is gone, as after a network failure without a FIN
    """

    # Bytes that the task that sends reads itself.
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
        """What all constructors share. `fill` reads the source to its end; without it, there is none."""
        self.status, self.headers = status, dict(headers)
        self.lost = ""  # why the client is taken for gone, if it is
        # Called with each chunk that the server takes, and with b"" once the body is left.
        self.watch: Callable[[bytes], object] | None = None
        # Called when the client has taken nothing for `send_timeout_s`; an adapter cancels its writing here.
        self.on_lost: Callable[[], object] = _nothing
        self._source, self._fill = source, fill
        self._encoding = encoding  # of a source of events
        self._head_wait_s = head_wait_s
        self._ready = bytearray()
        self._decided = asyncio.Event()  # set when the status is known
        self._room = asyncio.Event()  # set when the client has taken what was ready
        self._waiter: asyncio.Future[None] | None = None  # on which the iteration waits
        self._heartbeat = heartbeat
        self._beat = False  # whether a heartbeat is due
        self._silence = Silence(heartbeat_s if heartbeat else None, self._silent, send_timeout_s, self._lose)
        self._write: Callable[[bytes], bool] | None = None
        self._fault: Exception | None = None  # of an encoder, outside of the reader
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

        What `source` raises cuts the connection. Leaving the body leaves `source`.

        headers:   by name, in lower case
        heartbeat: bytes that clients ignore, written after `heartbeat_s` of silence; b"" for none
        direct:    the task that sends reads the source, which costs less for each chunk. Then there is no
                   heartbeat, and no other task may leave the body while it is sent
        """
        # Past `__init__`, which makes the body of a source of events.
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

        Leaving the body cancels `answer`. What it raises is raised to the server.
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
        """Why the response failed; None if it did not so far, and for bytes."""
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

        If this raises or is cancelled, the body is left.

        raises: what the source raised before its first content, if it is not an LLMStreamError;
                IncompleteStream if the body was left; InvalidRequest if it has been sent
        """
        if self._left:
            self._check_complete()
            raise InvalidRequest(_SENT)
        if self._direct is not None:
            self._silence.start()
            return
        if self._reader is None and not self._over:
            assert self._fill is not None  # else it is over
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
            # From here on the response has begun, and a failure is written into it.
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
        """Writes at once what comes while the iteration waits for it, if the source can do that.

        It saves the turns of the event loop in which tasks wake up for a chunk. To be called by an adapter,
        between two chunks.

        write: writes a chunk, and returns True; False if the client has to take others before, or has left:
               then the iteration returns it
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
        # While the iteration waits and nothing is before them, they need not wake it up.
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
        """Leaves the source, which closes the vendor's socket. Idempotent."""
        reader, left, self._left = self._reader, self._left, True
        self._silence.stop()
        if reader is None:
            self._over = True
            self._decided.set()
        else:
            if not left:  # a second cancellation would interrupt the cleanup of the source
                reader.cancel()
            # `asyncio.wait`, unlike `await`, tells the cancellation of this task from that of the reader.
            await asyncio.wait((reader,))
        # The reader has done so, unless it was cancelled before it began.
        await _close(self._source)
        watch, self.watch = self.watch, None
        if watch is not None:
            watch(b"")

    def _chunk(self) -> bytes:
        """Takes what is ready."""
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
        """Leaves the source of a client that takes nothing any more."""
        self.lost = f"the client has taken nothing for {silent_s:g} s, so the response was cut off"
        # Nobody will take it.
        self._ready.clear()
        if self._reader is not None and not self._left:
            self._left = True
            self._reader.cancel()
        self.on_lost()

    def _end(self, reader: asyncio.Task[None]) -> None:
        """Ends the iteration once the reader is done, whether it has begun or not."""
        failed = reader.cancelled() or reader.exception() is not None
        if failed and not self._decided.is_set():
            self._ready.clear()  # so that `open` raises
        self._over = True
        self._decided.set()
        self._wake()

    def _check_complete(self) -> None:
        """Raises if the response is not complete: a clean end would pass it off as such."""
        if self.lost:
            raise TimeoutError(self.lost)
        if self._reader is None and not self._left:
            return  # there is no source
        if self._reader is None or not self._reader.done() or self._reader.cancelled():
            raise IncompleteStream("the response was left before its end")
        self._reader.result()

    async def _read(self, source: Source, encoding: Encoding) -> None:
        """Reads events to their end, in a task of its own: a heartbeat must not cancel a pending read."""
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
        except LLMStreamError as error:  # after its finish, a stream raises
            if not encoding.finished:
                self._ready += encoding.fail(error.info)
        finally:
            await _close(events)
            await _close(source)
        if self._decided.is_set() or encoding.error is None:
            self._ready += encoding.close()
        else:
            self._answer(encoding.refusal(encoding.error))

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
        """Makes the response another, of which nothing has been sent."""
        self.status, self.headers = response.status, dict(response.headers)
        self._ready[:] = response.body

    async def _taken(self) -> None:
        """Waits until the client has taken what was ready."""
        self._room.clear()
        await self._room.wait()


def body_of(body: Body | Source) -> Body:
    """Returns a body as it is; any other source as frames of SSE."""
    return body if isinstance(body, Body) else Body(body)


async def _close(source: Any) -> None:
    """Leaves a stream, a run or an async generator; others have nothing to leave."""
    if hasattr(source, "aclose"):
        await source.aclose()


def _nothing() -> None:
    """What a body calls without an adapter."""


# Notices silences of a response: the source's, which needs a heartbeat, and the client's, which ends it.


class Silence:
    """One timer for a response. What happens only notes the time; the timer looks, and starts again.

    Starting a timer for each write would cost more than writing.

    heartbeat_s:    how long the response may wait for its source until `on_silent()`; None is for ever
    send_timeout_s: how long the client may take nothing until `on_lost(send_timeout_s)`
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
        self._time = time.monotonic  # until there is a loop, whose clock may be another
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = False  # for the source; else the client has something to take
        self._since = 0.0

    def start(self) -> None:
        """Begins to measure, once. Until `waits`, the client has something to take."""
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
        # They are its owner's, and the cycle would wait for the garbage collector.
        self._on_silent = self._on_lost = _after_the_end

    def waits(self) -> None:
        """Notes that all has been taken, and the response waits for its source."""
        self._waiting, self._since = True, self._time()

    def given(self) -> None:
        """Notes that the client has something to take."""
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
    """What is called once a response is over."""
