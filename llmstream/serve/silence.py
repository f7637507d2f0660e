"""Notices silences of a response: the source's, which needs a heartbeat, and the client's, which ends it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

__all__ = ["Silence"]


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
        self._on_silent = self._on_lost = _nothing

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


def _nothing(*_: float) -> None:
    """What is called once a response is over."""
