"""Runs that change hands in unusual ways: killed deciders, sleepers behind the dead, newer versions.

The quick form is a few places. The full one is every place: `scripts/drills takeovers`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from llmstream.durable import Runs
from tests.durable.processes import forked
from tests.durable.test_kills import SWEEP, Order, many, places_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked"),
]

ACTS = ["decide", "send", "stop"]


async def waiting(order: Order) -> None:
    """A run that waits for an approval, and that no process has."""
    state, _ = await (await order.begin()).state()
    assert state == "waiting", state


async def state_of(order: Order) -> str:
    async with Runs(order.address) as runs:
        info = await runs.status("order")
        assert info is not None
        return info.state


async def acted(order: Order, act: str, place: int) -> None:
    """Who decides, sends or stops is killed at a place and does it again; it counts once."""
    await waiting(order)
    await (await order.resume(act=act, kill_at=place)).died()
    end, _ = await (await order.resume(act=act)).state()
    # The first one was killed after it had decided or stopped.
    assert end in ("acted", "invalid-request"), end
    if act == "stop":
        assert await state_of(order) == "stopped"
        await (await order.resume()).state()
        assert await state_of(order) == "stopped"
        assert len(order.effects.lines("tool")) == 2
        return
    await order.finish()
    if act == "decide":
        await order.check()
        return
    async with Runs(order.address) as runs:
        run = runs.follow("order")
        await run.collect()
        sent = [message.text for message in run.messages()].count("And be quick.")
        # A message has no id: sent again, it is another one.
        assert sent in (1, 2)


@pytest.mark.parametrize("act", ACTS)
async def test_kill_while_somebody_acts(tmp_path: Path, act: str, make_place: Callable[[], str]) -> None:
    async with forked() as processes:
        orders = [Order(tmp_path / str(at), processes, {"approval": True}, make_place()) for at in (0, 1)]
        await many([acted(order, act, at) for at, order in enumerate(orders)])


async def slept_behind(order: Order, stop_at: int, kill_at: int) -> None:
    """One stops, a second one goes on with the run and is killed, the first one wakes, others finish."""
    first = await order.begin(stop_at=stop_at)
    if not await first.stopped():
        return
    await asyncio.sleep(0.6)  # its lease
    second = await order.resume(kill_at=kill_at)
    locked = False
    try:
        await second.died()
    except TimeoutError:
        locked = True  # the first one has the file's lock
    first.wake()
    end, _ = await first.state()
    assert end in ("done", "lost", "fenced", "producer-lost", "waiting", "log-unavailable"), end
    if locked:
        await second.kill()
    await order.finish()
    await order.check()


@pytest.mark.parametrize("variant", ["plain", "hooks"])
async def test_sleeper_wakes_behind_the_dead(
    tmp_path: Path, variant: str, make_place: Callable[[], str]
) -> None:
    agent = {"hooks": True, "jitter_s": 0.005} if variant == "hooks" else {}
    async with forked() as processes:
        count = await places_of(tmp_path, processes, agent) if SWEEP else 0
        places = list(range(count)) or [5, 12]
        await many(
            [
                slept_behind(Order(tmp_path / str(at), processes, agent, make_place()), at, 2 + at % 5)
                for at in places
            ]
        )


async def updated(order: Order, place: int) -> None:
    await (await order.begin(kill_at=place)).died()
    await order.finish(agent={"more": True, "hooks": True})
    await order.check()


async def test_newer_version_among_tools(tmp_path: Path, make_place: Callable[[], str]) -> None:
    """It has a tool and a hook more, and takes over while some of the parallel tools are done."""
    async with forked() as processes:
        whole = await places_of(tmp_path, processes, {}) if SWEEP else 0
        # The tools of the first step: their beginnings, effects and ends.
        places = range(whole) if whole else range(6, 9)
        await many([updated(Order(tmp_path / str(at), processes, {}, make_place()), at) for at in places])


async def approved_while_dead(order: Order, place: int) -> None:
    """The sub-agent waits, its process is dead by then or later, and a person approves."""
    await (await order.begin(kill_at=place)).died()
    await order.finish()
    await order.check()


async def test_kill_around_a_deep_approval(tmp_path: Path, make_place: Callable[[], str]) -> None:
    agent = {"deep_approval": True}
    async with forked() as processes:
        whole = await places_of(tmp_path, processes, agent)
        places = range(whole) if SWEEP else range(whole - 4, whole, 2)
        orders = {at: Order(tmp_path / str(at), processes, agent, make_place()) for at in places}
        await many([approved_while_dead(order, at) for at, order in orders.items()])
