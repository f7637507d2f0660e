"""Many streams at once in one process: events a second, and the time to the first event."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import aiohttp

import llmstream as ls
from benchmarks.floor import FLOORS

FAMILY = "openai-chat"
ROUNDS = 3


class Throughput(NamedTuple):
    """events_per_s over all streams; first_ms: median time to the first text of a stream."""

    events_per_s: float
    first_ms: float


async def throughput(base: str, streams: int, events: int, writes: str) -> dict[str, Throughput]:
    """The floor and llmstream, each with so many streams at once of so many events; medians."""
    url = f"{base}/{FAMILY}/{events}/{writes}"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        model = ls.Model("openai:any", base_url=url, api_key="key")

        async def floor() -> float:
            started, first, count = time.perf_counter(), 0.0, 0
            async with session.post(url, json={}) as response:
                async for _ in FLOORS[FAMILY](response):
                    first = first or time.perf_counter()
                    count += 1
            return _checked(count, events, first - started)

        async def library() -> float:
            started, first, count = time.perf_counter(), 0.0, 0
            async with model.stream("Hi") as stream:
                async for event in stream:
                    if type(event) is ls.TextDelta:
                        first = first or time.perf_counter()
                        count += 1
            return _checked(count, events, first - started)

        await asyncio.gather(floor(), library())  # imports, the server's cache
        ways = {"floor": floor, "stream": library}
        found: dict[str, list[Throughput]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, read in ways.items():
                found[name].append(await _together(read, streams, events))
        return {
            name: Throughput(*map(statistics.median, zip(*runs, strict=True))) for name, runs in found.items()
        }


async def _together(read: Callable[[], Awaitable[float]], streams: int, events: int) -> Throughput:
    started = time.perf_counter()
    firsts = await asyncio.gather(*(read() for _ in range(streams)))
    wall = time.perf_counter() - started
    return Throughput(streams * events / wall, statistics.median(firsts) * 1e3)


def _checked(count: int, events: int, first_s: float) -> float:
    if count != events:
        raise SystemExit(f"a stream had {count} of {events} events")
    return first_s
