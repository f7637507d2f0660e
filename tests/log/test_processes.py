"""Producers in processes of their own that are killed, paused, stopped, or compete for a run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.log import Logs
from tests.log.sources import answer, followed

ROOT = Path(__file__).resolve().parents[2]
WORDS = 12
EVENTS = len(answer(WORDS))
LEASE_S = 0.3

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="producers are forked")


class Producers:
    """Processes that produce runs; `ends` has what those said that ended by themselves."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self.ends: dict[str, asyncio.Future[str]] = {}
        self.address = address
        self._process = process
        self._pids: dict[str, asyncio.Future[int]] = {}
        self._reading = asyncio.ensure_future(self._read())

    async def start(self, run: str, *, name: str | None = None, **job: Any) -> int:
        """Starts a producer; returns its pid."""
        loop = asyncio.get_running_loop()
        self._pids[run], self.ends[run] = loop.create_future(), loop.create_future()
        assert self._process.stdin is not None
        job = {"address": self.address, "run": run, "words": WORDS, "lease_s": LEASE_S, **job}
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        return await self._pids[run]

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            found = json.loads(line)
            future = self._pids[found["run"]] if "pid" in found else self.ends[found["run"]]
            if not future.done():
                future.set_result(found.get("pid") or found["end"])

    async def aclose(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        for pid in [future.result() for future in self._pids.values() if future.done()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self._process.wait()
        await self._reading


@pytest.fixture
async def producers(shared: str) -> AsyncIterator[Producers]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.log.forker"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    found = Producers(process, shared)
    yield found
    await found.aclose()


@pytest.fixture
async def others(shared: str) -> AsyncIterator[tuple[Logs, Logs]]:
    """Two processes that read, as far as the store can tell."""
    async with ls.open_logs(shared, lease_s=LEASE_S) as one, ls.open_logs(shared, lease_s=LEASE_S) as two:
        yield one, two


async def check_killed(producers: Producers, others: tuple[Logs, Logs], kill_at: int) -> None:
    """Every reader sees the same valid stream, with what it saw before the kill, and one closing."""
    run = f"killed at {kill_at}"
    readers = [asyncio.ensure_future(followed(logs, run)) for logs in (*others, *others)]
    leaving = asyncio.ensure_future(seen_until(others[0], run, kill_at // 2))
    await producers.start(run, kill_at=kill_at)
    first, *rest = await asyncio.gather(*readers)
    assert all(found == first for found in rest)
    assert await followed(others[1], run) == first  # late
    before = await leaving
    assert first[: len(before)] == before
    written = [event for event in first if event in answer(WORDS)]
    errors = [event.error.code for event in first if isinstance(event, ls.ErrorEvent)]
    status = await others[0].status(run)
    assert status is not None
    if isinstance(written[-1] if written else None, ls.Finish):
        assert (errors, status.state) == ([], "closed")
        assert first == answer(WORDS)
    else:
        assert (errors, status.state) == (["producer-lost"], "failed")
        assert written == answer(WORDS)[: len(written)]
        assert len(written) <= max(1, kill_at)  # closing writes the start if there is none
    assert status.tail == len(first) - 1


async def seen_until(logs: Logs, run: str, count: int) -> list[ls.Event]:
    found = []
    async for _, event in logs.follow(run, wait_s=10, errors="events"):
        found.append(event)
        if len(found) >= count:
            break
    return found


async def test_killed_producer_is_closed_for(producers, others) -> None:
    """At the first event, in the middle, and after the last: all at once."""
    await asyncio.gather(*[check_killed(producers, others, point) for point in (0, 7, EVENTS)])


@pytest.mark.slow
async def test_killed_at_every_event(producers, others) -> None:
    for kill_at in range(0, EVENTS + 1, stride(producers.address)):
        await check_killed(producers, others, kill_at)


def stride(address: str) -> int:
    """1; 4 on PostgreSQL, where a run takes longest, unless LLMSTREAM_DRILLS=full."""
    return 4 if address.startswith("postgresql:") and os.environ.get("LLMSTREAM_DRILLS") != "full" else 1


async def check_taken_over(producers: Producers, others: tuple[Logs, Logs], kills: list[int]) -> None:
    """A run whose producers are killed one after the other is one valid stream for every reader."""
    run = f"taken over at {kills}"
    readers = [asyncio.ensure_future(followed(logs, run)) for logs in (*others, others[0])]
    for kill_at in [*kills, None]:
        pid = await producers.start(run, kill_at=kill_at, take_over="repeat", takeover_s=60)
        if kill_at is not None:
            while not is_zombie(pid):
                await asyncio.sleep(0.01)
    assert await producers.ends[run] == "closed"
    first, *rest = await asyncio.gather(*readers)
    assert all(found == first for found in rest)
    void = [position for position, event in enumerate(first) if isinstance(event, ls.events.RetryNotice)]
    texts = [event.delta for event in first[void[-1] if void else 0 :] if isinstance(event, ls.TextDelta)]
    assert texts == [event.delta for event in answer(WORDS) if isinstance(event, ls.TextDelta)]
    assert first[-1] == answer(WORDS)[-1]


def is_zombie(pid: int) -> bool:
    """Killed, and not collected: the forker collects none."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "Z"
    return True


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")
async def test_a_killed_run_is_taken_over(producers, others) -> None:
    await check_taken_over(producers, others, [7])


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")
async def test_taken_over_at_every_event(producers, others) -> None:
    """With one to three kills."""
    chance = random.Random(1)
    for kill_at in range(0, EVENTS, stride(producers.address)):
        again = [chance.randrange(EVENTS) for _ in range(kill_at % 3)]
        await check_taken_over(producers, others, [kill_at, *again])


async def test_processes_come_and_go(producers, others) -> None:
    """Readers go on seeing what new processes write after others have closed the store."""
    for number in range(4):
        await producers.start(f"run-{number}", pause_s=0.0)
        assert await producers.ends[f"run-{number}"] == "closed"
        async with asyncio.timeout(20):
            assert await followed(others[number % 2], f"run-{number}") == answer(WORDS)


async def test_a_sleeping_producer_is_fenced(producers, others) -> None:
    """Paused past its lease, it finds its run closed when it wakes, and writes nothing more."""
    pid = await producers.start("asleep", sleep_at=9)
    found = await followed(others[0], "asleep")
    assert isinstance(found[-2], ls.ErrorEvent)
    assert found[-2].error.code == "producer-lost"
    os.kill(pid, signal.SIGCONT)
    # Asleep in the middle of a commit, it finds that PostgreSQL has ended its connection, and its lease over.
    assert await producers.ends["asleep"] in ("fenced", "log-unavailable")
    assert await followed(others[1], "asleep") == found


async def stopped(pid: int) -> None:
    """Waits until a process has stopped itself; a signal to continue that comes before would be lost."""
    async with asyncio.timeout(20):
        while _state(pid) != "T":
            await asyncio.sleep(0.01)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_a_short_sleep_does_no_harm(producers, others) -> None:
    pid = await producers.start("asleep", sleep_at=9, lease_s=30)
    await stopped(pid)
    os.kill(pid, signal.SIGCONT)
    assert await followed(others[0], "asleep") == answer(WORDS)
    assert await producers.ends["asleep"] == "closed"


async def test_stop_reaches_another_process(producers, others) -> None:
    """Long before the producer would renew its lease."""
    await producers.start("long", words=100_000, pause_s=0.001, lease_s=60)
    seen = await seen_until(others[0], "long", 20)
    assert len(seen) == 20
    assert await others[1].stop("long") is True
    async with asyncio.timeout(10):
        found = await followed(others[0], "long")
    assert isinstance(found[-2], ls.ErrorEvent)
    assert found[-2].error.code == "stopped"
    assert await producers.ends["long"] == "stopped"


async def test_a_silent_run_is_stopped_too(producers, others) -> None:
    """Between two events, without anything to commit."""
    await producers.start("silent", pause_s=3600, lease_s=60)
    assert len(await seen_until(others[0], "silent", 1)) == 1
    await others[1].stop("silent")
    async with asyncio.timeout(10):
        assert len(await followed(others[0], "silent")) == 3
    assert await producers.ends["silent"] == "stopped"


async def test_one_of_two_producers_has_a_run(shared, others) -> None:
    async def attempt(logs: Logs, name: str) -> str:
        async def source():
            yield ls.StreamStart()
            for number in range(50):
                yield ls.TextDelta(f"{name} {number}", name)
                await asyncio.sleep(0)
            yield ls.Finish("stop")

        try:
            return await (await logs.start("one", source())).wait()
        except ls.RunExists:
            return "refused"

    found = await asyncio.gather(*[attempt(others[n % 2], str(n)) for n in range(6)])
    assert sorted(found) == ["closed"] + ["refused"] * 5
    events = await followed(others[0], "one")
    winner = str(found.index("closed"))
    deltas = [event.delta for event in events if isinstance(event, ls.TextDelta)]
    assert deltas == [f"{winner} {number}" for number in range(50)]


async def check_many(address: str, runs: int, words: int) -> None:
    """Each of many runs has three readers that leave and join at random; each sees every frame once."""
    chance = random.Random(runs)
    async with ls.open_logs(address) as here, ls.open_logs(address) as there:

        async def produce(run: str) -> None:
            async def source():
                for event in answer(words):
                    yield event
                    await asyncio.sleep(chance.choice((0, 0, 0.001, 0.02)))

            await (await here.start(run, source())).wait()

        async def read(run: str) -> list[tuple[int, ls.Event]]:
            found: list[tuple[int, ls.Event]] = []
            while not found or not isinstance(found[-1][1], ls.Finish):
                after = found[-1][0] if found else -1
                stay = chance.randint(1, 2 * words)
                async with contextlib.aclosing(
                    chance.choice((here, there)).follow(run, after, wait_s=60)
                ) as events:
                    async for item in events:
                        found.append(item)
                        stay -= 1
                        if not stay:
                            break
                await asyncio.sleep(chance.choice((0, 0.005)))
            return found

        names = [f"run-{number}" for number in range(runs)]
        readers = [asyncio.ensure_future(read(run)) for run in names for _ in range(3)]
        await asyncio.gather(*[produce(run) for run in names])
        whole = list(enumerate(answer(words)))
        assert all([await reader == whole for reader in readers])
        assert grammar.check(answer(words)) == []


async def test_readers_come_and_go(shared: str) -> None:
    await check_many(shared, 20, 15)


@pytest.mark.slow
async def test_a_thousand_runs_are_read(shared: str) -> None:
    """A hundred on PostgreSQL: there, thousands of readers that wait for a start hold the starts up."""
    await check_many(shared, 100 if shared.startswith("postgresql:") else 1_000, 20)
