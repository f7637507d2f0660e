"""From a call to its first text: on a warm connection, one call at a time; and in a new process.

The floor asks as one does by hand: a body that is ready, a key, a session that is open.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import aiohttp

import llmstream as ls
from benchmarks.floor import FLOORS
from benchmarks.imports import process_ms

FAMILY = "openai-chat"
BODY = {
    "model": "any",
    "messages": [{"role": "user", "content": "Hi"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}
HEADERS = {"authorization": "Bearer key"}


async def first_ms(base: str, calls: int, pause_s: float = 0.0) -> dict[str, dict[str, float]]:
    """Milliseconds from the call to the first text: p50 and p99. The two take turns.

    pause_s: before each call. Without one, whoever is faster finds a server that is still awake.
    """
    url = f"{base}/{FAMILY}/1/first"
    async with aiohttp.ClientSession() as session:
        model = ls.Model("openai:any", base_url=url, api_key="key")

        async def floor() -> float:
            started = time.perf_counter()
            async with session.post(url, json=BODY, headers=HEADERS) as response:
                firsts = [time.perf_counter() - started async for _ in FLOORS[FAMILY](response)]
            return firsts[0] * 1e3

        async def library() -> float:
            started = time.perf_counter()
            async with model.stream("Hi") as stream:
                firsts = [time.perf_counter() - started async for e in stream if type(e) is ls.TextDelta]
            return firsts[0] * 1e3

        ways: dict[str, Callable[[], Awaitable[float]]] = {"floor": floor, "stream": library}
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(calls):
            for name, read in ways.items():
                if pause_s:
                    await asyncio.sleep(pause_s)
                found[name].append(await read())
    warm = {name: sorted(times[calls // 10 :]) for name, times in found.items()}
    return {
        name: {"p50": statistics.median(times), "p99": times[len(times) * 99 // 100]}
        for name, times in warm.items()
    }


_TIMED = """
import time
started = time.perf_counter()
import asyncio, sys
{imports}

async def main(url):
{read}
        print(time.perf_counter() - started)
        return

asyncio.run(main(sys.argv[1]))
"""
_FLOOR = _TIMED.format(
    imports="import aiohttp\nfrom benchmarks.floor import openai_chat",
    read=f"""
    async with aiohttp.ClientSession() as session, session.post(url, json={BODY}, headers={HEADERS}) as got:
      async for _ in openai_chat(got):
""",
)
_LIBRARY = _TIMED.format(
    imports="import llmstream as ls",
    read="""
    async with ls.Model("openai:any", base_url=url, api_key="key").stream("Hi") as stream:
      async for _ in stream.text_deltas():
""",
)


def first_request_ms(base: str, rounds: int) -> dict[str, float]:
    """Milliseconds from the beginning of a process to the first text, imports and connecting included."""
    url = f"{base}/{FAMILY}/1/first"
    taken: dict[str, list[float]] = {"floor": [], "stream": []}
    for number in range(rounds + 1):
        for name, script in {"floor": _FLOOR, "stream": _LIBRARY}.items():
            found = process_ms(script, url)
            if number:  # the first round compiles
                taken[name].append(found)
    return {f"{name} p50": statistics.median(times) for name, times in taken.items()}
