"""How many requests may be in progress at once, measured by AIMD, as TCP measures the rate of a network.

Vendors rarely publish how many concurrent requests they accept, and the number changes by the hour. The
limit starts small and doubles every round while no request is refused. A refusal halves it; after that it
grows by one per round.
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
from llmstream.transport.pacing import rate_states

__all__ = ["AdaptiveConcurrency", "GateClosed"]

# Pauses after refusals, if the vendor specifies none: exponential, with jitter.
_FIRST_WAIT_S: Final = 0.25
# By then each round has halved the limit: longer pauses would only delay the recovery.
_LONGEST_WAIT_S: Final = 16.0

# A vendor may say "in an hour"; one request a minute checks whether that still applies.
_LONGEST_PAUSE_S: Final = 60.0


class GateClosed(Exception):
    """Raised to waiting requests when the gate is closed."""


class AdaptiveConcurrency:
    """Admits requests, as many at once as the vendor accepts. For one event loop.

    most:   upper bound of the limit
    start:  the initial limit
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
        self._threshold = math.inf  # above it, the limit grows by one per round
        self._halved_at = -math.inf
        self._not_before = -math.inf
        # The number of responses that may raise the limit: the requests in progress when it was reached. A
        # limit that is not reached gives no information about the vendor's limit.
        self._growth = 0
        self._rounds = 0  # halvings since the last successful response
        self._scarce = False  # the vendor reports fewer remaining requests than are in progress
        self._closed = False
        self._line: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.under_way = 0

    @property
    def limit(self) -> int:
        """The current limit of requests in progress."""
        return int(self._limit)

    @property
    def paused_s(self) -> float:
        """Seconds until the next may start; 0 without a pause."""
        return max(0.0, self._not_before - self._clock())

    async def acquire(self) -> float:
        """Waits for a slot, in order of arrival; free it with `release`.

        returns: when the slot was acquired, for `refused`
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
        """Frees a slot."""
        self.under_way -= 1
        self._wake()

    def answered(self, headers: Mapping[str, str] = {}) -> None:
        """Records a successful response: the limit grows if it was reached.

        headers: of the response, names in lower case; the remaining requests that the vendor reports are
        respected
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
        """Records a refusal because of load: halves the limit, and pauses after repeated refusals.

        began:  what `acquire` returned; requests started before the last halving do not halve again
        wait_s: the vendor's Retry-After
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
        """Starts no request for this time, at most a minute."""
        self._not_before = max(self._not_before, self._clock() + min(seconds, _LONGEST_PAUSE_S))
        self._wake()

    def close(self) -> None:
        """Admits no more requests: waiting ones get GateClosed."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for turn in self._line:
            if not turn.done():
                turn.set_exception(GateClosed())
        self._line.clear()

    @property
    def _paused(self) -> bool:
        """Whether a pause was requested; checking the clock for each row costs more."""
        return self._not_before > -math.inf

    def _free(self) -> bool:
        return self.under_way < self.limit and not (self._paused and self.paused_s > 0)

    def _wake(self) -> None:
        """Gives free slots to the first waiters; runs again when a pause ends."""
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
