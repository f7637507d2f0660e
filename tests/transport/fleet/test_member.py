"""Limiters that share limits, each as a process of its own would: over an SQLite file and over Redis."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import llmstream as ls
from llmstream.errors import InvalidRequest, LimitsUnavailable, Unsupported
from llmstream.transport.fleet import Fleet
from llmstream.transport.fleet.member import Member
from llmstream.transport.fleet.rules import Answer, Ask, Batch
from llmstream.transport.limiter import Permit, RateLimiter

Make = Callable[..., RateLimiter]
PATIENCE_S = 30.0


@pytest.fixture
async def make(shared: str) -> AsyncIterator[Make]:
    """Makes limiters that share one name."""
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        made = list[RateLimiter]()

        def make(**limits: Any) -> RateLimiter:
            made.append(RateLimiter(shared=shared, name="vendor", **limits))
            stack.push_async_callback(made[-1].aclose)
            return made[-1]

        yield make


def member_of(limiter: RateLimiter) -> Member:
    assert isinstance(limiter._pacer, Fleet)
    (member,) = limiter._pacer.members
    return member


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def known(limiter: RateLimiter) -> bool:
    """Whether the store knows all that was said, so that nothing is on its way."""
    member = member_of(limiter)
    return not member._ops and all(waiter.denied for waiter in member._waiters.values())


async def test_two_share_one_allowance(make: Make) -> None:
    """600 at once and 10 a second, for both together; a slow machine may wait less for the last three."""
    began = time.monotonic()
    one, two = make(requests_per_minute=600), make(requests_per_minute=600)
    permits = await asyncio.gather(*(one.acquire() for _ in range(590)), *(two.acquire() for _ in range(10)))
    assert max(permit.waited_s for permit in permits) < 5.0
    for _ in range(3):
        await two.acquire()
    assert time.monotonic() - began > 0.25


async def test_arrival_decides_over_processes(make: Make) -> None:
    one, two = make(max_concurrent=1), make(max_concurrent=1)
    permit = await one.acquire()
    order = list[str]()

    async def go(limiter: RateLimiter, name: str, priority: int = 0) -> None:
        turn = await limiter.acquire(priority=priority)
        order.append(name)
        turn.release()

    tasks = list[asyncio.Task[None]]()
    for limiter, name, priority in [
        (two, "1", 0),
        (one, "2", 0),
        (two, "first", 5),
        (one, "last", -5),
        (two, "3", 0),
    ]:
        tasks.append(asyncio.create_task(go(limiter, name, priority)))
        await until(
            lambda: one.waiting + two.waiting == len(tasks) and known(one) and (len(tasks) < 1 or known(two))
        )
    permit.release()
    await asyncio.gather(*tasks)
    assert order == ["first", "1", "2", "3", "last"]
    assert (one.under_way, one.waiting, two.under_way, two.waiting) == (0, 0, 0, 0)


async def test_cancelled_waiters_take_nothing(make: Make) -> None:
    """At any moment: before the store knows of them, while they wait, and when their turn comes."""
    one, two = make(max_concurrent=2), make(max_concurrent=2)
    held = [await one.acquire(), await two.acquire()]
    tasks = [asyncio.create_task(limiter.acquire()) for limiter in (one, two) for _ in range(20)]
    for turn, task in enumerate(tasks):
        if turn == 10:
            held.pop().release()
        if turn == 20:
            held.pop().release()
        await asyncio.sleep(0.0005 * turn)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled():
            task.result().release()
    both = await asyncio.gather(one.acquire(), two.acquire())
    assert [permit.limiter for permit in both] == [one, two]


async def test_cancelled_in_the_turn_of_the_grant(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task of the waiter has not run since, when the answer of the store is read."""
    one = make(max_concurrent=2)
    (await one.acquire()).release()
    store, tasks = member_of(one)._store, list[asyncio.Task[Any]]()
    apply = store.apply

    async def applied(batch: Batch) -> Answer:
        answer = await apply(batch)
        if any(isinstance(op, Ask) for op in batch.ops):
            for task in tasks:
                task.cancel()
        return answer

    monkeypatch.setattr(store, "apply", applied)
    tasks.append(asyncio.create_task(one.acquire()))
    await asyncio.wait(tasks)
    assert tasks.pop().cancelled()
    both = [await one.acquire(), await one.acquire()]
    assert [permit.limiter for permit in both] == [one, one]


async def test_a_pause_reaches_all(make: Make) -> None:
    one, two = make(requests_per_minute=6000), make(requests_per_minute=6000)
    (await one.acquire()).release()
    start = time.monotonic()
    one.pause(0.4)
    await until(lambda: known(one))
    await two.acquire()
    assert time.monotonic() - start > 0.35


