"""Shared limits over real processes: a vendor that enforces its limits, and processes that die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmstream.transport.limiter import RateLimiter
from tests.transport.fleet.drill import run, workers

LEASE_S = 2.0  # a machine under load may stop a process for a tenth of it


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokens", "headers"), [(0, True), (50, False)], ids=["requests", "tokens, no headers"]
)
async def test_a_fleet_keeps_within_limits(shared: str, tokens: int, headers: bool) -> None:
    """The quick form of drill.py; the wall clocks of the processes are an hour apart."""
    figures = await run(
        shared,
        processes=3,
        seconds=1.0,
        per_minute=2400,
        headers=headers,
        tokens=tokens,
        clocks_s=3600.0,
        least=8,
    )
    assert figures.answers_least >= 8
    assert figures.refused <= 0.1


def orders(shared: str, **more: Any) -> dict[str, Any]:
    limits = {"max_concurrent": 4, "requests_per_minute": 6000, "lease_s": LEASE_S}
    return {"shared": shared, "name": "killed", "limits": limits, "hold": True, **more}


@asynccontextmanager
async def survivor(shared: str, **limits: Any) -> AsyncIterator[RateLimiter]:
    """A limiter of this process."""
    async with RateLimiter(shared=shared, name="killed", **limits) as limiter, asyncio.timeout(60):
        yield limiter


@pytest.mark.slow
async def test_places_of_the_killed_come_back(shared: str) -> None:
    """Holders of all places, and the waiters behind them."""
    order = orders(shared, permits=4, wait=5)
    async with workers([order]) as (holder,), survivor(shared, **order["limits"]) as limiter:
        waiting = [asyncio.ensure_future(limiter.acquire()) for _ in range(4)]
        done, _ = await asyncio.wait(waiting, timeout=1.5 * LEASE_S)
        assert not done  # the holder is alive, and renews
        await holder.kill()
        permits = await asyncio.gather(*waiting)
        assert limiter.under_way == 4
        for permit in permits:
            permit.release()


@pytest.mark.slow
async def test_tokens_of_killed_waiters_are_free(shared: str) -> None:
    """Their turns, for minutes to come, are given to those who live."""
    limits = {"tokens_per_minute": 6000, "lease_s": LEASE_S}
    order = orders(shared, permits=1, cost={"tokens": 6000}) | {"limits": limits}
    queue = {**order, "queue": 50, "cost": {"tokens": 3000}, "permits": 0}
    async with workers([order]), workers([queue]) as (waiter,), survivor(shared, **limits) as limiter:
        waiting = asyncio.ensure_future(limiter.acquire(100))
        done, _ = await asyncio.wait({waiting}, timeout=0.5)
        assert not done  # for half an hour
        await waiter.kill()
        (await waiting).release()


@pytest.mark.slow
async def test_who_ends_leaves_at_once(shared: str) -> None:
    """Not after the lease."""
    order = orders(shared, permits=4, wait=3)
    order["limits"] |= {"lease_s": 3600.0}
    async with workers([order]) as (holder,), survivor(shared, **order["limits"]) as limiter:
        waiting = asyncio.ensure_future(limiter.acquire())
        holder.go()
        await holder.report("done")
        (await waiting).release()
