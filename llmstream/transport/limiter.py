"""Rate limiting: requests, tokens and concurrent answers that streams share, in one process or many."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final

from llmstream.errors import InvalidRequest
from llmstream.transport.pacing import (
    KINDS,
    Cost,
    Grant,
    Granter,
    Pacer,
    Scheduler,
    Sizes,
    rate_states,
    vendor_time,
)
from llmstream.usage import MOST_TOKENS

if TYPE_CHECKING:
    from llmstream.transport.fleet import Fleet, OnLoss

__all__ = ["Permit", "RateLimiter"]

_HIGHEST_PRIORITY: Final = 1000


class RateLimiter:
    """Paces all streams of the models that use it: `Model("openai:gpt-5-mini", limiter=limiter)`.

    Use one object for models that share a vendor's limit, or one name in a shared store. Requests run by
    priority, then in order of arrival; a waiting one may be cancelled at any time. It may be used from
    several event loops.

    requests_per_minute: an allowance that refills steadily; after a pause this many may run at once
    tokens_per_minute:   the same for tokens. A request is estimated beforehand, a quarter of its bytes and
                         `max_output_tokens`, and corrected by the usage of its response. One that is larger
                         than the allowance runs when that is full
    input_tokens_per_minute, output_tokens_per_minute: the same, for vendors that count them separately
    max_concurrent:      maximum number of answers in progress
    priority:            of requests whose `acquire` names none, -1000 to 1000; the highest goes first
    shared:              where the state is, for all limiters with this address and `name`, in any process:
                         "redis://host:6379/0" (also rediss:// and unix://; extra `redis`), or "sqlite:PATH"
                         for the processes of one machine. Give all of them the same numbers
    name:                of the shared limits, such as "openai-main"
    on_loss:             while the store cannot be reached: "local" continues with a share of the limits, the
                         limits divided by the processes there were; "raise" fails with LimitsUnavailable
    lease_s:             of the shared store: an answer whose process has died counts for this time
    clock, call_later:   the time and a timer, for tests; by default the event loop's. Not with `shared`
    raises:              InvalidRequest for a number below 1, or an unknown address
    """

    def __init__(
        self,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        input_tokens_per_minute: float | None = None,
        output_tokens_per_minute: float | None = None,
        max_concurrent: int | None = None,
        priority: int = 0,
        shared: str | None = None,
        name: str = "default",
        on_loss: OnLoss = "local",
        lease_s: float = 30.0,
        clock: Callable[[], float] | None = None,
        call_later: Scheduler | None = None,
    ) -> None:
        given = {
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "input_tokens_per_minute": input_tokens_per_minute,
            "output_tokens_per_minute": output_tokens_per_minute,
            "max_concurrent": max_concurrent,
        }
        for what, value in given.items():
            if value is not None and not value >= 1:
                raise InvalidRequest(f"{what} must be at least 1, got {value!r}")
        amounts = (
            requests_per_minute or 0.0,
            tokens_per_minute or 0.0,
            input_tokens_per_minute or 0.0,
            output_tokens_per_minute or 0.0,
        )
        sizes = Sizes(amounts, int(max_concurrent or 0))
        self.priority = _checked_priority(priority)
        self._pacer: Pacer | Fleet
        if shared is None:
            self._pacer = Pacer(sizes, clock=clock, call_later=call_later)
        else:
            from llmstream.transport.fleet import Fleet

            self._pacer = Fleet(shared, name, sizes, on_loss=on_loss, lease_s=lease_s)

    def __repr__(self) -> str:
        return f"RateLimiter({self.under_way} in progress, {self.waiting} waiting)"

    async def __aenter__(self) -> RateLimiter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Disconnects from the shared limits at once; otherwise that happens at the end of the event loop."""
        if not isinstance(self._pacer, Pacer):
            await self._pacer.aclose()

    @property
    def under_way(self) -> int:
        """The number of unreleased permits in this process."""
        return self._pacer.under_way

    @property
    def waiting(self) -> int:
        """The number of waiting requests in this process."""
        return self._pacer.waiting

    async def acquire(
        self,
        tokens: float | None = None,
        *,
        input_tokens: float | None = None,
        output_tokens: float | None = None,
        priority: int | None = None,
    ) -> Permit:
        """Waits for its turn and returns a permit, which must be released; a cancelled waiter takes nothing.

        tokens:   estimated cost of the request; by default the sum of the two others
        input_tokens, output_tokens: the same in two parts; without them all of it counts as input
        priority: the highest goes first; by default the limiter's
        raises:   LimitsUnavailable if a shared store cannot be reached and `on_loss` is "raise"
        """
        if input_tokens is None and output_tokens is None:
            input_tokens = tokens
        read, written = input_tokens or 0.0, output_tokens or 0.0
        cost = (1.0, float(read + written if tokens is None else tokens), float(read), float(written))
        rank = self.priority if priority is None else _checked_priority(priority)
        return Permit(self, await self._pacer.acquire(cost, rank), cost)

    def learn(self, headers: Mapping[str, str], permit: Permit | None = None) -> None:
        """Applies the rate limit headers of an answer (names in lower case).

        permit: of the answered request; its headers may not include later grants
        """
        states = rate_states(headers, vendor_time(headers, time.time()))
        if states:
            granter, grant = self._granter(permit)
            granter.learn(states, grant)

    def pause(self, seconds: float) -> None:
        """Pauses requests for this time, at most a minute, as the vendor requested."""
        self._pacer.pause(seconds)

    def refused(self, permit: Permit | None = None, headers: Mapping[str, str] = {}) -> None:
        """Records a 429. If no used-up allowance explains it, all allowances shrink, and recover slowly.

        Vendors respond like this to a load that grows too fast. They shrink to 0.7, and recover by 5 % of the
        limits a minute. All requests sent before a reduction count as one refusal.

        headers: of the refusal, names in lower case
        """
        states = rate_states(headers, vendor_time(headers, time.time()))
        cost = permit._cost if permit is not None else (1.0, 1.0, 1.0, 1.0)
        short = [
            state.remaining < max(1.0, cost[KINDS.index(kind)])
            for kind, state in states.items()
            if state.remaining is not None
        ]
        granter, grant = self._granter(permit)
        granter.refused(grant, int(any(short)) if short else -1)

    def _granter(self, permit: Permit | None) -> tuple[Granter, Grant | None]:
        return (self._pacer, None) if permit is None else (permit._grant.by, permit._grant)


class Permit:
    """Permission for one request. `release()` it once, at the end of the answer; a second call does nothing.

    waited_s: how long it waited
    """

    __slots__ = ("_cost", "_grant", "_held", "limiter", "waited_s")

    def __init__(self, limiter: RateLimiter, grant: Grant, cost: Cost) -> None:
        self.limiter = limiter
        self.waited_s = grant.waited_s
        self._grant, self._cost = grant, cost
        self._held = True

    def release(
        self,
        tokens: float | None = None,
        *,
        input_tokens: float | None = None,
        output_tokens: float | None = None,
    ) -> None:
        """Frees the permit.

        tokens: the actual cost of the answer; None leaves the estimate
        input_tokens, output_tokens: the same in two parts; None leaves the estimate
        """
        if self._held:
            self._held = False
            if input_tokens is None and output_tokens is None and not self._cost[3]:
                input_tokens = tokens  # as in `acquire`
            actual = (None, tokens, input_tokens, output_tokens)
            extra = [
                0.0 if count is None else _believable(count) - estimate
                for count, estimate in zip(actual, self._cost, strict=True)
            ]
            self._grant.by.give_back(self._grant, extra)

    def __del__(self) -> None:
        if getattr(self, "_held", False):
            self.release()


def _checked_priority(priority: int) -> int:
    if isinstance(priority, int) and abs(priority) <= _HIGHEST_PRIORITY:
        return priority
    raise InvalidRequest(f"priority must be an integer from -1000 to 1000, got {priority!r}")


def _believable(tokens: float) -> float:
    """A valid count, whatever the vendor reported."""
    return float(min(tokens, MOST_TOKENS)) if tokens > 0 else 0.0
