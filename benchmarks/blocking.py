"""How long other tasks wait while a large body is read that came at once."""

from __future__ import annotations

import asyncio
import time

import aiohttp

import llmstream as ls
from benchmarks.floor import FLOORS

FAMILY = "openai-chat"
MEGABYTES = 10


async def longest_ms(base: str) -> dict[str, float]:
    """The longest time between two turns of a task that only yields, in milliseconds."""
    count = MEGABYTES * 1_000_000 // 300  # a chunk has about 300 bytes
    url = f"{base}/{FAMILY}/{count}/whole"
    async with aiohttp.ClientSession() as session:
        model = ls.Model("openai:any", base_url=url, api_key="key")

        async def floor() -> None:
            async with session.post(url, json={}) as response:
                async for _ in FLOORS[FAMILY](response):
                    pass

        async def library() -> None:
            async with model.stream("Hi") as stream:
                async for _ in stream:
                    pass

        found = {}
        for name, read in {"floor": floor, "stream": library}.items():
            await read()  # connections, imports, the server's cache
            found[name] = min([await _longest_wait_ms(read()) for _ in range(3)])
        return found


async def _longest_wait_ms(reading: object) -> float:
    task = asyncio.ensure_future(reading)  # type: ignore[arg-type]
    longest, last = 0.0, time.perf_counter()
    while not task.done():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    await task
    return longest * 1e3
