"""Pacing: allowances refill, the first come goes first, and a cancelled waiter takes nothing."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstream.errors import InvalidRequest
from llmstream.transport.limiter import Permit, RateLimiter
from tests.examples import examples


class Handle:
    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake: Callable[[], None] | None = wake

    def cancel(self) -> None:
        self.wake = None


class VirtualTime:
    """A clock that moves when told, and timers on it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, int, Handle]] = []
        self._count = 0

    def clock(self) -> float:
        return self.now

    def call_later(self, seconds: float, wake: Callable[[], None]) -> Handle:
        self._count += 1
        handle = Handle(wake)
        heapq.heappush(self._timers, (self.now + seconds, self._count, handle))
        return handle

    async def run(self, seconds: float) -> None:
        """Lets so much time pass, every timer in its turn."""
        await settled()
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            due, _, handle = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            if handle.wake is not None:
                handle.wake()
                await settled()
        self.now = end
        await settled()

    @property
    def pending(self) -> int:
        return sum(handle.wake is not None for _, _, handle in self._timers)


async def settled() -> None:
    for _ in range(40):
        await asyncio.sleep(0)


def paced(time: VirtualTime, **limits: float | int) -> RateLimiter:
    return RateLimiter(clock=time.clock, call_later=time.call_later, **limits)  # type: ignore[arg-type]


async def test_an_allowance_refills_steadily() -> None:
    time = VirtualTime()
    limiter = paced(time, requests_per_minute=60)
    for _ in range(60):
        (await limiter.acquire()).release()
    went: list[float] = []

    async def go() -> None:
        (await limiter.acquire()).release()
        went.append(time.now)

    tasks = [asyncio.create_task(go()) for _ in range(3)]
    await time.run(10.0)
    assert went == pytest.approx([1.0, 2.0, 3.0])
    await asyncio.gather(*tasks)


async def test_first_come_first_served_any_size() -> None:
    time = VirtualTime()
    limiter = paced(time, tokens_per_minute=600)
    (await limiter.acquire(600)).release()
    order: list[str] = []

    async def go(name: str, tokens: float) -> None:
        (await limiter.acquire(tokens)).release()
        order.append(name)

    tasks = [asyncio.create_task(go("large", 500)), asyncio.create_task(go("small", 1))]
    await time.run(49.0)
    assert order == []
    await time.run(2.0)
    assert order == ["large", "small"]
    await asyncio.gather(*tasks)


async def test_oversized_request_waits_for_full() -> None:
    """It starts when the allowance is full."""
    time = VirtualTime()
    limiter = paced(time, tokens_per_minute=100)
    (await limiter.acquire(50)).release()
    task = asyncio.create_task(limiter.acquire(1000))
    await time.run(29.0)
    assert not task.done()
    await time.run(2.0)
    assert task.result().waited_s == pytest.approx(30.0)


async def test_usage_puts_the_estimate_right() -> None:
    time = VirtualTime()
    limiter = paced(time, tokens_per_minute=100)
    permit = await limiter.acquire(100)
    waiting = asyncio.create_task(limiter.acquire(60))
    await settled()
    assert not waiting.done()
    permit.release(40)
    permit.release(0)  # a second time does nothing
    await settled()
    assert waiting.done()


async def test_slot_is_free_after_the_response() -> None:
    limiter = RateLimiter(max_concurrent=1)
    first = await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await settled()
    assert (limiter.under_way, limiter.waiting) == (1, 1)
    first.release()
    (await waiting).release()
    assert (limiter.under_way, limiter.waiting) == (0, 0)


async def test_dropped_permit_is_released() -> None:
    limiter = RateLimiter(max_concurrent=1)
    permit = await limiter.acquire()
    del permit
    assert limiter.under_way == 0


