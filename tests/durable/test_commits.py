"""Which records of a step share a commit, and that nothing comes before its record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.durable import Runs
from llmstream.durable.sqlite import SQLiteRunStore
from llmstream.durable.tables import Change, first_epoch
from llmstream.errors import LogUnavailable
from llmstream.events import RetryNotice, StepFinish
from llmstream.log import open_logs
from llmstream.request import Request
from llmstream.simulator.script import Call
from llmstream.testing import ScriptedModel, Turn
from tests.durable.clerk import ANSWER, PROMPT, Effects, clerk

LIMIT_S = 60.0
STEPS = 10


class Counted(SQLiteRunStore):
    """Notes the keys of each commit."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.commits = list[list[str]]()

    async def _commit(self, changes: Sequence[Change]) -> list[Any]:
        found = [str(change.values[3]) for change in changes if len(change.values) > 5]
        self.commits.append([key for key in found if key[0].isdigit() and "/" in key])
        return await super()._commit(changes)


class Late(SQLiteRunStore):
    """Records responses only once the gate is open; or refuses to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate, self.begun = asyncio.Event(), asyncio.Event()
        self.fails = False

    async def begin(self, run: str, epoch: int, key: str) -> bool:
        found = await super().begin(run, epoch, key)
        self.begun.set()
        return found

    async def done(self, run: str, epoch: int, key: str, data: bytes, usage: tuple[str, str]) -> bool:
        if key.endswith("/model"):
            if self.fails:
                await self.begun.wait()
                raise LogUnavailable("the disk is full", retryable=False)
            await self.gate.wait()
        return await super().done(run, epoch, key, data, usage)


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path / "effects")


def weigher() -> ls.Agent:
    """Ten steps of one call each."""

    def weigh(item: int) -> str:
        """Weigh an item."""
        return "2 kg"

    def answer(request: Request) -> Turn:
        number = sum(message.role == "assistant" for message in request.messages)
        return Turn(text="Done.") if number == STEPS else Turn(calls=(Call("weigh", {"item": 1}),))

    return ls.Agent(ScriptedModel(answer), name="clerk", tools=[weigh], max_steps=STEPS + 1)


async def test_two_commits_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A response and the beginning of its call, then the end of the call: each waits for the disk once."""
    # However loaded the machine is, the run comes to its call in time.
    monkeypatch.setattr("llmstream.durable.store_steps._FOLLOWS_S", LIMIT_S)
    store = Counted(tmp_path / "runs.db")
    async with open_logs(f"sqlite:{tmp_path / 'log.db'}") as logs, Runs(store, logs=logs) as runs:
        info = await runs.run(weigher(), "order", "Weigh.")
    assert (info.state, info.text) == ("done", "Done.")
    of_steps = [sorted(set(keys)) for keys in store.commits if keys]
    expected = list[list[str]]()
    for step in range(STEPS):
        call = f"{step}/call/call_{step}_0"
        expected += [[call, f"{step}/model"], [call]]
    assert of_steps == [*expected, [f"{STEPS}/model"]]


async def test_nothing_comes_before_a_record(tmp_path: Path, effects: Effects) -> None:
    """While a response is not recorded, no call of it runs, and no reader sees its end."""
    store = Late(tmp_path / "runs.db")
    seen = list[ls.Event]()
    async with open_logs(f"sqlite:{tmp_path / 'log.db'}") as logs, Runs(store, logs=logs) as runs:

        async def read() -> None:
            async for event in runs.stream(clerk(effects), "order", PROMPT):
                seen.append(event)

        reading = asyncio.create_task(read())
        async with asyncio.timeout(LIMIT_S):
            await store.begun.wait()
            while not any(isinstance(event, ls.ToolCall) for event in seen):
                await asyncio.sleep(0.01)
            for _ in range(20):  # turns of the loop, in which a call would run
                await asyncio.sleep(0)
            assert effects.lines("tool") == []
            assert not any(isinstance(event, StepFinish | ls.ToolResult) for event in seen)
            store.gate.set()
            await reading
    assert grammar.check(seen) == []
    assert len(effects.lines("tool")) == 3


