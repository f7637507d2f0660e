"""Rate limiting: requests, tokens and concurrent answers that several streams share."""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Protocol

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.usage import MOST_TOKENS

__all__ = ["Permit", "RateLimiter", "RateState", "rate_states"]


# Rate limits as vendors report them in headers, as values.

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN: Final = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)(ms|[smhd])")
# Numbers from here on are points in time, not durations.
_EPOCH_S: Final = 1e9


class RateState(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of allowance ("requests" or "tokens"); None for what the vendor did not report.

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
             `anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset}`
    """
    states = {}
    for kind in ("requests", "tokens"):
        for pattern in (f"x-ratelimit-{{}}-{kind}", f"anthropic-ratelimit-{kind}-{{}}"):
            state = RateState(
                limit=_count(headers.get(pattern.format("limit"))),
                remaining=_count(headers.get(pattern.format("remaining"))),
                reset_s=_seconds(headers.get(pattern.format("reset")), now),
            )
            if state != RateState():
                states[kind] = state
    for half in ("input-tokens", "output-tokens"):  # they count only where one of them is used up
        remaining = _count(headers.get(f"anthropic-ratelimit-{half}-remaining"))
        if remaining == 0:
            reset_s = _seconds(headers.get(f"anthropic-ratelimit-{half}-reset"), now)
            states["tokens"] = RateState(remaining=0.0, reset_s=reset_s)
    return states


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


# A vendor may say "in an hour"; then one request a minute finds out whether that still holds.
_LONGEST_PAUSE_S: Final = 60.0


class Timer(Protocol):
    """A scheduled wake-up."""

    def cancel(self) -> None:
        """Cancels it."""


Scheduler = Callable[[float, Callable[[], None]], Timer]


class RateLimiter:
    """Paces all streams of the models that have it: `Model("openai:gpt-5-mini", limiter=limiter)`.

    Use one object for models that share a vendor's limit. Requests go in the order of their arrival; a
    waiting one may be cancelled at any time. It may be used from several event loops.

    requests_per_minute: an allowance that refills steadily; after a pause this many may go at once
    tokens_per_minute:   the same for tokens. A request is estimated beforehand, a quarter of its bytes and
                         `max_output_tokens`, and corrected by the usage of its response. One that is
                         larger than the allowance goes when that is full
    max_concurrent:      maximum number of answers in progress
    clock, call_later:   the time and a timer, for tests; by default those of the event loop
    raises:              InvalidRequest for a number below 1
    """

    def __init__(
        self,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_concurrent: int | None = None,
        clock: Callable[[], float] | None = None,
        call_later: Scheduler | None = None,
    ) -> None:
        given = {
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "max_concurrent": max_concurrent,
        }
        for name, value in given.items():
            if value is not None and not value >= 1:
                raise InvalidRequest(f"{name} must be at least 1, got {value!r}")
        clock = clock or _loop_time
        now = clock()
        self._requests = _Allowance(requests_per_minute, now)
        self._tokens = _Allowance(tokens_per_minute, now)
        self._max_concurrent = math.inf if max_concurrent is None else max_concurrent
        self._clock = clock
        self._call_later = call_later
        self._under_way = 0
        self._not_before = now
        self._line: OrderedDict[_Waiter, None] = OrderedDict()
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"RateLimiter({self._under_way} under way, {len(self._line)} waiting)"

    @property
    def under_way(self) -> int:
        """The number of permits that are held."""
        return self._under_way

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return len(self._line)

    async def acquire(self, tokens: float = 0.0) -> Permit:
        """Waits for its turn and returns a permit, which must be released; a cancelled waiter takes nothing.

        tokens: estimated cost of the request
        """
        # Each waiter belongs to its own loop: the limiter may serve several.
        waiter = _Waiter(asyncio.get_running_loop(), self._call_later)
        came = self._clock()
        with self._lock:
            self._line[waiter] = None
        try:
            while True:
                with self._lock:
                    # Before the check, or a wake-up between check and sleep would be missed.
                    turn = waiter.next_turn()
                    wait_s = self._wait_s(waiter, tokens)
                    if wait_s <= 0.0:  # from here to the return nothing is awaited
                        return self._take(tokens, came)
                await waiter.sleep(turn, wait_s)
        finally:
            with self._lock:
                del self._line[waiter]
                self._wake_first()

    def _wait_s(self, waiter: _Waiter, tokens: float) -> float:
        """Seconds until this waiter may go; infinity if another one has to wake it."""
        # First come, first served: a small request must not overtake a large one for ever.
        if next(iter(self._line)) is not waiter or self._under_way >= self._max_concurrent:
            return math.inf
        now = self._clock()
        waits = (self._not_before - now, self._requests.wait_s(1.0, now), self._tokens.wait_s(tokens, now))
        return max(waits)

    def _take(self, tokens: float, came: float) -> Permit:
        self._requests.spend(1.0)
        self._tokens.spend(tokens)
        self._under_way += 1
        return Permit(self, tokens, self._clock() - came)

    def _wake_first(self) -> None:
        """Wakes the first waiter, which checks again."""
        if self._line:
            next(iter(self._line)).wake()

    def _give_back(self, estimate: float, tokens: float | None) -> None:
        """Ends an answer; `tokens` is its actual cost."""
        with self._lock:
            self._under_way -= 1
            if tokens is not None:
                now = self._clock()
                self._tokens.refill(now)
                # After the answer: its usage is known only now, and a debt delays the next requests.
                self._tokens.correct(_believable(tokens) - estimate)
            self._wake_first()

    def learn(self, headers: Mapping[str, str]) -> None:
        """Applies the rate limit headers of an answer (names in lower case)."""
        states = rate_states(headers, time.time())
        if not states:
            return
        with self._lock:
            now = self._clock()
            for kind, state in states.items():
                (self._requests if kind == "requests" else self._tokens).learn(state, now)
                # Vendors count what other programs with this key use; the header is the only way to know it.
                if state.remaining == 0 and state.reset_s:
                    self._pause(state.reset_s, now)
            self._wake_first()

    def pause(self, seconds: float) -> None:
        """Lets no request go for this time, at most a minute: the vendor has asked for it."""
        with self._lock:
            self._pause(seconds, self._clock())
            self._wake_first()

    def _pause(self, seconds: float, now: float) -> None:
        self._not_before = max(self._not_before, now + min(seconds, _LONGEST_PAUSE_S))


class Permit:
    """Permission for one request. `release()` it when the answer is over or left; a second call does nothing.

    waited_s: how long it waited
    """

    __slots__ = ("_estimate", "_held", "limiter", "waited_s")

    def __init__(self, limiter: RateLimiter, estimate: float, waited_s: float) -> None:
        self.limiter = limiter
        self.waited_s = waited_s
        self._estimate = estimate
        self._held = True

    def release(self, tokens: float | None = None) -> None:
        """Frees the permit. `tokens`: the actual cost of the answer; None leaves the estimate."""
        if self._held:
            self._held = False
            self.limiter._give_back(self._estimate, tokens)

    def __del__(self) -> None:
        self.release()


class _Allowance:
    """A bucket that refills steadily; without a rate it is never empty."""

    def __init__(self, per_minute: float | None, now: float) -> None:
        self._given = math.inf if per_minute is None else float(per_minute)
        self.size = self._given
        self.level = self._given
        self._filled = now

    def refill(self, now: float) -> None:
        """Updates the level to this time."""
        if self._given != math.inf:
            self.level = min(self.size, self.level + (now - self._filled) * self.size / 60.0)
        self._filled = now

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until this amount is available, or the complete allowance if that is less."""
        if self._given == math.inf:
            return 0.0
        self.refill(now)
        missing = min(amount, self.size) - self.level
        # Rounding may leave a billionth missing, for which a timer would fire without end.
        return missing * 60.0 / self.size if missing > 1e-9 * self.size else 0.0

    def spend(self, amount: float) -> None:
        """Takes this amount, into debt if needed; a negative amount is returned."""
        self.level = min(self.size, self.level - amount)

    def correct(self, amount: float) -> None:
        """Takes what an answer cost beyond its estimate, at most into a debt that a minute pays.

        A vendor counts the tokens, and one wrong count must not stop every stream for years.
        """
        before = self.level
        self.spend(amount)
        self.level = max(self.level, min(before, -self.size))

    def learn(self, state: RateState, now: float) -> None:
        """Lowers the allowance to what the vendor reports."""
        if self._given == math.inf:
            return
        self.refill(now)
        if state.limit is not None and state.limit >= 1:
            # The caller may share the vendor's limit with other programs, so the limit never raises the
            # allowance.
            self.size = min(self._given, state.limit)
        known = self.size if state.remaining is None else min(self.size, state.remaining)
        self.level = min(self.level, known)


class _Waiter:
    """A waiting request, which checks when it is woken and sleeps again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call_later: Scheduler | None) -> None:
        self._loop = loop
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


def _believable(tokens: float) -> float:
    """A count that can be computed with, whatever the vendor reported."""
    return float(min(tokens, MOST_TOKENS)) if tokens > 0 else 0.0


def _loop_time() -> float:
    """The running loop's time, which is monotonic; without a loop, the monotonic time."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()


def _set(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
