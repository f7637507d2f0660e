"""Pacing within a process: limits that vendors report, buckets that refill, and a queue of requests."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import threading
import time
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

import msgspec

__all__ = [
    "KINDS",
    "Cost",
    "Grant",
    "Granter",
    "Pacer",
    "RateState",
    "Scheduler",
    "Sizes",
    "Timer",
    "rate_states",
    "report_cut",
    "unmodelled_pause_s",
    "vendor_time",
]


# Rate limits in the headers of a response.

KINDS: Final = ("requests", "tokens", "input_tokens", "output_tokens")
"""What is counted, in the order of costs and sizes."""


_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN: Final = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)(ms|[smhd])")
# Numbers from here on are points in time, not durations.
_EPOCH_S: Final = 1e9


class RateState(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of allowance, of KINDS; None for what the vendor did not report.

    reset_s: seconds until the allowance is full again
    """

    limit: float | None = None
    remaining: float | None = None
    reset_s: float | None = None


def rate_states(headers: Mapping[str, str], now: float) -> dict[str, RateState]:
    """The states that a response's headers report, by kind; kinds without a header are absent.

    headers: with names in lower case
    now:     seconds since 1970, against which points in time are read
    source:  `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` and
             `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`
    """
    states = {}
    for kind in KINDS:
        name = kind.replace("_", "-")
        for pattern in (f"x-ratelimit-{{}}-{name}", f"anthropic-ratelimit-{name}-{{}}"):
            state = RateState(
                limit=_count(headers.get(pattern.format("limit"))),
                remaining=_count(headers.get(pattern.format("remaining"))),
                reset_s=_seconds(headers.get(pattern.format("reset")), now),
            )
            if state != RateState():
                states[kind] = state
    for half in ("input_tokens", "output_tokens"):  # for those who count only the sum
        if half in states and states[half].remaining == 0:
            states["tokens"] = RateState(remaining=0.0, reset_s=states[half].reset_s)
    return states


def vendor_time(headers: Mapping[str, str], now: float) -> float:
    """The vendor's time by its `date` header, else ours: points in time are by the vendor's clock."""
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return now


