"""Fleets of workers that are killed at any time, not at chosen places.

The quick form kills a few workers. The full one kills some of four workers every five seconds, for five
minutes in each database (`scripts/drills fleet`), and recovers 200 runs after random delays
(`scripts/drills recoveries`).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from llmstream.durable import Runs
from tests.durable.clerk import PROMPT, Effects
from tests.durable.processes import Process, Processes, forked
from tests.durable.test_kills import SWEEP, Order, check_run, many
from tests.progress import Progress

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked"),
]

WORKERS = 4
LIMIT_S = 120.0


class Fleet:
    """Workers of one database, which work until they are killed."""

    def __init__(self, folder: Path, processes: Processes, address: str) -> None:
        self.effects = Effects(folder / "effects")
        self.kills = 0
        self._processes = processes
        self._job = {"address": address, "effects": str(self.effects.path), "agent": {"jitter_s": 0.4}}
        self._living = list[Process]()

    async def fill(self) -> None:
        while len(self._living) < WORKERS:
            self._living.append(await self._processes.start(forever=True, **self._job))

    async def kill_some(self) -> None:
        """One worker, or all of them."""
        for worker in random.sample(self._living, random.choice([1, 1, 2, WORKERS])):
            self._living.remove(worker)
            await worker.kill()
            self.kills += 1


async def drill(folder: Path, processes: Processes, address: str, *, seconds: float, every_s: float) -> None:
    """Gives eight runs at a time to a fleet for a while, with one kill or more; all end, and are right."""
    fleet, names = Fleet(folder, processes, address), itertools.count()
    loop = asyncio.get_running_loop()
    until, next_kill = loop.time() + seconds, loop.time() + every_s
    given, progress = list[str](), Progress(f"runs ended, on {address.partition(':')[0]}")
    async with Runs(address) as runs:
        opened = set[str]()
        while (going := loop.time() < until or not fleet.kills) or opened:
            assert loop.time() < until + LIMIT_S, f"{opened} do not end"
            while going and len(opened) < 8:
                given.append(f"order-{next(names)}")
                opened.add(given[-1])
                await runs.submit("clerk", given[-1], PROMPT)
            await fleet.fill()
            if going and loop.time() >= next_kill:
                await fleet.kill_some()
                next_kill = loop.time() + every_s
            await asyncio.sleep(0.1)
            for run in list(opened):
                info = await runs.status(run)
                if info is not None and info.is_over:
                    opened.remove(run)
                    progress.step(f"{fleet.kills} workers killed")
        for run in given:
            await check_run(runs, run, fleet.effects)
    print(f"{len(given)} runs over {fleet.kills} kills")


async def test_workers_killed_at_any_time(tmp_path: Path, make_place: Callable[[], str]) -> None:
    async with forked() as processes:
        seconds, every_s = (300.0, 5.0) if SWEEP else (2.0, 0.6)
        await drill(tmp_path, processes, make_place(), seconds=seconds, every_s=every_s)


@pytest.mark.skipif(not SWEEP, reason="the full form: DURABLE_SWEEP=1")
async def test_recoveries_after_random_delays(tmp_path: Path, make_place: Callable[[], str]) -> None:
    """200 runs, each killed after a random delay, up to four times."""

    async def recovered(number: int) -> None:
        order = Order(tmp_path / str(number), processes, {"jitter_s": 0.1}, make_place())
        first = await order.begin()
        await asyncio.sleep(random.uniform(0.0, 0.5))
        await first.kill()
        for _ in range(random.randrange(4)):
            await asyncio.sleep(random.uniform(0.0, 1.0))
            process = await order.resume(forever=True)
            await asyncio.sleep(random.uniform(0.0, 1.0))
            await process.kill()
        if (await runs_of(order)) is None:  # killed before it had stored its run
            await (await order.begin()).state()
        await order.finish()
        await order.check()

    async with forked() as processes:
        await many([recovered(number) for number in range(200)])


async def runs_of(order: Order) -> object:
    async with Runs(order.address) as runs:
        return await runs.status("order")
