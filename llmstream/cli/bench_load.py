"""When the requests of a benchmark are sent: so many at a time, or at a rate of their own.

In a closed loop a slow server slows down its own load. In an open loop requests arrive whether
or not it keeps up, as users do, and their latency counts from when they were due.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import NoReturn, TypeAlias

__all__ = ["Now", "One", "Sleep", "arrivals", "closed_loop", "open_loop"]

One: TypeAlias = Callable[[int, float], Awaitable[None]]
"""Makes one request: its number from 0, and the time at which it was due."""
Now: TypeAlias = Callable[[], float]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]


def arrivals(count: int, per_s: float, seed: int) -> Iterator[float]:
    """Seconds from the beginning at which requests are due: a Poisson process, the first at 0."""
    rng = random.Random(seed)  # noqa: S311  (a load, not a secret)
    due = 0.0
    for _ in range(count):
        yield due
        due += rng.expovariate(per_s)


async def closed_loop(one: One, count: int, at_a_time: int, now: Now = time.perf_counter) -> None:
    """Each of so many workers sends its next request when it has the answer to the last."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await one(number, now())

    await _together(work() for _ in range(min(at_a_time, count)))


async def open_loop(
    one: One,
    dues: Iterator[float],
    now: Now = time.perf_counter,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Sends each request when it is due, however many are still unanswered."""
    began = now()
    try:
        async with asyncio.TaskGroup() as group:
            for number, due in enumerate(dues):
                wait = began + due - now()
                if wait > 0:
                    await sleep(wait)
                group.create_task(_awaited(one(number, began + due)))
    except BaseExceptionGroup as several:
        _raise_first(several)


async def _together(works: Iterator[Awaitable[None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(_awaited(work))
    except BaseExceptionGroup as several:
        _raise_first(several)


def _raise_first(several: BaseExceptionGroup[BaseException]) -> NoReturn:
    """What is wrong with one request before it is sent is wrong with all of them."""
    raise several.exceptions[0] from None


async def _awaited(work: Awaitable[None]) -> None:
    await work