def _count(text: str | None) -> float | None:
    """A count, or None for anything else."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _seconds(text: str | None, now: float) -> float | None:
    """Seconds from now: "6m0s", "20ms", "1.5", a time of RFC 3339, or seconds since 1970."""
    if not text:
        return None
    number = _count(text)
    if number is not None:
        return number if number < _EPOCH_S else max(0.0, number - now)
    if _SPAN.sub("", text.strip()) == "":
        return sum(float(count) * _UNITS[unit] for count, unit in _SPAN.findall(text))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return max(0.0, moment.timestamp() - now)


# Buckets, places and the queue.

_log: Final = logging.getLogger("llmstream")

Cost = tuple[float, float, float, float]
"""Requests, tokens, input tokens, output tokens: as KINDS."""

# A vendor may say "in an hour"; one request a minute checks whether that still applies.
_LONGEST_PAUSE_S: Final = 60.0

# After a refusal that no empty bucket explains: the vendor limits how fast the load grows, or others use
# the key.
_CUT: Final = 0.7
_GROWTH_PER_S: Final = 0.05 / 60
_LOWEST_FACTOR: Final = 0.1
# A bucket below this fraction of its size explains a refusal.
_USED_UP: Final = 0.1


class Timer(Protocol):
    """A scheduled wake-up."""

    def cancel(self) -> None:
        """Cancels it."""


Scheduler = Callable[[float, Callable[[], None]], Timer]


@dataclass(frozen=True)
class Sizes:
    """The configured limits of a limiter.

    amounts: per minute, in the order of KINDS; 0 for no limit
    places:  maximum number of concurrent answers; 0 for no limit
    """

    amounts: Cost
    places: int

    def share(self, members: int) -> Sizes:
        """The share of one of this many processes."""
        requests, tokens, read, written = (amount / members for amount in self.amounts)
        return Sizes((requests, tokens, read, written), self.places and max(1, self.places // members))


class Granter(Protocol):
    """Grants permits and takes them back."""

    def give_back(self, grant: Grant, extra: Sequence[float]) -> None:
        """Frees the permit of an answer; `extra` is its cost beyond the estimate."""

    def learn(self, states: Mapping[str, RateState], grant: Grant | None) -> None:
        """Lowers the buckets to what the vendor reports, less the grants since the request was sent."""

    def refused(self, grant: Grant | None, used_up: int) -> None:
        """Reduces all bucket sizes after a 429, unless an empty bucket explains it.

        used_up: whether the vendor reports an empty bucket: 1, 0, or -1 unknown
        """


@dataclass(frozen=True)
class Grant:
    """A grant.

    spent: the sum of the grants up to then, in the order of KINDS; [] if it is not known
    at:    when, by the clock of the granter
    """

    by: Granter
    waited_s: float
    id: str = ""
    spent: list[float] = field(default_factory=list)
    at: float = 0.0


class Pacer:
    """Grants permits within one process, to several event loops: by priority, then in order of arrival."""

    def __init__(
        self, sizes: Sizes, *, clock: Callable[[], float] | None = None, call_later: Scheduler | None = None
    ) -> None:
        self._clock = clock or _loop_time
        now = self._clock()
        self._allowances = [_Allowance(amount or None, now) for amount in sizes.amounts]
        self._places = sizes.places or math.inf
        self._call_later = call_later
        self._factor = 1.0
        self._cut_at = self._cut_from = -math.inf
        self._not_before = now
        self._arrivals = 0
        self._line: list[_Waiter] = []
        self._lock = threading.RLock()
        self.under_way = 0

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return len(self._line)

    @property
    def levels(self) -> list[float]:
        """The current levels of the buckets; infinite without a limit."""
        with self._lock:
            self._refill(self._clock())
            return [allowance.level for allowance in self._allowances]

    async def acquire(self, cost: Cost, priority: int = 0) -> Grant:
        """Waits for a grant; a cancelled waiter consumes nothing."""
        # Each waiter belongs to its own loop: the limiter may serve several.
        arrived = self._clock()
        with self._lock:
            self._arrivals += 1
            waiter = _Waiter(asyncio.get_running_loop(), self._call_later, rank=(-priority, self._arrivals))
            self._line.insert(bisect(self._line, waiter.rank, key=lambda other: other.rank), waiter)
        try:
            while True:
                with self._lock:
                    # Created before the check: a wake-up between check and sleep would otherwise be missed.
                    turn = waiter.next_turn()
                    wait_s = self._wait_s(waiter, cost)
                    if wait_s <= 0.0:  # no await between here and the return
                        return self._take(cost, arrived)
                await waiter.sleep(turn, wait_s)
        finally:
            with self._lock:
                self._line.remove(waiter)
                self._wake_first()

    def _wait_s(self, waiter: _Waiter, cost: Cost) -> float:
        """Seconds until this waiter may run; infinity if another one has to wake it."""
        # First come, first served: small requests must not starve a large one.
        if self._line[0] is not waiter or self.under_way >= self._places:
            return math.inf
        now = self._clock()
        self._refill(now)
        waits = [allowance.wait_s(amount) for allowance, amount in zip(self._allowances, cost, strict=True)]
        return max(self._not_before - now, *waits)

    def _take(self, cost: Cost, arrived: float) -> Grant:
        for allowance, amount in zip(self._allowances, cost, strict=True):
            allowance.spend(amount)
        self.under_way += 1
        now = self._clock()
        return Grant(self, now - arrived, "", [allowance.spent for allowance in self._allowances], now)

    def take_place(self) -> Grant:
        """Takes a place immediately, for an answer already in progress."""
        with self._lock:
            return self._take((0.0, 0.0, 0.0, 0.0), self._clock())

    def _wake_first(self) -> None:
        """Wakes the first waiter, which checks again."""
        if self._line:
            self._line[0].wake()

    def _refill(self, now: float) -> None:
        if self._factor < 1.0:
            self._factor = min(1.0, self._factor + (now - self._cut_at) * _GROWTH_PER_S)
            self._cut_at = now
        for allowance in self._allowances:
            allowance.refill(now, self._factor)

    def give_back(self, grant: Grant, extra: Sequence[float]) -> None:
        """Frees the permit of an answer; `extra` is its cost beyond the estimate."""
        with self._lock:
            self.under_way -= 1
            self._refill(self._clock())
            for allowance, amount in zip(self._allowances, extra, strict=True):
                # The usage is known only after the answer; a debt delays the next requests.
                allowance.correct(amount)
            self._wake_first()

    def learn(self, states: Mapping[str, RateState], grant: Grant | None) -> None:
        """Lowers the buckets to what the vendor reports, less the grants since the request was sent."""
        with self._lock:
            now = self._clock()
            self._refill(now)
            for kind, allowance in enumerate(self._allowances):
                if state := states.get(KINDS[kind]):
                    since = 0.0
                    if grant is not None and grant.spent:
                        refilled = (now - grant.at) * allowance.size / 60.0
                        since = max(0.0, allowance.spent - grant.spent[kind] - refilled)
                    allowance.learn(state, since, self._factor)
            given = [allowance.limited for allowance in self._allowances]
            pause_s = unmodelled_pause_s(states, given)
            if pause_s:
                self._pause(pause_s, now)
            self._wake_first()

    def cap(self, levels: Sequence[float]) -> None:
        """Lowers the bucket levels to these."""
        with self._lock:
            for allowance, level in zip(self._allowances, levels, strict=True):
                allowance.learn(RateState(remaining=level), 0.0, self._factor)

    def pause(self, seconds: float) -> None:
        """Pauses requests for this time, at most a minute."""
        with self._lock:
            self._pause(seconds, self._clock())
            self._wake_first()

    def _pause(self, seconds: float, now: float) -> None:
        self._not_before = max(self._not_before, now + min(seconds, _LONGEST_PAUSE_S))

    def refused(self, grant: Grant | None, used_up: int) -> None:
        """Reduces all bucket sizes after a 429, unless an empty bucket explains it."""
        with self._lock:
            now = self._clock()
            limited = [allowance for allowance in self._allowances if allowance.limited]
            # Requests granted before the last reduction are no evidence against the reduced size.
            if used_up == 1 or not limited or (grant is not None and grant.at < self._cut_from):
                return
            self._refill(now)
            if used_up < 0 and any(bucket.level < _USED_UP * bucket.size for bucket in limited):
                return
            self._factor = max(_LOWEST_FACTOR, self._factor * _CUT)
            self._cut_at = self._cut_from = now
            self._refill(now)
            report_cut(self._factor)


def report_cut(factor: float) -> None:
    """Logs that all sizes were reduced."""
    _log.warning(
        "a request was refused although no limit was used up: the limiter continues with %.0f %% of its "
        "limits, and 5 %% more each minute",
        factor * 100,
    )


def unmodelled_pause_s(states: Mapping[str, RateState], given: Sequence[bool]) -> float:
    """How long to pause because a vendor reports an allowance as used up for which there is no bucket.

    Vendors count what other programs with this key use; the header is the only way to know it.
    """
    longest = 0.0
    for kind, state in states.items():
        of_half = kind == "tokens" and any(
            half in states and states[half].remaining == 0 for half in KINDS[2:]
        )
        if state.remaining == 0 and not given[KINDS.index(kind)] and not of_half:
            longest = max(longest, state.reset_s or 0.0)
    return longest


class _Allowance:
    """A bucket that refills steadily; without a size it is never empty."""

    def __init__(self, per_minute: float | None, now: float) -> None:
        self._given = math.inf if per_minute is None else float(per_minute)
        self._limit = math.inf
        self.size = self._given
        self.level = self._given
        self.spent = 0.0
        self._filled = now

    @property
    def limited(self) -> bool:
        """Whether it has a size."""
        return self._given != math.inf

    def refill(self, now: float, factor: float = 1.0) -> None:
        """Updates level and size to this time."""
        if self.limited:
            self.size = min(self._given, self._limit) * factor
            self.level = min(self.size, self.level + (now - self._filled) * self.size / 60.0)
        self._filled = now

    def wait_s(self, amount: float) -> float:
        """Seconds until this amount is available, or the complete allowance if that is less."""
        if not self.limited:
            return 0.0
        missing = min(amount, self.size) - self.level
        # Rounding may leave a billionth missing, for which a timer would fire without end.
        return missing * 60.0 / self.size if missing > 1e-9 * self.size else 0.0

    def spend(self, amount: float) -> None:
        """Deducts this amount, into debt if needed; a negative amount is refunded."""
        self.spent += amount
        self.level = min(self.size, self.level - amount)

    def correct(self, amount: float) -> None:
        """Deducts an answer's cost beyond its estimate, at most into a debt repaid within a minute.

        A vendor counts the tokens, and one wrong count must not block every stream for years.
        """
        before = self.level
        self.spend(amount)
        self.level = max(self.level, min(before, -self.size))

    def learn(self, state: RateState, since: float, factor: float) -> None:
        """Lowers the allowance to what the vendor reports, less what was granted since."""
        if not self.limited:
            return
        if state.limit is not None and state.limit >= 1:
            # The caller may share the vendor's limit with other programs, so a report never raises the
            # allowance.
            self._limit = state.limit
            self.size = min(self._given, self._limit) * factor
        known = self.size if state.remaining is None else min(self.size, state.remaining - since)
        self.level = min(self.level, known)


class _Waiter:
    """A waiting request, which checks when it is woken and sleeps again."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, call_later: Scheduler | None, rank: tuple[int, int]
    ) -> None:
        self._loop = loop
        self.rank = rank
        self._call_later: Scheduler = call_later or loop.call_later
        self._turn: asyncio.Future[None] | None = None

    def next_turn(self) -> asyncio.Future[None]:
        """The future of the next wake-up; created before the check, so that no wake-up is missed."""
        self._turn = turn = self._loop.create_future()
        return turn

    async def sleep(self, turn: asyncio.Future[None], seconds: float) -> None:
        """Sleeps until woken, or for this time."""
        timer = self._call_later(seconds, lambda: _set(turn)) if seconds != math.inf else None
        try:
            await turn
        finally:
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        """Wakes it, from any thread."""
        turn = self._turn
        if turn is None or turn.done():
            return
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            _set(turn)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_set, turn)


def _loop_time() -> float:
    """The running loop's time, which is monotonic; without a loop, the monotonic time."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()


def _set(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