async def test_a_vendor_that_says_less_is_believed() -> None:
    time = VirtualTime()
    limiter = paced(time, requests_per_minute=60)
    limiter.learn({"x-ratelimit-limit-requests": "30", "x-ratelimit-remaining-requests": "1"})
    (await limiter.acquire()).release()
    task = asyncio.create_task(limiter.acquire())
    await time.run(1.9)
    assert not task.done()
    await time.run(0.2)
    assert task.done()


async def test_exhausted_vendor_waits_for_reset() -> None:
    time = VirtualTime()
    limiter = paced(time, max_concurrent=9)
    limiter.learn({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6s"})
    task = asyncio.create_task(limiter.acquire())
    await time.run(5.9)
    assert not task.done()
    await time.run(0.2)
    assert task.done()


async def test_pause_holds_waiters_up_to_a_minute() -> None:
    time = VirtualTime()
    limiter = paced(time, requests_per_minute=1)
    (await limiter.acquire()).release()
    task = asyncio.create_task(limiter.acquire())
    await time.run(30.0)
    limiter.pause(86400.0)
    await time.run(59.0)
    assert not task.done()
    await time.run(2.0)
    assert task.done()


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute", "max_concurrent"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_limit_that_admits_nobody_is_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidRequest, match=name):
        RateLimiter(**{name: value})  # type: ignore[arg-type]


def test_two_loops_in_two_threads_share_one() -> None:
    limiter = RateLimiter(max_concurrent=1)
    most = [0]

    async def work() -> None:
        async def one() -> None:
            permit = await limiter.acquire()
            most[0] = max(most[0], limiter.under_way)
            await asyncio.sleep(0)
            permit.release()

        async with asyncio.timeout(10):
            await asyncio.gather(*(one() for _ in range(50)))

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
    assert most == [1]
    assert (limiter.under_way, limiter.waiting) == (0, 0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.floats(0, 300)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("release"), st.integers(0, 30)),
        st.tuples(st.just("wake and cancel"), st.integers(0, 30)),
        st.tuples(st.just("pass"), st.floats(0, 40)),
        st.tuples(st.just("pause"), st.floats(0, 90)),
    ),
    max_size=40,
)


@settings(max_examples=examples(120), deadline=None)
@given(STEPS)
def test_nothing_leaks_and_order_holds(steps: list[tuple[str, float]]) -> None:
    asyncio.run(lived(steps))


async def lived(steps: list[tuple[str, float]]) -> None:
    """One life of a limiter: never too many at once nor in any stretch of time, and nothing left over."""
    time = VirtualTime()
    limiter = paced(time, requests_per_minute=20, tokens_per_minute=200, max_concurrent=3)
    tasks: list[asyncio.Task[Permit]] = []
    went: list[tuple[int, float]] = []

    async def come(number: int, tokens: float) -> Permit:
        permit = await limiter.acquire(tokens)
        went.append((number, time.now))
        return permit

    def held() -> list[Permit]:
        done = [task for task in tasks if task.done() and not task.cancelled()]
        return [permit for task in done if (permit := task.result())._held]

    for what, amount in steps:
        if what == "come":
            tasks.append(asyncio.create_task(come(len(tasks), amount)))
        elif what == "pass":
            await time.run(amount)
        elif what == "pause":
            limiter.pause(amount)
        elif what == "release":
            for permit in held()[int(amount) :][:1]:
                permit.release(amount * 3)
        else:
            if what == "wake and cancel" and held():
                held()[0].release()  # the one in front is woken, and cancelled before it runs
            for task in tasks[int(amount) :][:1]:
                task.cancel()
        await settled()
        assert limiter.under_way == len(held()) <= 3
        assert limiter.waiting == sum(not task.done() for task in tasks)

    for _ in range(len(tasks) + 1):  # whoever is still there gets a turn within a bounded time
        for permit in held():
            permit.release()
        await time.run(400.0)
    for permit in held():
        permit.release()
    assert all(task.done() for task in tasks)
    assert [number for number, _ in went] == sorted(number for number, _ in went)
    moments = [moment for _, moment in went]
    for first, moment in enumerate(moments):
        for last in range(first, len(moments)):
            assert last - first + 1 <= 20 + (moments[last] - moment) / 3 + 1e-6
    assert (limiter.under_way, limiter.waiting, time.pending) == (0, 0, 0)