async def test_headers_reach_all(make: Make) -> None:
    one, two = make(requests_per_minute=600), make(requests_per_minute=600)
    permit = await one.acquire()
    one.learn({"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "1"}, permit)
    await until(lambda: known(one))
    permits = [await two.acquire() for _ in range(4)]
    assert sum(permit.waited_s for permit in permits) > 0.2


async def test_refunds_go_to_those_who_wait(make: Make) -> None:
    one, two = make(tokens_per_minute=1000), make(tokens_per_minute=1000)
    permit = await one.acquire(1000)
    waiting = asyncio.create_task(two.acquire(900))  # for 54 s, as it seems
    await until(lambda: two.waiting == 1 and known(two))
    permit.release(10)
    assert (await waiting).waited_s < PATIENCE_S


async def test_refusals_shrink_the_limits(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    one = make(requests_per_minute=600)
    permit = await one.acquire()
    with caplog.at_level(logging.WARNING, "llmstream"):
        one.refused(permit, {"x-ratelimit-remaining-requests": "400"})
        await until(lambda: "70 % of its limits" in caplog.text)
    one.refused(permit)  # it went before the cut
    (await one.acquire()).release()
    await until(lambda: known(one))
    assert caplog.text.count("was refused") == 1


async def test_a_permit_is_released_anywhere(make: Make) -> None:
    """In a thread, by the garbage collector, and twice."""
    one = make(max_concurrent=3)
    first, second, third = [await one.acquire() for _ in range(3)]
    thread = threading.Thread(target=first.release)
    thread.start()
    thread.join()
    del second
    third.release()
    third.release()
    for permit in [await one.acquire() for _ in range(3)]:
        permit.release()
    assert one.under_way == 0


def test_loops_in_threads_share_places(shared: str) -> None:
    limiter = RateLimiter(shared=shared, name="threads", max_concurrent=1)
    most = [0]

    async def work() -> None:
        async def one() -> None:
            permit = await limiter.acquire()
            most[0] = max(most[0], limiter.under_way)
            await asyncio.sleep(0)
            permit.release()

        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(one() for _ in range(20)))

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
    assert most == [1]
    assert (limiter.under_way, limiter.waiting) == (0, 0)


def test_the_end_of_a_loop_frees_places(shared: str) -> None:
    """Not after the lease: what is left at the end says so."""

    async def leave() -> Permit:
        limiter = RateLimiter(shared=shared, name="left", max_concurrent=1, lease_s=3600)
        return await limiter.acquire()

    kept = asyncio.run(leave())
    assert asyncio.run(leave()).waited_s < PATIENCE_S
    kept.release()


async def test_a_closed_limiter_says_so(make: Make) -> None:
    one = make(max_concurrent=1)
    held = await one.acquire()
    waiting = asyncio.create_task(one.acquire())
    await until(lambda: one.waiting == 1)
    await one.aclose()
    held.release()
    for attempt in (waiting, one.acquire()):
        with pytest.raises(LimitsUnavailable, match="was closed"):
            await attempt


async def test_leases_are_renewed(make: Make) -> None:
    one, two = make(max_concurrent=1, lease_s=0.6), make(max_concurrent=1, lease_s=0.6)
    permit = await one.acquire()
    waiting = asyncio.create_task(two.acquire())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await asyncio.shield(waiting)
    permit.release()
    await waiting


async def test_a_stalled_process_asks_again(make: Make) -> None:
    """The others take a silent process for dead, and its waiters out of the line."""
    one, two = make(max_concurrent=1, lease_s=0.5), make(max_concurrent=1, lease_s=0.5)
    permit = await one.acquire()
    waiting = [asyncio.create_task(limiter.acquire()) for limiter in (two, one)]
    await until(lambda: one.waiting == two.waiting == 1 and known(one) and known(two))
    store = member_of(two)._store
    apply, stalled = store.apply, asyncio.Event()

    async def stall(batch: Batch) -> Answer:
        await stalled.wait()
        return await apply(batch)

    store.apply = stall  # type: ignore[method-assign]
    await asyncio.sleep(0.2)  # longer than the silence after which a process counts as dead
    stalled.set()
    permit.release()
    async with asyncio.timeout(PATIENCE_S):
        for done in asyncio.as_completed(waiting):
            (await done).release()


async def test_a_thousand_waiters_do_not_poll(make: Make) -> None:
    fleet = [make(requests_per_minute=6000, max_concurrent=20) for _ in range(4)]
    granted = 0

    async def one(limiter: RateLimiter) -> None:
        nonlocal granted
        permit = await limiter.acquire()
        granted += 1
        await asyncio.sleep(0.02)
        permit.release()

    tasks = [asyncio.create_task(one(limiter)) for limiter in fleet for _ in range(250)]
    await until(lambda: granted > 50)
    before, trips = granted, sum(member_of(limiter).trips for limiter in fleet)
    await until(lambda: granted > 250)
    spent = sum(member_of(limiter).trips for limiter in fleet) - trips
    assert spent <= 2 * (granted - before)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# The store is away.


@pytest.mark.parametrize("how", ["killed", pytest.param("stopped", marks=pytest.mark.slow)])
async def test_a_lost_store_leaves_a_share(
    make_redis: Any, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Half of the limits for each of two, who meet again when it is back."""
    redis = make_redis()
    with caplog.at_level(logging.WARNING, "llmstream"):
        async with asyncio.timeout(PATIENCE_S), contextlib.AsyncExitStack() as stack:
            fleet = [
                await stack.enter_async_context(
                    RateLimiter(shared=redis.url, name="lost", max_concurrent=4, lease_s=3)
                )
                for _ in range(2)
            ]
            held = [await limiter.acquire() for limiter in fleet]
            (await fleet[0].acquire()).release()  # it has heard of the other
            redis.kill() if how == "killed" else redis.send(signal.SIGSTOP)
            more = await asyncio.gather(*(limiter.acquire() for limiter in fleet))
            waiting = [asyncio.create_task(limiter.acquire()) for limiter in fleet]
            await until(lambda: all(member_of(limiter)._local is not None for limiter in fleet))
            assert [limiter.under_way for limiter in fleet] == [2, 2]
            assert caplog.text.count("keeps to 1/2 of the limits") == 2
            redis.start() if how == "killed" else redis.send(signal.SIGCONT)
            await until(lambda: all(member_of(limiter)._local is None for limiter in fleet))
            await until(lambda: all(member._last.members >= 2 for member in map(member_of, fleet)))  # type: ignore[union-attr]
            held[0].release()
            more[0].release()
            for permit in await asyncio.gather(*waiting):
                permit.release()


async def test_a_lost_store_may_be_an_error(make_redis: Any) -> None:
    redis = make_redis()
    async with RateLimiter(shared=redis.url, name="lost", max_concurrent=1, on_loss="raise") as limiter:
        permit = await limiter.acquire()
        waiting = asyncio.create_task(limiter.acquire())
        await until(lambda: limiter.waiting == 1 and known(limiter))
        redis.kill()
        for attempt in (limiter.acquire(), waiting):
            with pytest.raises(LimitsUnavailable, match=r"redis.sock cannot be used"):
                await attempt
        redis.start()
        permit.release()
        async with asyncio.timeout(PATIENCE_S):
            (await limiter.acquire()).release()


async def test_a_forgetful_store_is_reminded(make_redis: Any) -> None:
    """A server that was restarted at once, without its data: levels and places are those of before."""
    redis = make_redis()
    limits: dict[str, Any] = {"requests_per_minute": 60, "max_concurrent": 100, "lease_s": 3}
    async with RateLimiter(shared=redis.url, name="lost", **limits) as limiter:
        held = await asyncio.gather(*(limiter.acquire() for _ in range(60)))
        waiting = [asyncio.create_task(limiter.acquire()) for _ in range(20)]
        await until(lambda: limiter.waiting == 20 and known(limiter))
        redis.kill()
        redis.start()
        member = member_of(limiter)
        created = member._last.created  # type: ignore[union-attr]
        await until(lambda: member._last.created != created)  # type: ignore[union-attr]
        await until(lambda: member._last.levels[0] < 20)  # type: ignore[union-attr]  # and not full, as new ones
        await until(lambda: known(limiter))
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for permit in held:
            permit.release()


# What it needs, and what it is given.


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"shared": "postgres://host"}, "redis://"),
        ({"shared": "sqlite:"}, "sqlite:PATH"),
        ({"shared": "sqlite:x.db", "name": "a{b}"}, "name"),
        ({"shared": "sqlite:x.db", "on_loss": "wait"}, "on_loss"),
        ({"shared": "sqlite:x.db", "lease_s": 0}, "lease_s"),
        ({"priority": 1001}, "priority"),
        ({"input_tokens_per_minute": 0}, "input_tokens_per_minute"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        RateLimiter(**given)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(Unsupported, match=r"pip install 'llmstream-sdk\[redis\]'"):
        RateLimiter(shared="redis://localhost")


async def test_a_folder_that_is_missing_is_named() -> None:
    async with RateLimiter(shared="sqlite:/no/such/limits.db", on_loss="raise") as limiter:
        with pytest.raises(LimitsUnavailable, match=r"/no/such/limits.db cannot be used"):
            await limiter.acquire()


def test_stores_load_only_when_used() -> None:
    """`sqlite3` and `redis` are not imported by a limiter of one process."""
    code = (
        "import sys, llmstream as ls; ls.RateLimiter(max_concurrent=1); ls.Model\n"
        "sys.exit(any(name in sys.modules for name in ('sqlite3', 'redis', 'llmstream.transport.fleet')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


async def test_streams_go_through_shared_limits(shared: str) -> None:
    async with ls.RateLimiter(shared=shared, name="streams", max_concurrent=2) as limiter:
        model = ls.Model("sim:demo", limiter=limiter)
        answers = await asyncio.gather(*(model.ask(f"Question {n}") for n in range(6)))
        assert all(answer.text for answer in answers)
        assert (limiter.under_way, limiter.waiting) == (0, 0)
