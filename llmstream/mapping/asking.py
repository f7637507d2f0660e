"""The requests of a map: how many may be in progress at once, and which are sent again for an item.

Vendors rarely publish how many concurrent requests they accept, and the number changes by the hour. It is
measured by AIMD, as TCP measures the rate of a network: the limit starts small and doubles every round
while no request is refused. A refusal halves it; after that it grows by one per round.

The requests of one item are sent until it has an answer or an error that a retry does not fix.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from llmstream.chats.message import Message
from llmstream.errors import (
    AuthenticationError,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidRequest,
    LLMStreamError,
    MissingKey,
    NotFound,
    Overloaded,
    PermissionDenied,
    ProxyError,
    RateLimited,
    TLSError,
    Unsupported,
)
from llmstream.streams.attempts import Retry, wait_before_retry_s, worth_another
from llmstream.streams.options import Options, Prompt, as_messages
from llmstream.transport.pacing import rate_states
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.streams.event_stream import EventStream
    from llmstream.streams.model import Model

__all__ = [
    "AdaptiveConcurrency",
    "Answer",
    "Asker",
    "GateClosed",
    "Price",
    "RunStopped",
]


# How many requests are in progress.

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
        while self._line and self.under_way < self.limit:
            # The clock is read once: if the pause ended between two reads, no timer would be set.
            if self._paused and (wait_s := self.paused_s) > 0:
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(wait_s, self._rung)
                return
            turn = self._line.popleft()
            if not turn.done():
                self._take()
                turn.set_result(None)

    def _rung(self) -> None:
        self._timer = None
        self._wake()


# The requests of one item.

Price: TypeAlias = Callable[[str, Usage], float | None]
"""What tokens of "provider:model" cost, or None; `llmstream.prices.price` has the list prices."""

Step: TypeAlias = Literal["again", "wait", "next", "fail", "stop"]

# Errors that every other item would have too.
_OF_ALL: Final = (AuthenticationError, MissingKey)

# The same, unless something has been answered: then it is this item's.
_OF_ALL_AT_FIRST: Final = (NotFound, PermissionDenied, Unsupported, TLSError, ProxyError)

# Errors by which a vendor shows that it has too much to do.
_LOAD: Final = (RateLimited, Overloaded, DeadlineExceeded)

_ONCE: Final = Retry(max_retries=0)
_CHARS_PER_TOKEN: Final = 4
_PAYMENT_REQUIRED: Final = 402
# Without a network, requests would fail at once, and as fast as the processor can make them.
_RECONNECT_S: Final = 1.0


class RunStopped(Exception):
    """The run cannot continue: every item would fail in the same way.

    error: of the item that showed it, which is not recorded
    """

    def __init__(self, error: LLMStreamError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class Answer:
    """The outcome of asking.

    value: of `output`, or the message
    """

    value: Any = None
    message: Message | None = None
    error: LLMStreamError | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    attempts: int = 0
    model: str = ""
    finish_reason: str | None = None


class Asker:
    """Asks the models for one item after the other, as many at once as the vendor takes.

    models:     the first is used, the others if it fails
    options:    of each request, `output` included
    patience_s: after this time without any answer because of refusals, the run stops
    """

    def __init__(
        self,
        models: Sequence[Model[Any]],
        options: Options,
        *,
        retry: Retry,
        gate: AdaptiveConcurrency,
        price: Price | None,
        patience_s: float,
    ) -> None:
        self.refused = 0
        self._models = models
        self._output = options.get("output")
        given = {name: value for name, value in options.items() if name not in ("output", "retry")}
        self._options: dict[str, Any] = {**given, "retry": _ONCE}
        self._retry = retry
        self._gate = gate
        self._price = price
        self._patience_s = patience_s
        self._unpriced: set[str] = set()  # models: looking up a price costs more than using one
        self._answered = False  # whether anything has been
        self._since: float | None = None  # when the refusals since the last answer began

    async def ask(self, prompt: Prompt, began: float) -> Answer:
        """The answer to a prompt, or the error.

        began:  when the turn of the gate began that the caller has taken; it is given back here
        raises: RunStopped
        """
        answer, place, failures = Answer(), 0, 0
        turn: float | None = began
        try:
            while True:
                if turn is None:
                    turn = await self._gate.acquire()
                answer.attempts += 1
                error = await self._once(self._models[place], prompt, answer)
                if error is None:
                    self._answered, self._since = True, None
                    return answer
                load = self._observe(error, turn)
                step = self._step(error, failures + 1, last=place + 1 == len(self._models))
                if step == "stop":
                    self._gate.close()  # before the slot is freed, so that no other item takes it
                    raise RunStopped(error)
                if step == "fail":
                    answer.error = error
                    return answer
                self._gate.release()  # no slot is held while it waits
                turn = None
                if step == "next":
                    place, failures = place + 1, 0
                elif step == "again":
                    failures += 1
                    wait_s = wait_before_retry_s(self._retry, error, failures) or 0.0
                    await asyncio.sleep(0.0 if load else wait_s)
        finally:
            if turn is not None:
                self._gate.release()

    async def _once(self, model: Model[Any], prompt: Prompt, answer: Answer) -> LLMStreamError | None:
        """Makes one request, repairs of its answer included; returns why it failed."""
        try:
            async with model.stream(prompt, output=self._output, **self._options) as stream:
                try:
                    await _read(stream, answer, self._output is not None)
                finally:
                    self._account(stream, prompt, answer)
        except LLMStreamError as error:
            return error
        return None

    def _account(self, stream: EventStream[Any], prompt: Prompt, answer: Answer) -> None:
        """Adds tokens and cost of an attempt, failed or not."""
        used = stream.total_usage
        answer.usage = used if answer.attempts == 1 else answer.usage + used
        response = stream.response
        answer.model = f"{response.provider}:{response.model}"
        answer.finish_reason = stream.finish_reason if stream.error is None else None
        if stream.error is None:
            self._gate.answered(response.headers)
        if self._price is None or answer.model in self._unpriced:
            return
        cost = stream.cost(self._price)
        if cost is None and stream.text:
            cost = self._estimated_cost(prompt, stream.text, answer)
        if cost is not None:
            answer.cost = (answer.cost or 0.0) + cost

    def _estimated_cost(self, prompt: Prompt, text: str, answer: Answer) -> float | None:
        """The cost where the vendor counts no tokens; None, which is remembered, of a model without price."""
        assert self._price is not None
        tokens = Usage(max(1, _tokens_in(prompt)), max(1, len(text) // _CHARS_PER_TOKEN))
        cost = self._price(answer.model, tokens)
        if cost is None:
            self._unpriced.add(answer.model)
        return cost

    def _observe(self, error: LLMStreamError, began: float) -> bool:
        """Takes a refusal into account; returns whether it was one, so that the gate decides who waits."""
        if isinstance(error, ConnectionFailed):
            self._gate.pause(_RECONNECT_S)
            return True
        if not (isinstance(error, _LOAD) and error.retryable):
            self._since = None  # the vendor takes requests
            return False
        self.refused += 1
        self._gate.refused(began, error.retry_after_s)
        return True

    def _step(self, error: LLMStreamError, failures: int, *, last: bool) -> Step:
        """What to do after a failure.

        failures: of this model for this item, this one included
        last:     whether there is no other model
        """
        if isinstance(error, RateLimited) and error.retryable:
            return self._wait(error)
        if error.retryable and failures <= self._retry.max_retries:
            return "again"
        if not last and worth_another(error):
            return "next"
        if self._is_of_all(error):
            return "stop"
        return self._wait(error) if isinstance(error, Overloaded | ConnectionFailed) else "fail"

    def _is_of_all(self, error: LLMStreamError) -> bool:
        """Whether every other item would fail in the same way."""
        if isinstance(error, _OF_ALL) or (isinstance(error, RateLimited) and not error.retryable):
            return True
        if isinstance(error, PermissionDenied) and error.status == _PAYMENT_REQUIRED:
            return True
        return not self._answered and isinstance(error, (*_OF_ALL_AT_FIRST, ConnectionFailed))

    def _wait(self, error: LLMStreamError) -> Step:
        """Waits for better times, unless they are too far away."""
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since = now
        too_long = now - self._since > self._patience_s or (error.retry_after_s or 0.0) > self._patience_s
        return "stop" if too_long else "wait"


async def _read(stream: EventStream[Any], answer: Answer, typed: bool) -> None:
    """Reads a response to its end."""
    if typed:
        async for _ in stream.objects():
            pass
        answer.value, answer.message = stream.object, stream.message
    else:
        answer.value = answer.message = await stream.collect()


def _tokens_in(prompt: Prompt) -> int:
    """About how many tokens a prompt has."""
    texts = [prompt] if isinstance(prompt, str) else [message.text for message in as_messages(prompt)]
    return sum(map(len, texts)) // _CHARS_PER_TOKEN
