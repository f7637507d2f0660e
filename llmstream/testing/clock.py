"""Time that passes only where everybody waits for it: deadlines and backoff in a test that takes no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from llmstream.errors import InvalidRequest

__all__ = ["VirtualClock"]

_GRACE_S: Final = 0.002
_THREAD_POLL_S: Final = 0.005


class VirtualClock:
    """Within its block the running loop's time stands still, and jumps to the next timer if nothing is ready.

    `with VirtualClock() as clock: await asyncio.sleep(3600)` is over at once, and `clock.elapsed_s` is 3600.
    Sockets are read before a jump, so servers in the same loop, as `Simulator` and `FaultServer` are, keep
    step; work in the loop's threads (`asyncio.to_thread`) is waited for in real time. Of other processes,
    and of threads of another kind, the clock knows nothing. Afterwards the loop's time goes on from where
    it was: it never goes back.

    grace_s: how long, in real time, sockets are listened to before a jump; more where a machine is very busy
    raises:  InvalidRequest where the running loop is not asyncio's own, or has a virtual clock already
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
        """Seconds, as the loop's own `time()`; give it to what takes a `clock`."""
        return self._now if self._selector is not None else self._real()

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the block was entered."""
        return self._now - self._began

    def __enter__(self) -> Self:
        loop: Any = asyncio.get_running_loop()
        selector = getattr(loop, "_selector", None)
        if not isinstance(selector, selectors.BaseSelector):
            raise InvalidRequest(
                "a virtual clock needs asyncio's own event loop on selectors, and only one: no uvloop, no "
                "second clock"
            )
        self._loop, self._selector, self._real = loop, selector, loop.time
        self._began = self._now = loop.time()
        self._submit = loop.run_in_executor
        loop.time, loop.run_in_executor = self.time, self._in_thread
        loop._selector = _Jumping(self, selector)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop, real = self._loop, self._real
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
        """What is ready; where nothing is, the time of the next timer has come."""
        ready: list[Any] = self._selector.select(0 if timeout_s is not None else None)
        if ready or timeout_s is None or timeout_s <= 0:
            return ready
        if self._threads:
            return list(self._selector.select(_THREAD_POLL_S))
        if len(self._selector.get_map()) > 1:  # one is the loop's own
            ready = self._selector.select(self._grace_s)
        if not ready:
            self._now += timeout_s
        return ready


class _Jumping:
    """The loop's selector, but for its waits. No `BaseSelector`, so that a second clock is refused."""

    def __init__(self, clock: VirtualClock, selector: selectors.BaseSelector) -> None:
        self._clock = clock
        self._own = selector

    def select(self, timeout: float | None = None) -> list[Any]:
        return self._clock._select(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


def _never() -> float:
    raise InvalidRequest("the clock goes only from its block on")
