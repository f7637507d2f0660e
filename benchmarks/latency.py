"""What is added to each event on its way, in paced streams.

The server writes into each paced event when it was sent; the monotonic clock is the machine's, so
that two processes can compare. Floor and library take turns, the same streams at once.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import aiohttp

import llmstream as ls
from benchmarks.floor import FLOORS

FAMILY = "openai-chat"
ROUNDS = 5


async def between_ms(base: str, streams: int, events: int) -> dict[str, dict[str, float]]:
    """Milliseconds from the server's write to the reader, over all events: p50 and p99.

    Each is the median of some rounds.
    """
    url = f"{base}/{FAMILY}/{events}/paced"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        model = ls.Model("openai:any", base_url=url, api_key="key")

        async def floor() -> list[float]:
            async with session.post(url, json={}) as response:
                return [_age_ms(text) async for text in FLOORS[FAMILY](response)]

        async def library() -> list[float]:
            async with model.stream("Hi") as stream:
                return [_age_ms(event.delta) async for event in stream if type(event) is ls.TextDelta]

        ways = {"floor": floor, "stream": library}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for number in range(ROUNDS + 1):
            for name, read in ways.items():
                runs = await asyncio.gather(*(read() for _ in range(streams)))
                ages = sorted(age for run in runs for age in run)
                if len(ages) != streams * events:
                    raise SystemExit(f"{len(ages)} of {streams * events} events came")
                if number:  # the first round opens connections
                    found[name].append((ages[len(ages) // 2], ages[len(ages) * 99 // 100]))
    return {
        name: {
            "p50": statistics.median(p50 for p50, _ in rounds),
            "p99": statistics.median(p99 for _, p99 in rounds),
        }
        for name, rounds in found.items()
    }


def _age_ms(sent_ns: str) -> float:
    return (time.monotonic_ns() - int(sent_ns)) / 1e6
