"""What an event costs that is written to a log and read from it, beside the store alone.

The bare store is what one writes by hand for one store: the same events as the same JSON, in as many commits,
without an epoch, a lease, a check of the grammar or a way to wake a reader.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.arguments import arguments
from llmstream import events
from llmstream.events import Event, Finish, StreamStart, TextDelta, TextEnd, TextStart
from llmstream.log import open_logs

__all__ = ["WORK", "cores", "latency_ms", "stores"]

RUNS: Final = 200
RATE: Final = 50
"""Events a second of each run: about what a fast model writes."""

MANY: Final = 1_000

COMMITS: Final = 100
"""A second: one each 10 ms, which is the default."""

DELTA: Final = TextDelta(" a word", "txt-0")


@contextlib.contextmanager
def stores() -> Iterator[dict[str, str]]:
    """Addresses of empty stores, by name. Redis only where its server is installed."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as servers:
        found = {"memory": "memory:", "sqlite": f"sqlite:{folder}/runs.db"}
        if shutil.which("redis-server"):
            path = Path(folder) / "redis.sock"
            command = [
                "redis-server",
                "--port",
                "0",
                "--unixsocket",
                str(path),
                "--dir",
                folder,
                "--save",
                "",
            ]
            command += ["--appendonly", "yes"]
            server = servers.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            servers.callback(server.kill)
            while not path.exists():
                time.sleep(0.01)
            found["redis"] = f"unix://{path}"
        yield found


async def words(
    count: int, pause_s: float | None = None, gate: asyncio.Event | None = None
) -> AsyncIterator[Event]:
    """A response of so many deltas, which wait for a gate."""
    yield StreamStart()
    yield TextStart(DELTA.id)
    if gate is not None:
        await gate.wait()
    for _ in range(count):
        yield DELTA
        if pause_s is not None:
            await asyncio.sleep(pause_s)
    yield TextEnd(DELTA.id)
    yield Finish("stop")


# CPU an event.


async def paced(address: str, seconds: float) -> float:
    """Microseconds of CPU an event of 200 runs with 50 events a second each, sources included."""
    count = int(seconds * RATE)
    async with open_logs(address) as logs:
        began = time.process_time()
        lives = [await logs.start(f"paced {began} {n}", words(count, 1 / RATE)) for n in range(RUNS)]
        await asyncio.gather(*[live.wait() for live in lives])
        return (time.process_time() - began) / (RUNS * count) * 1e6


async def followed(address: str, seconds: float) -> float:
    """As `paced`, and each run has a reader in the same process, from its beginning to its end."""
    count = int(seconds * RATE)

    async def read(run: str) -> None:
        seen = [seq async for seq, _ in logs.follow(run)]
        assert len(seen) == count + 4

    async with open_logs(address) as logs:
        began = time.process_time()
        runs = [f"followed {began} {n}" for n in range(RUNS)]
        for run in runs:
            await logs.start(run, words(count, 1 / RATE))
        await asyncio.gather(*[read(run) for run in runs])
        return (time.process_time() - began) / (RUNS * count) * 1e6


async def idle(seconds: float) -> float:
    """The same sources without a log."""
    count = int(seconds * RATE)

    async def drained() -> None:
        async for _ in words(count, 1 / RATE):
            pass

    began = time.process_time()
    await asyncio.gather(*[drained() for _ in range(RUNS)])
    return (time.process_time() - began) / (RUNS * count) * 1e6


async def cores(address: str, seconds: float) -> dict[str, float]:
    """The share of a core that 1,000 runs with 50 events a second each take, once they have started."""
    count, gate = int(seconds * RATE), asyncio.Event()

    async def drained() -> None:
        async for _ in words(count, 1 / RATE, gate):
            pass

    async def spent(over: Callable[[], Awaitable[object]]) -> float:
        await asyncio.sleep(1.0)  # what their start has left to do
        began = time.process_time()
        gate.set()
        await over()
        return (time.process_time() - began) / seconds  # not the time it took, if others had the machine

    tasks = [asyncio.create_task(drained()) for _ in range(MANY)]
    sources = await spent(lambda: asyncio.wait(tasks))
    gate, name = asyncio.Event(), f"many {time.monotonic_ns()}"
    async with open_logs(address) as logs:
        lives = [await logs.start(f"{name} {n}", words(count, 1 / RATE, gate)) for n in range(MANY)]
        both = await spent(lambda: asyncio.gather(*[live.wait() for live in lives]))
    return {"sources": sources, "sources and log": both}


async def burst(address: str, count: int) -> float:
    """Microseconds of CPU an event of one run that comes as fast as it can."""

    async with open_logs(address) as logs:
        began = time.process_time()
        await (await logs.start(f"burst {began}", words(count))).wait()
        return (time.process_time() - began) / count * 1e6


async def read(address: str, count: int) -> float:
    """Microseconds of CPU an event that is read back, decoded."""
    async with open_logs(address) as logs:
        await (await logs.start("read", words(count))).wait()
        began = time.process_time()
        seen = [event async for _, event in logs.follow("read")]
        assert len(seen) == count + 4
        return (time.process_time() - began) / count * 1e6


