"""What an open stream takes: KiB of the process, for many idle ones, and with buffers full.

Each reader is measured in a process of its own, so that none pays for another's imports.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

import llmstream as ls
from benchmarks.arguments import arguments
from benchmarks.floor import FLOORS

FAMILY = "openai-chat"
READERS = ("floor", "stream")
Leave = Callable[[], Awaitable[None]]
Enter = Callable[[], Awaitable[Leave]]


def kib_per_stream(base: str, streams: int, writes: str) -> dict[str, float]:
    """KiB of resident memory that one more open stream takes, after its first event.

    writes: "idle", where the server has no more to say, or "events", where it is ahead of the
            reader and every buffer is full
    """
    found = {}
    for name in READERS:
        command = [sys.executable, "-m", "benchmarks.memory", name, base, str(streams), writes]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found[name] = float(json.loads(told))
    return found


def _resident_kib() -> float:
    """Of this process; by the system, since much of it is not Python's."""
    gc.collect()
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except FileNotFoundError:
        raise SystemExit("memory is read from /proc, which this system does not have") from None
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


@asynccontextmanager
async def _floor(url: str) -> Any:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def enter() -> Leave:
            response = await session.post(url, json={})
            reading = FLOORS[FAMILY](response)
            await anext(reading)

            async def leave() -> None:
                await reading.aclose()  # type: ignore[attr-defined]
                response.close()

            return leave

        yield enter


@asynccontextmanager
async def _library(url: str) -> Any:
    model = ls.Model("openai:any", base_url=url, api_key="key")

    async def enter() -> Leave:
        stream = model.stream("Hi")
        while type(stream.current) is not ls.TextDelta:
            await stream.next()
        return stream.aclose

    yield enter


async def _measured(opened: AbstractAsyncContextManager[Enter], streams: int) -> float:
    async with opened as enter:
        for leave in [await enter() for _ in range(10)]:  # imports and caches are not a stream's
            await leave()
        before = _resident_kib()
        leaving = [await enter() for _ in range(streams)]
        taken = (_resident_kib() - before) / streams
        for leave in leaving:
            await leave()
    return taken


if __name__ == "__main__":
    reader, address, count, how = arguments("READER BASE STREAMS WRITES", __doc__)
    way = {"floor": _floor, "stream": _library}[reader]
    print(asyncio.run(_measured(way(f"{address}/{FAMILY}/2000/{how}"), int(count))))
