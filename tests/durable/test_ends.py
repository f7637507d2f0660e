"""Runs whose process dies around their end: the record gets the end that readers have seen in the log."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.agent import Hooks, RunState
from llmstream.durable import Runs
from llmstream.durable.sqlite import SQLiteRunStore
from llmstream.durable.store import State
from llmstream.errors import AuthenticationError, LLMStreamError, LogUnavailable, ServerError, Stopped
from llmstream.events import Usage
from llmstream.log import Logs, open_logs
from llmstream.middleware import Ask, wrap
from llmstream.request import Request
from llmstream.simulator.script import Call, Refuse
from llmstream.testing import ScriptedModel, Turn
from tests.durable.clerk import ANSWER, PROMPT, Effects, clerk

LEASE_S = 0.5
LIMIT_S = 30.0


class Dies(SQLiteRunStore):
    """The store of a process that dies before it records the end of its run."""

    async def leave(self, run: str, epoch: int, state: State, waiting: str, outcome: str) -> bool:
        raise LogUnavailable("the process is dead", retryable=False)


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path / "effects")


@asynccontextmanager
async def dying(tmp_path: Path) -> AsyncIterator[Runs]:
    """Runs of a process that is dead before the record of a run has its end."""
    logs = open_logs(f"sqlite:{tmp_path / 'runs.db'}", lease_s=LEASE_S)
    async with logs, Runs(Dies(tmp_path / "runs.db"), logs=logs, lease_s=LEASE_S) as runs:
        yield runs


@asynccontextmanager
async def living(tmp_path: Path) -> AsyncIterator[Runs]:
    async with asyncio.timeout(LIMIT_S), Runs(f"sqlite:{tmp_path / 'runs.db'}", lease_s=LEASE_S) as runs:
        yield runs


async def produced(runs: Runs, agent: ls.Agent, run: str = "order") -> list[ls.Event]:
    """Lets a process produce a run up to the end of its log; its events."""
    await runs.submit("clerk", run, PROMPT)
    owned = await runs._worker.take(run, agent)
    assert owned is not None
    await owned.task
    info = await runs.status(run)
    assert info is not None
    assert info.state == "running"
    return await logged(runs.logs, run)


async def logged(logs: Logs, run: str = "order") -> list[ls.Event]:
    page = await logs.read(run)
    assert page is not None
    return [event for _, event in page.events]


def down(effects: Effects) -> ls.Agent:
    """Its model refuses the key."""
    effects.add("asked down")
    return ls.Agent(ScriptedModel(Turn(fault=Refuse(status=401))), name="clerk")


@pytest.mark.parametrize("how", ["run", "stream", "resume"])
async def test_record_gets_the_end_of_the_log(tmp_path: Path, effects: Effects, how: str) -> None:
    """Also before the lease of the dead has passed: nobody is told that the run is in progress."""
    async with dying(tmp_path) as runs:
        events = await produced(runs, clerk(effects))
    done = effects.path.read_text()
    async with living(tmp_path) as runs:
        if how == "resume":
            await asyncio.sleep(LEASE_S)
            assert await runs.resume({"clerk": clerk(effects)}, once=True) == 1
            info = await runs.status("order")
        elif how == "run":
            info = await runs.run(clerk(effects), "order")
        else:
            run = runs.stream(clerk(effects), "order")
            assert [event async for event in run] == events
            assert run.state == "done"
            info = await runs.status("order")
        assert info is not None
        assert (info.state, info.text, info.finish_reason) == ("done", ANSWER, "stop")
        run = runs.follow("order")
        assert (await run.collect()).text == ANSWER
        assert await logged(runs.logs) == events
    assert effects.path.read_text() == done


@pytest.mark.parametrize("how", ["run", "resume"])
async def test_finish_without_the_end(tmp_path: Path, effects: Effects, how: str) -> None:
    """The log has the finish, and is open: it is closed, and the record has the conversation."""
    async with dying(tmp_path) as runs:
        await produced(runs, clerk(effects))
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        # As it is between the commit of the finish and that of the end.
        connection.execute("update runs set state = 'open', ended = null, lost_at = 4e9")
    connection.close()
    done = effects.path.read_text()
    async with living(tmp_path) as runs:
        if how == "resume":
            await asyncio.sleep(LEASE_S)
            await runs.resume({"clerk": clerk(effects)}, once=True)
        info = await runs.run(clerk(effects), "order")
        assert (info.state, info.text) == ("done", ANSWER)
        status = await runs.logs.status("order")
        assert status is not None
        assert status.state == "closed"
    assert effects.path.read_text() == done


async def test_failure_is_not_tried_again(tmp_path: Path, effects: Effects) -> None:
    """Readers have seen that it failed; the model, which would respond by now, is not asked."""
    async with dying(tmp_path) as runs:
        events = await produced(runs, down(effects))
    async with living(tmp_path) as runs:
        info = await runs.run(clerk(effects), "order")
        assert info.state == "failed"
        assert info.error is not None
        assert info.error[0] == AuthenticationError.code
        assert await logged(runs.logs) == events
        with pytest.raises(AuthenticationError):
            await runs.follow("order").collect()
    assert effects.lines("asked") == ["down"]
    assert effects.lines("tool") == []


async def test_stop_condition_has_decided(tmp_path: Path, effects: Effects) -> None:
    """It ended the run in the process that died, and would not do so now: no further step follows."""

    async def stops(state: RunState) -> bool:
        return True

    async with dying(tmp_path) as runs:
        await produced(runs, clerk(effects, stop_when=stops))
    done = effects.path.read_text()
    async with living(tmp_path) as runs:
        info = await runs.run(clerk(effects), "order")
        assert (info.state, info.text, info.finish_reason) == ("done", "Weighing.", "tool-calls")
        run = runs.follow("order")
        await run.collect()
        assert [len(message.tool_results) for message in run.messages()][-1] == 2
    assert effects.path.read_text() == done


async def test_hooks_of_a_newer_version(tmp_path: Path, effects: Effects) -> None:
    """They are not asked about a run whose end readers have seen; it has all its messages and tokens."""
    asked: list[str] = []
    hooks = Hooks(
        before_model=lambda state: asked.append("before_model"),
        after_model=lambda state, message: asked.append("after_model"),
        before_tool=lambda state, call: asked.append("before_tool"),
        after_tool=lambda state, call, status: asked.append("after_tool"),
    )
    async with dying(tmp_path) as runs:
        events = await produced(runs, clerk(effects, deep=True))
    async with living(tmp_path) as runs:
        info = await runs.run(clerk(effects, deep=True, hooks=hooks), "order")
        assert (info.state, info.text) == ("done", ANSWER)
        assert isinstance(events[-1], ls.Finish)
        assert info.usage == events[-1].usage
        run = runs.follow("order")
        await run.collect()
        results = [result.tool_call_id for message in run.messages() for result in message.tool_results]
        assert set(results) == {event.tool_call_id for event in events if isinstance(event, ls.ToolResult)}
    assert asked == []


async def test_stopped_run_stays_stopped(tmp_path: Path, effects: Effects) -> None:
    """Its process stopped it, ended its log and died: nothing of it is done any more."""
    begun = asyncio.Event()
    async with dying(tmp_path) as runs:
        await runs.submit("clerk", "order", PROMPT)
        owned = await runs._worker.take("order", clerk(effects, jitter_s=60.0, at=lambda _: begun.set()))
        assert owned is not None
        await begun.wait()
        while "0/model" not in await runs._store.steps("order"):
            await asyncio.sleep(0.01)
        owned.stop()
        await owned.task
        events = await logged(runs.logs)
    done = effects.path.read_text()
    async with living(tmp_path) as runs:
        info = await runs.run(clerk(effects), "order")
        assert (info.state, info.failure) == ("stopped", ("stopped", "the run was stopped"))
        with pytest.raises(Stopped):
            await runs.stream(clerk(effects), "order").collect()
        assert await logged(runs.logs) == events
    assert effects.path.read_text() == done


async def test_tokens_of_a_run_without_process(place: str) -> None:
    """Nobody has written the outcome of a run that is stopped after its process has died."""
    died = asyncio.Event()

    async def pay() -> str:
        """Pay."""
        died.set()
        await asyncio.Event().wait()
        return "paid"

    turns = ScriptedModel(Turn(text="Paying.", calls=(Call("pay"),)))
    agent = ls.Agent(turns, name="clerk", tools=[pay], price=lambda model, usage: 1.0)
    async with Runs(place) as runs:
        reading = asyncio.ensure_future(runs.run(agent, "order", PROMPT))
        await died.wait()
        reading.cancel()
    async with Runs(place) as runs:
        await runs.stop("order")
        info = await runs.status("order")
        assert [info] == await runs.list()
        assert info is not None
        assert (info.state, info.cost_estimate) == ("stopped", 1.0)
        assert info.usage.output_tokens


async def test_tokens_of_a_failed_response(place: str) -> None:
    """The end of the log has them, and so does the status."""
    used = Usage(input_tokens=7, output_tokens=0, total_tokens=7)

    async def breaks(request: Request, ask: Ask) -> AsyncIterator[ls.Event]:
        yield ls.StreamStart()
        failure = ServerError("The model is down.")
        failure.usage = used
        raise failure

    agent = ls.Agent(wrap(ScriptedModel(ANSWER), breaks), name="clerk", price=lambda model, usage: 1.0)
    async with Runs(place) as runs:
        found = list[ls.Event]()
        with pytest.raises(ServerError):
            async for event in runs.stream(agent, "order", PROMPT):
                found.append(event)
        info = await runs.status("order")
        assert [info] == await runs.list()
        assert info is not None
        assert isinstance(found[-1], ls.Finish)
        assert info.usage == found[-1].usage == used
        assert info.cost_estimate == 1.0


async def test_requested_stop_outlives_its_process(tmp_path: Path, effects: Effects) -> None:
    """The stop was recorded, and the process that had the run died before it saw it."""
    async with living(tmp_path) as runs:
        await runs.submit("clerk", "order", PROMPT)
        assert await runs._store.claim("order", "dead", LEASE_S) is not None
        record = await runs._store.request_stop("order")
        assert record is not None
        assert (record.state, record.stopping) == ("running", True)
        info = await runs.run(clerk(effects), "order")
        assert info.state == "stopped"
        with pytest.raises(Stopped):
            await runs.follow("order").collect()
    assert not effects.path.exists()


@pytest.mark.parametrize("then", ["stop", "stream", "follow"])
async def test_stop_that_was_cut_short(tmp_path: Path, effects: Effects, then: str) -> None:
    """Its log has no end yet, for which readers wait: whoever comes next adds it."""
    async with living(tmp_path) as runs:
        run = runs.stream(clerk(effects, approval=True), "order", PROMPT)
        _ = [event async for event in run]
        record = await runs._store.request_stop("order")
        assert record is not None
        assert record.state == "stopped"
        if then == "stop":
            assert not await runs.stop("order")
        else:
            again = runs.follow("order") if then == "follow" else runs.stream(clerk(effects), "order")
            with pytest.raises(Stopped):
                await again.collect()
        with pytest.raises(LLMStreamError):
            _ = [item async for item in runs.logs.follow("order")]


async def test_delete_that_was_cut_short(
    tmp_path: Path, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it has deleted by then, no new run of the id has the end of the old one."""

    async def died(self: Any, run: str) -> None:
        raise LogUnavailable("the process is dead", retryable=False)

    async with living(tmp_path) as runs:
        for place in (Logs, SQLiteRunStore):
            await runs.run(clerk(effects), "order", PROMPT)
            with monkeypatch.context() as patch, pytest.raises(LogUnavailable):
                patch.setattr(place, "delete", died)
                await runs.delete("order")
            if await runs.status("order") is not None:
                await runs.delete("order")
            info = await runs.run(ls.Agent(ScriptedModel("New."), name="clerk"), "order", PROMPT)
            assert info.text == "New."
            await runs.delete("order")
