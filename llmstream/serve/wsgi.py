"""Sends a body from WSGI servers, which have no event loop: Flask, and Django without ASGI.

The streams run in an event loop in a thread, one for the process.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import logging
import os
import select
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast

from llmstream.errors import IncompleteStream, InvalidRequest
from llmstream.serve.body import Body, Source, body_of

__all__ = ["LoopThread", "SyncBody", "loop_thread", "respond"]

# How often a response looks whether its client is there, and so how long it runs on in a silence.
_LOOK_S: Final = 0.05

_log: Final = logging.getLogger("llmstream")


class SyncBody:
    """A body for a synchronous server: its stream runs in an event loop in a thread, one for the process.

        sent = respond(lambda: model.stream(prompt), request.environ)
        return Response(sent, status=sent.status, headers=sent.headers)    # Flask

    The server takes a chunk when it can send one, which applies backpressure to the vendor, and closes the
    iterable when the client disconnects. It detects that at a write; while idle, `environ` shows it earlier.

    make:    returns the body or its source; called within the loop
    environ: of the request; where it has the client's socket (gunicorn, Flask's own server) or shows whether
    the client has disconnected (waitress, with `channel_request_lookahead=1`), this is detected within 50 ms
    raises:  the exception of the source before its first content, if it is not an LLMStreamError
    """

    def __init__(self, make: Callable[[], Body | Source], environ: Mapping[str, Any] | None = None) -> None:
        self._loop = loop_thread()
        self._disconnected = False
        self._watch: asyncio.Task[None] | None = None
        environ = environ or {}
        if environ.get("SERVER_SOFTWARE") == "Granian":
            _warn_of_granian()
        self._body = self._loop.call(self._opened(make, _client_check(environ)))
        self.status = self._body.status
        self.headers = self._body.headers
        self._chunks: AsyncIterator[bytes] = aiter(self._body)

    @property
    def status_line(self) -> str:
        """The status in the form of WSGI's `start_response`, such as "200 OK"."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"

    def __iter__(self) -> Iterator[bytes]:
        try:
            while chunk := self._loop.call(self._next()):
                yield chunk
        finally:
            self.close()

    def close(self) -> None:
        """Closes the stream. Servers call it when the response has ended or its client has disconnected."""
        self._loop.start(self._leave)

    async def _opened(self, make: Callable[[], Body | Source], is_gone: Callable[[], bool] | None) -> Body:
        body = body_of(make())
        if is_gone is not None:
            self._watch = asyncio.create_task(self._look(body, is_gone))
        try:
            await body.open()
        except BaseException as error:
            await self._left(body)
            # The client has disconnected, so the status is not needed.
            if not (self._disconnected and isinstance(error, IncompleteStream)):
                raise
        return body

    async def _look(self, body: Body, is_gone: Callable[[], bool]) -> None:
        while not is_gone():  # noqa: ASYNC110  # a socket that the server owns, not the loop
            await asyncio.sleep(_LOOK_S)
        self._disconnected = True
        await body.aclose()

    async def _next(self) -> bytes:
        try:
            return await anext(self._chunks, b"")
        except IncompleteStream:
            if self._disconnected:  # the missing rest will not be read
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


@functools.cache  # once for a process
def _warn_of_granian() -> None:
    # Seen 2026-11, granian 2.8.7: it ends the body in order when the iterable raises, and closes no iterable.
    _log.warning(
        "granian's WSGI interface ends an interrupted response as if it were complete, and does not detect "
        "that a client has disconnected. Use its ASGI interface, or another WSGI server."
    )


def _client_check(environ: Mapping[str, Any]) -> Callable[[], bool] | None:
    """Returns a function that checks whether the client has disconnected; None if it cannot be checked."""
    if (check := environ.get("waitress.client_disconnected")) is not None:
        return cast(Callable[[], bool], check)
    connection: socket.socket | None = environ.get("gunicorn.socket") or environ.get("werkzeug.socket")
    # Windows has no `poll`.
    if connection is None or not hasattr(select, "poll"):
        return None
    # Linux reports the client's FIN even if bytes before it are unread, such as TLS's close_notify.
    left = getattr(select, "POLLRDHUP", select.POLLHUP)

    def is_gone() -> bool:
        # The server has closed the socket.
        if connection.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(connection, left)
        return bool(poll.poll(0))

    return is_gone


# One event loop in a thread per process, in which synchronous servers run their streams.


T = TypeVar("T")

# How long the process waits for open streams at exit.
_STOP_S: Final = 2.0


class LoopThread:
    """A running event loop. Its thread is a daemon: the process does not wait for a stream at exit."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopping = False
        self._ended = False  # accepts no more calls: the loop is about to close
        self._taking = threading.Lock()
        self._begun: set[asyncio.Task[object]] = set()
        self._thread = threading.Thread(target=self._run, name="llmstream-serve", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it accepts calls."""
        return self._thread.is_alive() and not self._ended

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the loop, waits for it, and returns its result or raises its exception.

        raises: RuntimeError once the loop has ended
        """
        # The loop must not end between the check and the call.
        with self._taking:
            if self._ended:
                # Otherwise Python warns of a coroutine that was never awaited.
                work.close()
                raise RuntimeError("the event loop of the streams has ended")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def start(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Runs a coroutine in the loop without waiting; does nothing once the loop is closed.

        For calls by the garbage collector, possibly in the loop's own thread, where waiting would deadlock.
        """
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._begin, work)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        # `_finish` closes the streams; a task that begins after it would be destroyed unfinished.
        if self._ended:
            return
        task = self._loop.create_task(work())
        self._begun.add(task)  # the loop holds its tasks only weakly
        task.add_done_callback(self._begun.discard)

    def stop(self) -> None:
        """Cancels all tasks and closes the loop."""
        self._stopping = True
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            while not self._stopping:
                # asyncio re-raises these two: a tool that calls sys.exit() must not end other streams.
                with suppress(SystemExit, KeyboardInterrupt):
                    self._loop.run_forever()
        finally:
            # For any reason of the end: later calls would wait for ever. Earlier ones are cancelled.
            with self._taking:
                self._ended = True
            self._loop.run_until_complete(self._finish())
            self._loop.close()

    async def _finish(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            # Half of the time: the rest is for closing the generators, which close connections.
            await asyncio.wait(tasks, timeout=_STOP_S / 2)
        await self._loop.shutdown_asyncgens()  # their cleanup closes the connections of this loop


_lock = threading.Lock()
_current: LoopThread | None = None

# Loops of the processes that forked this one. They do not run here, but are never freed: closing one would
# remove its descriptors from the epoll instance that it shares with the parent.
_inherited: Final[list[LoopThread]] = []


def loop_thread() -> LoopThread:
    """Returns the loop of this process, which starts at first use and ends with the process."""
    global _current
    with _lock:
        if _current is None or not _current.is_running:
            _current = LoopThread()
        return _current


def _forked() -> None:
    """Resets the state in a forked worker: threads are not inherited, so the child starts its own."""
    global _lock, _current
    _lock = threading.Lock()  # another thread may have held it during the fork
    if _current is not None:
        _inherited.append(_current)
        _current = None


def _stop() -> None:
    if _current is not None:
        _current.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
atexit.register(_stop)
