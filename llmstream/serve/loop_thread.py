"""An event loop in a thread, one for the process: where synchronous servers run their streams."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

__all__ = ["LoopThread", "loop_thread"]

T = TypeVar("T")

# How long the end of the process waits for streams that are open.
_STOP_S: Final = 2.0


class LoopThread:
    """A running event loop. Its thread is a daemon: the end of the process does not wait for a stream."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopping = False
        self._ended = False  # nothing more is taken: the loop is about to close
        self._taking = threading.Lock()
        self._begun: set[asyncio.Task[object]] = set()
        self._thread = threading.Thread(target=self._run, name="llmstream-serve", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it takes calls."""
        return self._thread.is_alive() and not self._ended

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the loop, waits for it, and returns or raises what it does.

        raises: RuntimeError once the loop has ended
        """
        # The loop must not end between the look at it and the call.
        with self._taking:
            if self._ended:
                # Otherwise Python warns of a coroutine that was never awaited.
                work.close()
                raise RuntimeError("the event loop of the streams has ended")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def start(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Runs a coroutine in the loop without waiting; does nothing once the loop is closed.

        For what the garbage collector may call, in the loop's own thread too: waiting would stop the loop.
        """
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._begin, work)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        task = self._loop.create_task(work())
        self._begun.add(task)  # the loop holds its tasks only weakly
        task.add_done_callback(self._begun.discard)

    def stop(self) -> None:
        """Cancels what runs and closes the loop."""
        self._stopping = True
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            while not self._stopping:
                # asyncio lets these two through: a tool that calls sys.exit() does not end others' streams.
                with suppress(SystemExit, KeyboardInterrupt):
                    self._loop.run_forever()
        finally:
            # Whatever ends it: a view whose call came later would wait for ever. Earlier ones are cancelled.
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
        await self._loop.shutdown_asyncgens()  # which close the connections of this loop


_lock = threading.Lock()
_current: LoopThread | None = None

# Loops of the processes that forked this one. They do not run here, but are never freed: closing one would
# take its descriptors out of the epoll instance that it shares with the parent's.
_inherited: Final[list[LoopThread]] = []


def loop_thread() -> LoopThread:
    """Returns the loop of this process, which starts at first use and ends with the process."""
    global _current
    with _lock:
        if _current is None or not _current.is_running:
            _current = LoopThread()
        return _current


def _forked() -> None:
    """A server that forks its workers does not take threads along: the child starts its own."""
    global _lock, _current
    _lock = threading.Lock()  # another thread may have held it
    if _current is not None:
        _inherited.append(_current)
        _current = None


def _stop() -> None:
    if _current is not None:
        _current.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
atexit.register(_stop)
