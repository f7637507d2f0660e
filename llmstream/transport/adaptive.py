"""How many requests may be in progress at once, found by trying: AIMD, as TCP finds the rate of a network.

Vendors rarely publish how many requests they take at once, and the number changes by the hour. The
limit starts small and doubles every round while nothing is refused. A refusal halves it; from then
on it grows by one a round.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from llmstream.errors import InvalidRequest
from llmstream.transport.rate_headers import rate_states

__all__ = ["AdaptiveConcurrency", "GateClosed"]

# Pauses between refusals, where the vendor names none: doubling, with jitter.
_FIRST_WAIT_S: Final = 0.25
# The limit has been halved at each round by then: longer pauses would only delay the recovery.
_LONGEST_WAIT_S: Final = 16.0

# A vendor may say "in an hour"; one request a minute finds out whether that still holds.
_LONGEST_PAUSE_S: Final = 60.0


class GateClosed(Exception):
    """No more turns are given."""


class AdaptiveConcurrency:
    """Gives turns for requests, as many at once as the vendor takes. For one event loop.

    most:   never more than this at once
    start:  the first limit
    clock, random_unit: the time and a random number, for tests; by default the loop's time
    raises: InvalidRequest for a number below 1
    source: TCP's slow start and congestion avoidance, RFC 5681, 3.1: doubling up to the first loss, half
            of the flight after one, then one more a round trip
    """

    def __init__(
        self,
        most: int,
        *,
        start: int = 8,
        clock: Callable[[], float] | None = None,
        random_unit: Callable[[], float] = random.random,
    ) -> None:
        if not (isinstance(most, int) and most >= 1):
            raise InvalidRequest(f"concurrency must be a number from 1 on, got {most!r}")
        self._most = float(most)
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._random = random_unit
        self._limit = float(min(start, most))
        self._threshold = math.inf  # beyond it, the limit grows by one a round
        self._halved_at = -math.inf
        self._not_before = -math.inf
        # Answers that may raise the limit: as many as were under way when it was reached. A limit that
        # nobody reaches says nothing about what the vendor takes.
        self._growth = 0
        self._rounds = 0  # halvings since the last answer
        self._scarce = False  # the vendor reports fewer requests left than are under way
        self._closed = False
        self._line: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.under_way = 0

    @property
    def limit(self) -> int:
        """How many may be under way now."""
        return int(self._limit)

    @property
    def paused_s(self) -> float:
        """Seconds until the next may start; 0 without a pause."""
        return max(0.0, self._not_before - self._clock())

    async def acquire(self) -> float:
        """Waits for a turn, first come first served; to be given back by `release`.

        returns: when the turn began, for `refused`
        raises:  GateClosed
        """
        if self._closed:
            raise GateClosed
        while self._line or not self._free():
            turn = asyncio.get_running_loop().create_future()
            self._line.append(turn)
            self._wake()
            try:
                await turn
                break
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled() and turn.exception() is None:
                    self.release()
                elif turn in self._line:
                    self._line.remove(turn)
                raise
        else:
            self._take()
        return self._clock()

    def _take(self) -> None:
        self.under_way += 1
        if self.under_way >= self.limit:
            self._growth = self.under_way

    def release(self) -> None:
        """Gives a turn back."""
        self.under_way -= 1
        self._wake()

    def answered(self, headers: Mapping[str, str] = {}) -> None:
        """A request was answered: the limit grows if it was needed.

        headers: of the response, names in lower case; what is left by the vendor's own count is obeyed
        """
        self._rounds = 0
        states = rate_states(headers, time.time()) if headers else {}
        requests = states.get("requests")
        left = None if requests is None else requests.remaining
        self._scarce = left is not None and left < self._limit
        for state in states.values():
            if state.remaining == 0 and state.reset_s:
                self.pause(state.reset_s)
        if not self._scarce and self._growth:
            self._growth -= 1
            step = 1.0 if self._limit < self._threshold else 1.0 / self._limit
            self._limit = min(self._most, self._limit + step)
        self._wake()

    def refused(self, began: float, wait_s: float | None = None) -> None:
        """A request was refused because of load: half as many from now on, and a pause if that goes on.

        began:  what `acquire` returned; of those that started before the last halving, none halves again
        wait_s: how long the vendor asks to wait
        """
        if began >= self._halved_at:
            self._halved_at = self._clock()
            self._limit = max(1.0, min(self._limit, float(self.under_way)) / 2.0)
            self._threshold = self._limit
            self._growth = 0
            if self._rounds and not wait_s:
                self.pause(
                    min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0**self._rounds) * (0.5 + self._random() / 2)
                )
            self._rounds = min(self._rounds + 1, 30)
        if wait_s:
            self.pause(wait_s)

    def pause(self, seconds: float) -> None:
        """Nobody starts for so long, at most a minute."""
        self._not_before = max(self._not_before, self._clock() + min(seconds, _LONGEST_PAUSE_S))
        self._wake()

    def close(self) -> None:
        """Gives no more turns: who waits for one gets GateClosed."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for turn in self._line:
            if not turn.done():
                turn.set_exception(GateClosed())
        self._line.clear()

    @property
    def _paused(self) -> bool:
        """Whether a pause has been asked for; to ask the clock at each row costs more."""
        return self._not_before > -math.inf

    def _free(self) -> bool:
        return self.under_way < self.limit and not (self._paused and self.paused_s > 0)

    def _wake(self) -> None:
        """Gives free turns to the first in line; comes back when a pause ends."""
        while self._line and self._free():
            turn = self._line.popleft()
            if not turn.done():
                self._take()
                turn.set_result(None)
        if self._line and self._timer is None and self._paused and (wait_s := self.paused_s) > 0:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._rung)

    def _rung(self) -> None:
        self._timer = None
        self._wake()
