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
ALONE = 100_000
"""Events of the one stream that many are compared with."""


class Throughput(NamedTuple):
    """events_per_s over all streams; first_ms: median time to the first text of a stream.

    of_single: events a second of CPU, over those of one stream alone just before. By the clock a
               thousand writers in the server, which is as busy, would be measured as well
    """

    events_per_s: float
    first_ms: float
    of_single: float


Read = Callable[[int], Awaitable[float]]
"""One stream of so many events: seconds to its first text."""


async def throughput(base: str, streams: int, events: int, writes: str) -> dict[str, Throughput]:
    """The floor and llmstream, each with so many streams at once of so many events; medians."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def floor(events: int) -> float:
            started, first, count = time.perf_counter(), 0.0, 0
            async with session.post(f"{base}/{FAMILY}/{events}/{writes}", json={}) as response:
                async for _ in FLOORS[FAMILY](response):
                    first = first or time.perf_counter()
                    count += 1
            return _checked(count, events, first - started)

        async def library(events: int) -> float:
            model = ls.Model("openai:any", base_url=f"{base}/{FAMILY}/{events}/{writes}", api_key="key")
            started, first, count = time.perf_counter(), 0.0, 0
            async with model.stream("Hi") as stream:
                async for event in stream:
                    if type(event) is ls.TextDelta:
                        first = first or time.perf_counter()
                        count += 1
            return _checked(count, events, first - started)

        await asyncio.gather(floor(events), library(events))  # imports, the server's cache
        ways: dict[str, Read] = {"floor": floor, "stream": library}
        found: dict[str, list[Throughput]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, read in ways.items():
                _, alone, _ = await _together(read, 1, ALONE)
                rate, of_cpu, first_ms = await _together(read, streams, events)
                found[name].append(Throughput(rate, first_ms, of_cpu / alone))
        return {
            name: Throughput(*map(statistics.median, zip(*runs, strict=True))) for name, runs in found.items()
        }


async def _together(read: Read, streams: int, events: int) -> tuple[float, float, float]:
    """Events a second, and a second of CPU; the median time to the first text in milliseconds."""
    started, cpu = time.perf_counter(), time.process_time()
    firsts = await asyncio.gather(*(read(events) for _ in range(streams)))
    count = streams * events
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    return count / wall, count / cpu, statistics.median(firsts) * 1e3


def _checked(count: int, events: int, first_s: float) -> float:
    if count != events:
        raise SystemExit(f"a stream had {count} of {events} events")
    return first_s
