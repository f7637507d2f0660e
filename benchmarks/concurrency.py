"""Many streams at once in one process: events a second, time to the first event, memory a stream."""

from __future__ import annotations

import asyncio
import statistics
import time
import tracemalloc
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


async def throughput(base: str, streams: int, events: int) -> dict[str, Throughput]:
    """The floor and llmstream, each with so many streams at once of so many events; medians."""
    url = f"{base}/{FAMILY}/{events}/events"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        model = ls.Model("openai:any", base_url=url, api_key="key", session=session)

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

        await asyncio.gather(floor(), library())  # connections, imports, the server's cache
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


async def memory_kib(base: str, streams: int) -> dict[str, float]:
    """KiB of Python memory that one more open stream takes, after its first event.

    The server sends faster than the stream is read, so that what is buffered is full: the most it takes.
    """
    url = f"{base}/{FAMILY}/2000/events"
    found = {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        model = ls.Model("openai:any", base_url=url, api_key="key", session=session)

        async def floor() -> Callable[[], Awaitable[None]]:
            response = await session.post(url, json={})
            reading = FLOORS[FAMILY](response)
            await anext(reading)

            async def leave() -> None:
                await reading.aclose()  # type: ignore[attr-defined]
                response.close()

            return leave

        async def library() -> Callable[[], Awaitable[None]]:
            stream = model.stream("Hi")
            await stream.next()
            return stream.aclose

        for name, enter in {"floor": floor, "stream": library}.items():
            for leave in [await enter()]:  # imports and caches are not a stream's
                await leave()
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            leaving = [await enter() for _ in range(streams)]
            found[name] = (tracemalloc.get_traced_memory()[0] - before) / streams / 1024
            tracemalloc.stop()
            for leave in leaving:
                await leave()
    return found