def _bare_sqlite(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")
    connection.execute(
        "create table if not exists b (run, last, data, primary key (run, last)) without rowid"
    )
    return connection


def bare_append(store: str, address: str, rows: int, each: int, commits: int) -> float:
    """Microseconds of CPU an event: so many commits, of so many rows, of so many events."""
    keep: dict[int, list[bytes]] = {}
    with tempfile.TemporaryDirectory() as folder:
        database = _bare_sqlite(Path(folder))
        client = _redis(address) if store == "redis" else None
        began = time.process_time()
        for commit in range(commits):
            batch = [
                (row, commit, b"\n".join([events.encode(DELTA) for _ in range(each)])) for row in range(rows)
            ]
            if client is not None:
                pipeline = client.pipeline(transaction=False)
                for row, _, data in batch:
                    pipeline.xadd(f"bare {began} {row}", {"data": data})
                pipeline.execute()
            elif store == "sqlite":
                database.execute("begin immediate")
                database.executemany("insert into b values (?, ?, ?)", batch)
                database.execute("commit")
            else:
                for row, _, data in batch:
                    keep.setdefault(row, []).append(data)
        spent = time.process_time() - began
        database.close()
    return spent / (rows * each * commits) * 1e6


def bare_read(store: str, address: str, count: int, each: int) -> float:
    """Microseconds of CPU an event: one query, and each line decoded."""
    data = [b"\n".join([events.encode(DELTA)] * each)] * (count // each)
    with tempfile.TemporaryDirectory() as folder:
        database = _bare_sqlite(Path(folder))
        database.executemany("insert into b values ('read', ?, ?)", enumerate(data))
        client = _redis(address) if store == "redis" else None
        if client is not None:
            client.delete("bare read")
            for batch in data:
                client.xadd("bare read", {"data": batch})
        began = time.process_time()
        if client is not None:
            found = [fields[b"data"] for _, fields in client.xrange("bare read")]
        elif store == "sqlite":
            found = [
                row for (row,) in database.execute("select data from b where run = 'read' order by last")
            ]
        else:
            found = data
        seen = [events.decode(line) for batch in found for line in batch.split(b"\n")]
        spent = time.process_time() - began
        assert len(seen) == count // each * each
        database.close()
    return spent / count * 1e6


def _redis(address: str):  # type: ignore[no-untyped-def]  # the package is optional
    import redis

    return redis.Redis.from_url(address)


def _paced(store: str, address: str, quick: bool) -> dict[str, float]:
    seconds = 1.0 if quick else 5.0
    sources = asyncio.run(idle(seconds))
    per_commit = RUNS * RATE // COMMITS
    bare = bare_append(store, address, per_commit, 1, int(seconds * COMMITS))
    return {"bare": sources + bare, "log": asyncio.run(paced(address, seconds))}


def _followed(store: str, address: str, quick: bool) -> dict[str, float]:
    seconds = 1.0 if quick else 5.0
    sources = asyncio.run(idle(seconds))
    per_commit = RUNS * RATE // COMMITS
    bare = bare_append(store, address, per_commit, 1, int(seconds * COMMITS))
    bare += bare_read(store, address, 10_000, 1)
    return {"bare": sources + bare, "log": asyncio.run(followed(address, seconds))}


def _burst(store: str, address: str, quick: bool) -> dict[str, float]:
    count = 10_000 if quick else 100_000
    bare = bare_append(store, address, 1, 1_000, count // 1_000)
    return {"bare": bare, "log": asyncio.run(burst(address, count))}


def _read(store: str, address: str, quick: bool) -> dict[str, float]:
    count = 10_000 if quick else 100_000
    return {"bare": bare_read(store, address, count, 1_000), "log": asyncio.run(read(address, count))}


WORK: Final[dict[str, Callable[[str, str, bool], dict[str, float]]]] = {
    "append, 200 runs": _paced,
    "append and read, 200 runs": _followed,
    "append, one run": _burst,
    "read": _read,
}


# From a producer to a reader in another process.


async def latency_ms(address: str, count: int) -> dict[str, float]:
    """Milliseconds from an event to its reader, an event each 20 ms. In memory both are in one process."""
    delays = []
    async with open_logs(address) as logs:
        process = None
        if address == "memory:":
            await logs.start("late", stamped(count))
        else:
            command = (sys.executable, "-m", "benchmarks.event_log", address, str(count))
            process = await asyncio.create_subprocess_exec(*command)
        async for _, event in logs.follow("late", wait_s=30):
            if isinstance(event, TextDelta):
                delays.append((time.monotonic_ns() - int(event.delta)) / 1e6)
        if process is not None:
            await process.wait()
        await logs.delete("late")
    ordered = sorted(delays)
    return {"p50": statistics.median(ordered), "p90": ordered[int(len(ordered) * 0.9)]}


async def stamped(count: int) -> AsyncIterator[Event]:
    """Events that hold the time at which they were made; it is the same clock in all processes."""
    yield StreamStart()
    for _ in range(count):
        await asyncio.sleep(0.02)
        yield TextDelta(str(time.monotonic_ns()), "t")
    yield Finish("stop")


async def _produce(address: str, count: int) -> None:
    async with open_logs(address) as logs:
        await (await logs.start("late", stamped(count))).wait()


if __name__ == "__main__":
    address, count = arguments("ADDRESS COUNT", __doc__)
    asyncio.run(_produce(address, int(count)))
