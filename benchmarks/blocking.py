"""How long other tasks wait: while a large body is read that came at once, and in a process's first call."""

from __future__ import annotations

import asyncio
import statistics
import time

import aiohttp

import llmstream as ls
from benchmarks.floor import FLOORS
from benchmarks.imports import process_ms

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


_FIRST_CALL = """
import asyncio, sys, time
{imports}

async def main(url):
    {opened}

    async def read():
        async with {asked} as answer:
            async for _ in {parts}:
                pass

    task = asyncio.ensure_future(read())
    longest, last = 0.0, time.thread_time()
    while not task.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    await task
    print(longest)

asyncio.run(main(sys.argv[1]))
"""
_FLOOR = _FIRST_CALL.format(
    imports="import aiohttp\nfrom benchmarks.floor import openai_chat",
    opened="pass",
    asked="aiohttp.ClientSession() as session, session.post(url, json={})",
    parts="openai_chat(answer)",
)
_LIBRARY = _FIRST_CALL.format(
    imports="import llmstream as ls\nls.Model",
    opened='model = ls.Model("openai:any", base_url=url, api_key="key")',
    asked='model.stream("Hi")',
    parts="answer",
)


def first_call_ms(base: str, rounds: int) -> dict[str, float]:
    """Milliseconds of the longest turn of the loop in a process's first call, without `warm_up`.

    Of CPU time of the loop's thread, so that threads which import meanwhile do not count.
    """
    url = f"{base}/{FAMILY}/1/blocks"
    scripts = {"floor": _FLOOR, "stream": _LIBRARY}
    return {
        name: statistics.median([process_ms(script, url) for _ in range(rounds)])
        for name, script in scripts.items()
    }
