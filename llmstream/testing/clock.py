"""A virtual clock for event loops: tests of deadlines and backoff without waiting."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from llmstream.errors import InvalidRequest

__all__ = ["VirtualClock"]

# Bytes on loopback arrive within a millisecond; without this wait a jump would overtake them.
_GRACE_S: Final = 0.002
# Time does not jump while a thread works for the loop, since its result may set an earlier timer.
_THREAD_POLL_S: Final = 0.005


class VirtualClock:
    """Stops the running loop's time inside a block; it jumps to the next timer when nothing is ready.

    `with VirtualClock() as clock: await asyncio.sleep(3600)` returns at once, and `clock.elapsed_s` is 3600.
    Sockets are read before each jump, so servers in the same loop, such as `Simulator` and `FaultServer`,
    stay in step. Work in threads of the loop (`asyncio.to_thread`) is waited for in real time. The clock
    ignores other processes and other threads. After the block the loop's time continues from the virtual
    time, so that it never goes back.

    grace_s: real time to wait for sockets before a jump; raise it on a very busy machine
    raises:  InvalidRequest if the running loop is not asyncio's own, or already has a virtual clock
    """

    def __init__(self, *, grace_s: float = _GRACE_S) -> None:
        self._grace_s = grace_s
        self._loop: Any = None
        self._selector: Any = None
        self._submit: Any = None
        self._real: Callable[[], float] = _never
        self._began = self._now = 0.0
        self._threads = 0

    def time(self) -> float:
        """Returns the virtual time in seconds, for arguments named `clock`."""
        return self._now if self._selector is not None else self._real()

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the start of the block."""
        return self._now - self._began

    def __enter__(self) -> Self:
        loop: Any = asyncio.get_running_loop()
        selector = getattr(loop, "_selector", None)
        if not isinstance(selector, selectors.BaseSelector):
            raise InvalidRequest(
                "VirtualClock needs asyncio's selector event loop without another virtual clock. "
                "It does not support uvloop."
            )
        self._loop, self._selector, self._real = loop, selector, loop.time
        self._began = self._now = loop.time()
        self._submit = loop.run_in_executor
        # asyncio has no hook for its time, so the loop's own attributes are replaced.
        loop.time, loop.run_in_executor = self.time, self._in_thread
        loop._selector = _Jumping(self, selector)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop, real = self._loop, self._real
        # Timers that were set inside the block are due by its time.
        ahead_s = self._now - real()
        loop._selector, loop.run_in_executor = self._selector, self._submit
        loop.time = self._real = lambda: real() + ahead_s
        self._selector = None

    def _in_thread(self, executor: Any, work: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._submit(executor, work, *args)
        self._threads += 1
        future.add_done_callback(self._thread_is_done)
        return future

    def _thread_is_done(self, _: asyncio.Future[Any]) -> None:
        self._threads -= 1

    def _select(self, timeout_s: float | None) -> list[Any]:
        """Returns ready sockets; if there are none, advances the time to the next timer."""
        ready: list[Any] = self._selector.select(0 if timeout_s is not None else None)
        # No timer, or one that is due: there is nothing to jump over.
        if ready or timeout_s is None or timeout_s <= 0:
            return ready
        if self._threads:
            return list(self._selector.select(_THREAD_POLL_S))
        # One entry is the loop's own wake-up socket.
        if len(self._selector.get_map()) > 1:
            ready = self._selector.select(self._grace_s)
        if not ready:
            self._now += timeout_s
        return ready


class _Jumping:
    """The loop's selector with virtual waits. Not a `BaseSelector`, so that a second clock is refused."""

    def __init__(self, clock: VirtualClock, selector: selectors.BaseSelector) -> None:
        self._clock = clock
        self._own = selector

    def select(self, timeout: float | None = None) -> list[Any]:
        return self._clock._select(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


def _never() -> float:
    raise InvalidRequest("the clock starts with its block. Enter `with VirtualClock() as clock:` first.")
