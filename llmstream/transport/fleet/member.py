"""One event loop's part in a shared limiter: its waiters, its permits, and its calls to the store.

Operations that the loop's tasks add during a round trip go in one batch with the next one, so that a thousand
waiters cost no more round trips than grants. A waiter sleeps until the time that the store has estimated, or
until the store reports freed capacity, and then requests again: the vendor may have paused all requests in
the meantime.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from llmstream.errors import LimitsUnavailable
from llmstream.transport.fleet.rules import (
    Answer,
    Ask,
    Batch,
    Beat,
    Bye,
    Cancel,
    Cap,
    Learn,
    Op,
    Pause,
    Refused,
    Release,
)
from llmstream.transport.pacing import (
    KINDS,
    Cost,
    Grant,
    Pacer,
    RateState,
    Sizes,
    report_cut,
    unmodelled_pause_s,
)

__all__ = ["LimitStore", "Member", "OnLoss"]

_log: Final = logging.getLogger("llmstream")

OnLoss = Literal["local", "raise"]

# Largest batch: a store serves other members between two batches.
_MAX_OPS: Final = 200

# Operations without a waiter go with the next batch, or after this time.
_LINGER_S: Final = 0.05

# The same while a local request waits: the next round trip includes them.
_LINGER_BEHIND_S: Final = 0.2

# Interval of contact while there are waiters: messages that wake them may be lost.
_CONTACT_S: Final = 1.0

# Between attempts to reconnect to an unreachable store.
_RETRY_S: Final = 0.5

# Requests due within this time go in one batch.
_EARLY_S: Final = 0.002


class LimitStore(Protocol):
    """Where the state of a shared limiter is: `SQLiteLimits` or `RedisLimits`."""

    async def apply(self, batch: Batch) -> Answer:
        """Applies a batch atomically, as `rules.apply` does.

        raises: LimitsUnavailable; it is unknown then whether the batch was applied
        """

    async def listen(self, woken: Callable[[list[str]], None]) -> None:
        """Reports waiters woken by the batches of other members, until cancelled. Reports may be lost."""

    async def aclose(self) -> None:
        """Closes it."""


class _Waiter:
    """One `acquire`; `turn` is its grant, or None if the store became unreachable."""

    __slots__ = ("arrived", "asked", "cost", "denied", "due", "id", "priority", "turn", "woken")

    def __init__(
        self, id: str, cost: Cost, priority: int, arrived: float, turn: asyncio.Future[Grant | None]
    ) -> None:
        self.id, self.cost, self.priority, self.arrived, self.turn = id, cost, priority, arrived, turn
        self.asked = True  # an Ask has been sent
        self.woken = False  # while it was in flight
        self.denied = False
        self.due = math.inf


class Member:
    """Client of a shared limiter for one event loop.

    open_store: opens the store
    sizes:      the configured limits, which should be the same in all processes
    lease_s:    a place of a dead process is freed after this time
    """

    def __init__(
        self, open_store: Callable[[], LimitStore], sizes: Sizes, *, on_loss: OnLoss, lease_s: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._store = open_store()
        self._sizes, self._on_loss, self._lease_s = sizes, on_loss, lease_s
        self._name = _new_name()
        self._number = 0
        self._ops: deque[tuple[Op, Callable[[float], None] | None]] = deque()
        self._waiters: dict[str, _Waiter] = {}
        self._dues: list[tuple[float, str]] = []
        self._denied = Counter[int]()  # waiters that the store has put in the queue, by priority
        self._held: set[str] = set()
        self._inner: dict[str, Grant] = {}  # permits of the local limiter, while the store is unreachable
        self._local: Pacer | None = None
        self._regained: asyncio.Future[None] | None = None
        self._last: Answer | None = None
        self._lost_name = ""
        self._members = 1
        self._in_line = False  # the store knows that this process has waiters
        self._kick = asyncio.Event()
        self._urgent = False
        self._ops_since = 0.0
        self._contacted = self._renewed = self._loop.time()
        self._closing = False
        self.trips = 0
        self._tasks = [self._task(self._run()), self._task(self._store.listen(self._wake_waiters))]

    @property
    def under_way(self) -> int:
        """The number of unreleased permits of this member."""
        return len(self._held)

    @property
    def waiting(self) -> int:
        """The number of waiting requests of this member."""
        return len(self._waiters) + (self._local.waiting if self._local is not None else 0)

    async def acquire(self, cost: Cost, priority: int) -> Grant:
        """Waits for a permit; a cancelled waiter returns what it was granted.

        raises: LimitsUnavailable if `on_loss` is "raise"
        """
        arrived = self._loop.time()
        while True:
            if self._closing:
                raise _closed()
            if self._local is None:
                grant = await self._acquire_shared(cost, priority, arrived)
            else:
                grant = await self._acquire_local(self._local, cost, priority, arrived)
            if grant is not None:
                return grant

    async def _acquire_shared(self, cost: Cost, priority: int, arrived: float) -> Grant | None:
        waiter = _Waiter(self._new_id(), cost, priority, arrived, self._loop.create_future())
        self._waiters[waiter.id] = waiter
        # Not urgent behind another local waiter.
        urgent = not any(count and rank >= priority for rank, count in self._denied.items())
        self._send(Ask(waiter.id, list(cost), priority, False), self._answered(waiter), urgent=urgent)
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            turn = waiter.turn
            if not turn.cancelled() and turn.done() and turn.exception() is None:
                if grant := turn.result():  # granted at the same moment
                    self.give_back(grant, [-amount for amount in cost])
            elif self._remove(waiter):
                self._send(Cancel(waiter.id))
            raise

    def _answered(self, waiter: _Waiter) -> Callable[[float], None]:
        def answered(wait_s: float) -> None:
            answer = self._last
            assert answer is not None  # granted meanwhile
            waiter.asked = False
            if wait_s < 0:
                self._granted(waiter, answer)
            elif waiter.id not in self._waiters:  # cancelled
                return
            elif waiter.woken:  # by an event after the store had checked
                self._is_due(waiter, self._loop.time())
            elif wait_s < 1e18:
                self._is_due(waiter, self._loop.time() + wait_s)
            if not waiter.denied and waiter.id in self._waiters:
                waiter.denied = True
                self._denied[waiter.priority] += 1

        return answered

    def _granted(self, waiter: _Waiter, answer: Answer) -> None:
        # Cancelled while the reply arrived; its task may not have run since.
        if not self._remove(waiter) or waiter.turn.cancelled():
            self._send(Release(waiter.id, [-amount for amount in waiter.cost]))
            return
        self._held.add(waiter.id)
        waited_s = self._loop.time() - waiter.arrived
        waiter.turn.set_result(Grant(self, waited_s, waiter.id, answer.spent, answer.now))

    def _remove(self, waiter: _Waiter) -> bool:
        self._denied[waiter.priority] -= waiter.denied
        waiter.denied = False
        return self._waiters.pop(waiter.id, None) is not None

    def _new_id(self) -> str:
        self._number += 1
        return f"{self._name}.{self._number}"

    def _is_due(self, waiter: _Waiter, due: float) -> None:
        waiter.due = due
        heapq.heappush(self._dues, (due, waiter.id))
        self._kick.set()

    # Operations without a waiter. Permits may be released in any thread, also after the loop has ended.

    def give_back(self, grant: Grant, extra: Sequence[float]) -> None:
        """Frees the permit of a response; `extra` is its cost beyond the estimate."""
        self._in_loop(self._release_place, grant.id, list(extra))

    def learn(self, states: Mapping[str, RateState], grant: Grant | None) -> None:
        """Lowers the buckets to what the vendor reports, less the grants since the request was sent."""
        self._in_loop(self._learn, dict(states), grant)

    def pause(self, seconds: float) -> None:
        """Pauses the requests of all processes for this time, at most a minute."""
        self._in_loop(self._pause, seconds)

    def refused(self, grant: Grant | None, used_up: int) -> None:
        """Reduces all bucket sizes after a 429, unless an empty bucket explains it."""
        self._in_loop(self._refused, grant, used_up)

    def close_soon(self) -> None:
        """Disconnects from the store, from any thread."""
        self._in_loop(self._close)

    def _in_loop(self, work: Callable[..., None], *given: Any) -> None:
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            work(*given)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed; the leases expire
                self._loop.call_soon_threadsafe(work, *given)

    def _release_place(self, id: str, extra: list[float]) -> None:
        self._held.discard(id)
        inner = self._inner.pop(id, None)
        if self._local is not None and inner is not None:
            self._local.give_back(inner, extra)
        self._send(Release(id, extra), urgent=self._sizes.places > 0)

    def _learn(self, states: dict[str, RateState], grant: Grant | None) -> None:
        if self._local is not None:
            self._local.learn(states, None)
            return
        found = [states.get(kind, RateState()) for kind in KINDS]
        limits = [-1.0 if state.limit is None else state.limit for state in found]
        remaining = [-1.0 if state.remaining is None else state.remaining for state in found]
        spent, at = (grant.spent, grant.at) if grant is not None else ([], 0.0)
        self._send(Learn(limits, remaining, spent, at))
        pause_s = unmodelled_pause_s(states, [amount > 0 for amount in self._sizes.amounts])
        if pause_s:
            self._send(Pause(pause_s), urgent=True)

    def _pause(self, seconds: float) -> None:
        if self._local is not None:
            self._local.pause(seconds)
        self._send(Pause(seconds), urgent=True)

    def _refused(self, grant: Grant | None, used_up: int) -> None:
        if self._local is not None:
            self._local.refused(None, used_up)
        at = grant.at if grant is not None else math.inf
        self._send(Refused(min(at, 1e18), used_up), _cut, urgent=True)

    def _send(
        self, op: Op, on_result: Callable[[float], None] | None = None, *, urgent: bool | None = None
    ) -> None:
        if self._closing or (self._local is not None and not isinstance(op, Release)):
            return
        if not self._ops:
            self._ops_since = self._loop.time()
        self._ops.append((op, on_result))
        self._urgent |= isinstance(op, Ask | Cancel) if urgent is None else urgent
        self._kick.set()

    # Round trips to the store.

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._loop.create_task(work, name="llmstream-limits")

    async def _run(self) -> None:
        """Sends batches while there are operations; disconnects at the end of the loop."""
        task = asyncio.current_task()
        assert task is not None
        try:
            # redis-py swallows a cancellation while it connects, so check for one here too.
            while not (self._closing or task.cancelling()):
                await self._sleep()
                self._ask_again()
                self._beat()
                while self._ops and not (self._closing or task.cancelling()):
                    await self._round_trip()
        finally:
            await self._leave()

    async def _sleep(self) -> None:
        """Waits for work: an operation, a request that is due, or a renewal."""
        await asyncio.sleep(0)  # all ready tasks may add their operations
        while not self._closing:
            self._kick.clear()
            sleep_s = self._next_round_trip() - self._loop.time()
            if sleep_s <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(sleep_s):
                    await self._kick.wait()

    def _next_round_trip(self) -> float:
        while self._dues and self._is_stale(*self._dues[0]):
            heapq.heappop(self._dues)
        due = self._dues[0][0] if self._dues else math.inf
        if self._local is not None:  # the store is unreachable: one attempt per interval
            return self._contacted + _RETRY_S
        if self._ops:
            linger_s = _LINGER_BEHIND_S if self._denied.total() else _LINGER_S
            due = min(due, self._ops_since + (0.0 if self._urgent else linger_s))
        return min(due, self._next_contact(), self._next_renewal())

    def _is_stale(self, due: float, id: str) -> bool:
        waiter = self._waiters.get(id)
        return waiter is None or waiter.due != due

    def _next_contact(self) -> float:
        """When this process must contact the store again; sooner if it has waiters."""
        if self._waiters:
            return self._contacted + min(_CONTACT_S, self._lease_s / 30)
        return self._contacted + min(10 * _CONTACT_S, self._lease_s / 3)

    def _next_renewal(self) -> float:
        return self._renewed + self._lease_s / 3 if self._held and self._sizes.places else math.inf

    def _beat(self) -> None:
        """Renews the leases, or reports that this process is alive."""
        now = self._loop.time()
        if now >= self._next_renewal():
            self._ops.appendleft((Beat(sorted(self._held)), None))
            self._renewed = now
        elif not self._ops and now >= min(self._next_contact(), self._next_round_trip()):
            self._ops.append((Beat([]), None))

    def _ask_again(self) -> None:
        now = self._loop.time() + _EARLY_S
        while self._dues and (self._dues[0][0] <= now or self._is_stale(*self._dues[0])):
            due, id = heapq.heappop(self._dues)
            if not self._is_stale(due, id):
                self._ask(self._waiters[id])

    def _ask(self, waiter: _Waiter) -> None:
        if not waiter.asked:
            waiter.asked, waiter.woken, waiter.due = True, False, math.inf
            ask = Ask(waiter.id, list(waiter.cost), waiter.priority, True)
            self._ops.append((ask, self._answered(waiter)))

    def _wake_waiters(self, woken: list[str]) -> None:
        for id in woken:
            if waiter := self._waiters.get(id):
                waiter.woken = True
                self._is_due(waiter, self._loop.time())

    async def _round_trip(self) -> None:
        sent = [self._ops.popleft() for _ in range(min(_MAX_OPS, len(self._ops)))]
        self._urgent = self._urgent and bool(self._ops)
        self._contacted = self._loop.time()
        self.trips += 1
        batch = Batch(
            self._name,
            bool(self._waiters),
            list(self._sizes.amounts),
            self._sizes.places,
            self._lease_s,
            [op for op, _ in sent],
        )
        try:
            answer = await self._store.apply(batch)
        except LimitsUnavailable as error:
            self._lose(error, sent)
            return
        before, self._last = self._last, answer
        was_in_line, self._in_line = self._in_line, batch.waiting
        self._members = max(1, answer.members)
        if self._local is not None:
            self._regain(self._local)
        elif before is not None and before.created != answer.created:
            self._restore([_refilled(before, answer, self._sizes, kind) for kind in range(4)])
        elif was_in_line and not answer.in_line:
            # After a blocked loop or a suspended machine, the other processes considered this one dead and
            # removed its waiters from the queue. No message would wake them.
            self._all_are_due()
        for (_, on_result), result in zip(sent, answer.results, strict=True):
            if on_result is not None:
                on_result(result)
        self._wake_waiters(answer.woken)

    async def _leave(self) -> None:
        """Frees places and grants at once; if the store does not respond, their leases expire."""
        self._closing = True
        for waiter in self._waiters.values():
            if not waiter.turn.done():
                waiter.turn.set_exception(_closed())
                waiter.turn.exception()  # there may be no reader left
        with contextlib.suppress(Exception, asyncio.CancelledError):
            if self._local is None and self._last is not None:
                batch = Batch(
                    self._name,
                    False,
                    list(self._sizes.amounts),
                    self._sizes.places,
                    self._lease_s,
                    [Bye(self._name)],
                )
                async with asyncio.timeout(0.5):
                    await self._store.apply(batch)
        await self._store.aclose()

    async def aclose(self) -> None:
        """Disconnects, and waits until the store is closed."""
        self._close()
        await asyncio.wait(self._tasks)

    def _close(self) -> None:
        self._closing = True
        self._kick.set()
        self._tasks[1].cancel()

    # The store becomes unreachable, and reachable again.

    def _lose(
        self, error: LimitsUnavailable, sent: Sequence[tuple[Op, Callable[[float], None] | None]]
    ) -> None:
        """Continues locally with a share of the limits, or fails all waiting requests."""
        waiters, self._waiters = list(self._waiters.values()), {}
        self._in_line = False
        self._denied.clear()
        for waiter in waiters:
            waiter.denied = False
        self._dues.clear()
        # Unacknowledged operations may or may not have been applied. Corrections are repeated only if they
        # were not yet sent; the effect of the others is in the bucket levels.
        self._ops = deque(item for item in self._ops if isinstance(item[0], Release))
        if self._local is not None:
            return
        # Requests sent under the old member id are dropped from the queue after a silence.
        self._lost_name, self._name = self._name, _new_name()
        if self._on_loss == "raise":
            for waiter in waiters:
                if not waiter.turn.done():
                    waiter.turn.set_exception(error)
            return
        _log.warning("%s Meanwhile this process keeps to 1/%d of the limits.", error, self._members)
        self._regained = self._loop.create_future()
        self._local = self._make_local()
        for waiter in sorted(waiters, key=lambda waiter: -waiter.priority):
            if not waiter.turn.done():
                # None means no grant: `acquire` continues with the local limiter.
                waiter.turn.set_result(None)

    def _make_local(self) -> Pacer:
        local = Pacer(self._sizes.share(self._members))
        if self._last is not None:
            local.cap([level / self._members for level in self._last.levels])
        self._inner = {id: local.take_place() for id in self._held}
        return local

    async def _acquire_local(self, local: Pacer, cost: Cost, priority: int, arrived: float) -> Grant | None:
        """A permit of the local limiter; None if the store is reachable again before that."""
        assert self._regained is not None  # while there is a local limiter
        own = self._loop.create_task(local.acquire(cost, priority))
        try:
            futures: set[asyncio.Future[Any]] = {own, self._regained}
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if own.done():
                local.give_back(own.result(), [-amount for amount in cost])
            raise
        finally:
            own.cancel()
        if not own.done():
            return None
        grant = Grant(self, self._loop.time() - arrived, self._new_id())
        self._held.add(grant.id)
        self._inner[grant.id] = own.result()
        return grant

    def _regain(self, local: Pacer) -> None:
        assert self._regained is not None  # as above
        _log.warning("the shared limits can be used again")
        self._local = None
        self._regained.set_result(None)
        self._restore([level * self._members for level in local.levels])

    def _restore(self, levels: Sequence[float]) -> None:
        """Updates a store that was unreachable: upper bounds of the bucket levels, and the places in use."""
        self._inner = {}
        caps = [level if size else -1e18 for level, size in zip(levels, self._sizes.amounts, strict=True)]
        self._ops.appendleft((Cap(caps), None))
        if self._held and self._sizes.places:
            self._ops.appendleft((Beat(sorted(self._held)), None))
        if self._lost_name:
            self._ops.appendleft((Bye(self._lost_name), None))
            self._lost_name = ""
        self._all_are_due()

    def _all_are_due(self) -> None:
        for waiter in self._waiters.values():
            self._is_due(waiter, self._loop.time())


def _refilled(before: Answer, after: Answer, sizes: Sizes, kind: int) -> float:
    """The current level as far as this process knows, from the time between two replies."""
    size = sizes.amounts[kind]
    return min(size, before.levels[kind] + max(0.0, after.now - before.now) * size / 60)


def _cut(factor: float) -> None:
    if factor:
        report_cut(factor)


def _closed() -> LimitsUnavailable:
    return LimitsUnavailable("the limiter was closed. Make a new one.", retryable=False)


def _new_name() -> str:
    return f"{os.getpid():x}-{os.urandom(6).hex()}"