async def test_repeatable_tool_waits_as_well(tmp_path: Path) -> None:
    """It records no beginning, and its call could be another one after a crash."""
    store, ran = Late(tmp_path / "runs.db"), asyncio.Event()

    @ls.tool(idempotent=True)
    async def weigh(item: int) -> str:
        """Weigh an item."""
        assert store.gate.is_set()
        ran.set()
        return "2 kg"

    turns = (Turn(calls=(Call("weigh", {"item": 1}),)), Turn(text=ANSWER))
    agent = ls.Agent(ScriptedModel(*turns), name="clerk", tools=[weigh])
    async with open_logs(f"sqlite:{tmp_path / 'log.db'}") as logs, Runs(store, logs=logs) as runs:
        running = asyncio.create_task(runs.run(agent, "order", PROMPT))
        async with asyncio.timeout(LIMIT_S):
            while await logs.status("order") is None:
                await asyncio.sleep(0.01)
            for _ in range(50):
                await asyncio.sleep(0)
            assert not ran.is_set()
            store.gate.set()
            assert (await running).text == ANSWER
    assert ran.is_set()


async def test_unrecorded_response_is_void(tmp_path: Path, effects: Effects) -> None:
    """Its calls had begun, and did not run: the run is left, and the next process asks again."""
    store = Late(tmp_path / "runs.db")
    store.fails = True
    store.gate.set()
    log = f"sqlite:{tmp_path / 'log.db'}"
    async with open_logs(log) as logs, Runs(store, logs=logs, lease_s=1.0) as runs:
        async with asyncio.timeout(LIMIT_S):
            await runs.submit("clerk", "order", PROMPT)
            await runs.resume({"clerk": clerk(effects)}, once=True)
            info = await runs.status("order")
            assert info is not None
            assert (info.state, effects.lines("tool")) == ("running", [])
            store.fails = False
            while (info := await runs.status("order")) is None or not info.is_over:
                await runs.resume({"clerk": clerk(effects)}, once=True)
                await asyncio.sleep(0.05)
        found = [event async for event in runs.follow("order")]
    assert info.state == "done"
    assert grammar.check(found) == []
    assert sum(isinstance(event, RetryNotice) for event in found) == 1
    assert info.text.startswith(ANSWER)
    assert len(effects.lines("asked")) == 4


async def test_sub_agent_is_recorded_first(tmp_path: Path, effects: Effects) -> None:
    """The record of its call has the tokens of its last response, which must be there by then."""

    keys = list[str]()

    class Ordered(SQLiteRunStore):
        async def done(self, run: str, epoch: int, key: str, data: bytes, usage: tuple[str, str]) -> bool:
            found = await super().done(run, epoch, key, data, usage)
            keys.append(key)
            return found

    store = Ordered(tmp_path / "runs.db")
    async with open_logs(f"sqlite:{tmp_path / 'log.db'}") as logs, Runs(store, logs=logs) as runs:
        info = await runs.run(clerk(effects, deep=True), "order", PROMPT)
        assert info.text == ANSWER
    call = "0/call/call_0_0"
    inner = [key for key in keys if key.startswith(f"{call}/") and key.endswith("/model")]
    assert len(inner) == 3
    assert keys.index(call) > max(map(keys.index, inner))


async def test_busy_process_keeps_its_run(tmp_path: Path, effects: Effects) -> None:
    """It holds the loop for longer than the lease at each response; nobody else has taken the run."""
    lease_s = 0.1

    def at(place: str) -> None:
        if place == "model":
            time.sleep(2 * lease_s)

    async with Runs(f"sqlite:{tmp_path / 'runs.db'}", lease_s=lease_s) as runs:
        async with asyncio.timeout(LIMIT_S):
            found = [event async for event in runs.stream(clerk(effects, at=at), "order", PROMPT)]
        record = await runs._store.record("order")
    assert record is not None
    assert (record.state, record.epoch) == ("done", first_epoch(record.created) + 1)  # claimed once
    assert not any(isinstance(event, RetryNotice) for event in found)
    assert len(effects.lines("asked")) == 3
