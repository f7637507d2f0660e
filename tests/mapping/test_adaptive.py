"""Adaptive concurrency: it doubles while nothing is refused, halves once a round, and obeys pauses."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from llmstream.errors import InvalidRequest
from llmstream.mapping.asking import AdaptiveConcurrency, GateClosed


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001  # so that no two turns begin at once
        return self.now


def gate_of(most: int = 64, **options: object) -> AdaptiveConcurrency:
    return AdaptiveConcurrency(most, clock=Clock(), random_unit=lambda: 1.0, **options)


async def full_round(gate: AdaptiveConcurrency, refused: int = 0) -> None:
    """As many requests as may be under way, all at once; the first of them are refused."""
    turns = [await gate.acquire() for _ in range(gate.limit)]
    for place, began in enumerate(turns):
        if place < refused:
            gate.refused(began)
        else:
            gate.answered()
        gate.release()


async def test_limit_doubles_every_round():
    gate = gate_of()
    limits = []
    for _ in range(5):
        limits.append(gate.limit)
        await full_round(gate)
    assert limits[0] == 8
    assert limits[1:4] == [16, 32, 64]
    assert gate.limit == 64


async def test_one_round_halves_only_once():
    gate = gate_of(start=32)
    await full_round(gate, refused=32)
    assert gate.limit == 16


async def test_it_grows_slowly_after_refusals():
    gate = gate_of(start=32)
    await full_round(gate, refused=1)
    before = gate.limit
    for _ in range(3):
        await full_round(gate)
    assert before < gate.limit <= before + 4


async def test_limit_never_falls_below_one():
    gate = gate_of(start=2)
    for _ in range(5):
        gate.pause(-100)
        began = await gate.acquire()
        gate._not_before = 0.0
        gate.refused(began)
        gate._not_before = 0.0
        gate.release()
    assert gate.limit == 1


async def test_an_unused_limit_does_not_grow():
    gate = gate_of()
    for _ in range(50):
        await gate.acquire()
        gate.answered()
        gate.release()
    assert gate.limit == 8


async def test_scarce_requests_stop_growth():
    gate = gate_of()
    headers = {"x-ratelimit-remaining-requests": "3", "x-ratelimit-limit-requests": "500"}
    turns = [await gate.acquire() for _ in range(8)]
    for _ in turns:
        gate.answered(headers)
        gate.release()
    assert gate.limit == 8


async def test_used_up_allowance_is_a_pause():
    gate = gate_of()
    gate.answered({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "30s"})
    assert 29 < gate.paused_s <= 30


async def test_long_pauses_are_a_minute():
    gate = gate_of()
    gate.refused(await gate.acquire(), 7200.0)
    assert 59 < gate.paused_s <= 60


async def test_repeated_refusals_pause_longer():
    gate, pauses = gate_of(), []
    for _ in range(4):
        gate._not_before = 0.0
        began = await gate.acquire()
        gate.refused(began)
        pauses.append(gate.paused_s)
        gate.release()
    assert pauses[0] == 0
    assert 0 < pauses[1] < pauses[2] < pauses[3]


async def test_pause_ends_by_itself():
    gate = AdaptiveConcurrency(8)
    gate.pause(0.02)
    assert not gate._free()
    await gate.acquire()
    assert gate.under_way == 1


async def test_first_come_goes_first():
    gate, order = gate_of(most=1), []
    await gate.acquire()

    async def wait(name: int) -> None:
        await gate.acquire()
        order.append(name)
        gate.release()

    waiting = [asyncio.create_task(wait(name)) for name in range(5)]
    await asyncio.sleep(0)
    gate.release()
    await asyncio.gather(*waiting)
    assert order == list(range(5))
    assert gate.under_way == 0


@pytest.mark.parametrize("granted", [False, True])
async def test_cancelled_waiter_takes_nothing(granted: bool):
    gate = gate_of(most=1)
    await gate.acquire()
    waiter = asyncio.create_task(gate.acquire())
    await asyncio.sleep(0)
    if granted:
        gate.release()
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    if not granted:
        gate.release()
    assert gate.under_way == 0
    await gate.acquire()


async def test_closing_ends_the_waiters():
    gate = gate_of(most=1)
    await gate.acquire()
    waiter = asyncio.create_task(gate.acquire())
    await asyncio.sleep(0)
    gate.close()
    with pytest.raises(GateClosed):
        await waiter
    with pytest.raises(GateClosed):
        await gate.acquire()
    assert gate.under_way == 1


@pytest.mark.parametrize("most", [0, -1, 1.5, "8"])
def test_invalid_concurrency_is_refused(most: object):
    with pytest.raises(InvalidRequest, match="concurrency must be a number from 1 on"):
        AdaptiveConcurrency(most)


async def test_pause_that_ends_between_two_reads_of_the_clock() -> None:
    """Waiting requests start all the same. They hung in every other run on uvloop."""
    for pause_s in (0.005, 0.015, 0.025, 0.035):
        ticks = itertools.count(0)
        gate = AdaptiveConcurrency(8, clock=lambda ticks=ticks: next(ticks) * 0.01)  # type: ignore[misc]
        gate.pause(pause_s)
        async with asyncio.timeout(30):
            await gate.acquire()
        assert gate.under_way == 1