async def test_vendor_debt_is_a_minute_at_most() -> None:
    time = VirtualTime()
    limiter = RateLimiter(tokens_per_minute=600, clock=time.clock, call_later=time.call_later)
    (await limiter.acquire(10)).release(10**400)
    waiting = asyncio.ensure_future(limiter.acquire(10))
    await time.run(60.9)
    assert not waiting.done()
    await time.run(1.2)
    assert waiting.done()
    waiting.result().release(float("nan"))


async def test_own_debt_is_paid_to_the_end() -> None:
    """A request that was larger than the allowance: its estimate is the caller's, and stands."""
    time = VirtualTime()
    limiter = RateLimiter(tokens_per_minute=600, clock=time.clock, call_later=time.call_later)
    (await limiter.acquire(3000)).release(3000)
    waiting = asyncio.ensure_future(limiter.acquire(10))
    await time.run(239.0)
    assert not waiting.done()
    await time.run(3.0)
    assert waiting.done()
    waiting.result().release()


async def test_a_higher_priority_goes_first() -> None:
    time = VirtualTime()
    limiter = paced(time, requests_per_minute=60, max_concurrent=1)
    permit = await limiter.acquire()
    order: list[int] = []

    async def go(priority: int) -> None:
        turn = await limiter.acquire(priority=priority)
        order.append(priority)
        turn.release()

    tasks = [asyncio.create_task(go(priority)) for priority in (-1, 0, 2, 1)]
    await settled()
    permit.release()
    await time.run(10.0)
    await asyncio.gather(*tasks)
    assert order == [2, 1, 0, -1]


async def test_input_and_output_count_apart() -> None:
    time = VirtualTime()
    limiter = paced(time, input_tokens_per_minute=6000, output_tokens_per_minute=600)
    permit = await limiter.acquire(input_tokens=100, output_tokens=600)
    waiting = asyncio.create_task(limiter.acquire(input_tokens=100, output_tokens=60))
    await time.run(5.0)
    assert not waiting.done()
    permit.release(110, input_tokens=100, output_tokens=10)
    await settled()
    assert waiting.done()
    (await waiting).release()


async def test_unexplained_refusals_cut_the_sizes() -> None:
    """Once for all that went before; and they grow back."""
    time = VirtualTime()
    limiter = paced(time, requests_per_minute=100)
    first, second = await limiter.acquire(), await limiter.acquire()
    time.now = 1.0
    limiter.refused(first)
    limiter.refused(second)
    assert limiter._pacer.levels[0] == pytest.approx(70.0)  # type: ignore[union-attr]
    time.now = 121.0
    assert limiter._pacer.levels[0] == pytest.approx(80.0, abs=0.2)  # type: ignore[union-attr]
    first.release()
    second.release()


@pytest.mark.parametrize(
    "headers", [{}, {"x-ratelimit-remaining-requests": "0"}], ids=["ours", "the vendor's"]
)
async def test_explained_refusals_cut_nothing(headers: dict[str, str]) -> None:
    time = VirtualTime()
    limiter = paced(time, requests_per_minute=10)
    permits = [await limiter.acquire() for _ in range(1 if headers else 10)]
    limiter.refused(permits[-1], headers)
    time.now = 60.0
    assert limiter._pacer.levels[0] == 10.0  # type: ignore[union-attr]


async def test_an_old_header_counts_later_grants() -> None:
    time = VirtualTime()
    limiter = paced(time, requests_per_minute=60)
    first = await limiter.acquire()
    later = [await limiter.acquire() for _ in range(10)]
    limiter.learn({"x-ratelimit-remaining-requests": "30"}, first)
    assert limiter._pacer.levels[0] == pytest.approx(20.0)  # type: ignore[union-attr]
    assert len(later) == 10
