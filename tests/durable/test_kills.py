"""Runs whose process is killed at an effect, or sleeps past its lease: nothing is lost, no tool runs twice.

The quick form kills at a handful of places. The full one kills at every place, twice, in each variant:
`scripts/drills kills`.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.durable import Runs
from llmstream.errors import InvalidRequest, LogUnavailable, RunNotFound
from tests.durable.clerk import ANSWER, MESSAGE, Effects
from tests.durable.processes import Process, Processes, forked
from tests.progress import Progress

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")

SWEEP = bool(os.environ.get("DURABLE_SWEEP"))
AT_ONCE = 6
FINISH_S = 120.0


class Order:
    """One run in a folder of its own, and the processes that work on it."""

    def __init__(
        self, folder: Path, processes: Processes, agent: dict[str, Any], address: str | None = None
    ) -> None:
        folder.mkdir()
        self.address = address or f"sqlite:{folder / 'runs.db'}"
        self.effects = Effects(folder / "effects")
        self._processes = processes
        self._typed = bool(agent.get("typed"))
        self._job = {"address": self.address, "effects": str(self.effects.path), "agent": agent}

    async def begin(self, **job: Any) -> Process:
        return await self._processes.start(prompt=True, **self._job, **job)

    async def resume(self, **job: Any) -> Process:
        return await self._processes.start(**{**self._job, **job})

    async def finish(self, **job: Any) -> None:
        """Workers take it up until it is over; a person approves what waits.

        By time and not by attempts: on a loaded machine a worker may lose its short lease again and again.
        """
        until = asyncio.get_running_loop().time() + FINISH_S
        while True:
            state, _ = await (await self.resume(**job)).state()
            async with Runs(self.address) as runs:
                info = await runs.status("order")
                if info is not None and info.is_over:
                    assert info.state == "done", (state, info)
                    return
                assert asyncio.get_running_loop().time() < until, (state, info)
                if info is not None and info.state == "waiting" and not info.ready:
                    await runs.decide("order", {call.approval_id: True for call in info.pending})
                else:
                    await asyncio.sleep(
                        0.1
                    )  # its lease has not passed, or the worker could not read the file

    async def tell(self) -> bool:
        """Sends a message, while nobody has the run; False if there is none that could get it."""
        async with Runs(self.address) as runs:
            try:
                await runs.send("order", MESSAGE)
            except (InvalidRequest, RunNotFound):
                return False
        return True

    async def check(self, *, told: bool = False) -> None:
        """As `check_run`; and the message that was sent is in the history once."""
        async with Runs(self.address) as runs:
            await check_run(runs, "order", self.effects, typed=self._typed)
            run = runs.follow("order")
            await run.collect()
            assert [m.text for m in run.messages()].count(MESSAGE) == told


async def check_run(runs: Runs, run: str, effects: Effects, *, typed: bool = False) -> None:
    """The answer is right, the log is one valid sentence, and no tool ran twice."""
    pages = [item async for item in runs.logs.follow(run)]
    info = await runs.status(run)
    assert info is not None
    assert info.state == "done"
    assert [seq for seq, _ in pages] == list(range(len(pages)))
    assert grammar.check(event for _, event in pages) == []
    last = pages[-1][1]
    assert isinstance(last, ls.Finish)
    assert info.usage == last.usage
    ran = Counter(key for key in effects.lines("tool") if key.startswith(run + "/"))
    assert set(ran.values()) <= {1}, ran  # each may have been interrupted before its effect
    if typed:
        assert info.text == f'{{"text":"{ANSWER}"}}'
    elif "may have had effects" in info.text:
        assert info.text.startswith(ANSWER)
    else:
        assert info.text == ANSWER


async def places_of(tmp_path: Path, processes: Processes, agent: dict[str, Any]) -> int:
    """How many places a run passes that nobody kills."""
    order = Order(tmp_path / "whole", processes, agent)
    state, places = await (await order.begin()).state()
    assert state in ("done", "waiting"), state
    if state == "waiting":
        await order.finish()
    await order.check()
    return places


async def killed(order: Order, *places: int, tells: bool = False) -> None:
    """Kills the first process at one place, each other at a place of its own, and lets the last one end.

    tells: somebody sends a message after the first kill
    """
    await (await order.begin(kill_at=places[0])).died()
    told = tells and await order.tell()
    for place in places[1:]:
        await asyncio.sleep(0.6)  # the lease of the dead
        await (await order.resume(kill_at=place)).died()
    await order.finish()
    await order.check(told=told)


async def many(work: list[Any]) -> None:
    """Runs coroutines, some at a time; reports all that failed."""
    room, failures = asyncio.Semaphore(AT_ONCE), 0
    progress = Progress(os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[2], len(work))

    async def one(each: Any) -> None:
        nonlocal failures
        async with room:
            try:
                await each
            except BaseException as error:
                failures += 1
                progress.say(f"FAILED {error!r:.500}")
                raise
            finally:
                progress.step(f"{failures} failed")

    failed = [e for e in await asyncio.gather(*map(one, work), return_exceptions=True) if e is not None]
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {len(work)} runs failed", failed)


async def slept(order: Order, place: int) -> None:
    """A process stops at a place past its lease, another one takes the run over, then the first one wakes."""
    first = await order.begin(stop_at=place)
    if not await first.stopped():
        return
    try:
        await order.finish()
    except LogUnavailable:
        locked = True  # it stopped in the middle of a commit of its log, and has the file's lock
    else:
        locked = False
    first.wake()
    end, _ = await first.state()
    if locked:
        await order.finish()
    # The last one: PostgreSQL has closed its connection, in which it slept with the lock of the run.
    assert end in ("done", "lost", "fenced", "producer-lost", "waiting", "log-unavailable"), end
    await order.check()


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "approval": {"approval": True},
    "hooks": {"hooks": True, "jitter_s": 0.005},
    "deep": {"deep": True},
    "deep approval": {"deep_approval": True},
    "fallback": {"falls_back": True},
    "repaired": {"typed": True},
    "messages": {"tells": True},
}


async def test_kill_at_a_handful_of_places(tmp_path: Path, make_place: Callable[[], str]) -> None:
    async with forked() as processes:
        places = await places_of(tmp_path, processes, {})
        assert places > 20
        chosen = sorted({round(i * (places - 1) / 2) for i in range(3)})
        await many([killed(Order(tmp_path / str(at), processes, {}, make_place()), at) for at in chosen])


@pytest.mark.slow
async def test_sleeper_does_no_harm(tmp_path: Path, make_place: Callable[[], str]) -> None:
    async with forked() as processes:
        await many([slept(Order(tmp_path / str(at), processes, {}, make_place()), at) for at in (1, 8, 15)])


@pytest.mark.slow
@pytest.mark.parametrize("clock_s", [-3600.0, 3600.0], ids=["back", "forward"])
async def test_clock_is_set_after_a_kill(tmp_path: Path, clock_s: float) -> None:
    """The lease of the dead passes as ever, whatever the clock of those who take over says."""

    async def shifted(at: int) -> None:
        order = Order(tmp_path / str(at), processes, {})
        await (await order.begin(kill_at=at)).died()
        await order.finish(clock_s=clock_s)
        await order.check()

    async with forked() as processes:
        await many([shifted(at) for at in (4, 11)])


@pytest.mark.slow
async def test_newer_version_goes_on(tmp_path: Path) -> None:
    """The agent that takes over has a tool and a hook more."""

    async def updated(at: int) -> None:
        order = Order(tmp_path / str(at), processes, {})
        await (await order.begin(kill_at=at)).died()
        await order.finish(agent={"more": True, "hooks": True})
        await order.check()

    async with forked() as processes:
        await many([updated(at) for at in (4, 9, 14)])


@pytest.mark.slow
@pytest.mark.skipif(not SWEEP, reason="the full sweep: DURABLE_SWEEP=1")
@pytest.mark.parametrize("variant", ["plain", "hooks"])
async def test_sleep_at_every_place(tmp_path: Path, variant: str, make_place: Callable[[], str]) -> None:
    agent = VARIANTS[variant]
    async with forked() as processes:
        places = range(await places_of(tmp_path, processes, agent))
        await many([slept(Order(tmp_path / f"{at}", processes, agent, make_place()), at) for at in places])


@pytest.mark.slow
@pytest.mark.skipif(not SWEEP, reason="the full sweep: DURABLE_SWEEP=1")
@pytest.mark.parametrize("variant", VARIANTS)
async def test_kill_at_every_place(tmp_path: Path, variant: str, make_place: Callable[[], str]) -> None:
    agent = dict(VARIANTS[variant])
    tells = agent.pop("tells", False)
    async with forked() as processes:
        places = await places_of(tmp_path, processes, agent)

        def order(name: str) -> Order:
            return Order(tmp_path / name, processes, agent, make_place())

        await many([killed(order(f"{at}"), at, tells=tells) for at in range(places)])
        await many([killed(order(f"{at}-{3 * at % 7}"), at, 3 * at % 7, tells=tells) for at in range(places)])
