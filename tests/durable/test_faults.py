"""Faults of what durable runs stand on: a full disk, a database that starts again, a clock that is set."""

from __future__ import annotations

import asyncio
import os
import pickle
import resource
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from llmstream import grammar
from llmstream.durable import Runs
from llmstream.durable.postgres import PostgresRunStore
from llmstream.durable.sqlite import SQLiteRunStore
from llmstream.errors import LogUnavailable
from llmstream.log import open_logs
from tests.durable.clerk import ANSWER, MESSAGE, PROMPT, Effects, clerk
from tests.postgres import PostgresServer

LIMIT_S = 60.0


async def finished(runs: Runs, effects: Effects, run: str = "order") -> None:
    """Workers go on with it until it is over; then it is right, and no tool ran twice."""
    async with asyncio.timeout(LIMIT_S):
        while (info := await runs.status(run)) is None or not info.is_over:
            await runs.resume({"clerk": clerk(effects)}, once=True)
            await asyncio.sleep(0.05)
    found = [event async for event in runs.follow(run)]
    assert grammar.check(found) == []
    assert info.state == "done", info
    assert info.text.startswith(ANSWER)
    tools = effects.lines("tool")
    assert sorted(set(tools)) == sorted(tools)


@pytest.mark.slow
async def test_disk_full_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file may grow: the run is left, nothing that was not recorded counts, and later it goes on."""
    monkeypatch.setattr("llmstream.durable.store_steps._PATIENCE_S", 0.5)
    effects = Effects(tmp_path / "effects")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    full = asyncio.Event()

    def at(place: str) -> None:
        if place == "after weigh 1" and not full.is_set():
            full.set()
            largest = max(path.stat().st_size for path in tmp_path.iterdir())
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, limits[1]))

    address = f"sqlite:{tmp_path / 'runs.db'}"
    async with Runs(address, lease_s=1.0) as runs:
        try:
            run = runs.stream(clerk(effects, at=at), "order", PROMPT)
            with pytest.raises(LogUnavailable, match="disk"):
                async with asyncio.timeout(LIMIT_S):
                    _ = [event async for event in run]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert full.is_set()
        await finished(runs, effects)


RECORDS = ["0/model", "0/call/call_0_0", "0/before_tool/call_0_0", "1/suspension", "inbox/0"]


@pytest.mark.parametrize("key", RECORDS)
async def test_pickled_record_is_refused(key: str, tmp_path: Path) -> None:
    """Nothing is loaded but JSON: a row that somebody has put there runs no code, and ends the run."""
    loaded = tmp_path / "loaded"
    payload = pickle.dumps(Payload(str(loaded)), protocol=0 if key == "1/suspension" else 4)
    effects = Effects(tmp_path / "effects")
    agent = clerk(effects, approval=True, hooks=True)
    async with Runs(f"sqlite:{tmp_path / 'runs.db'}") as runs:
        run = runs.stream(agent, "order", PROMPT)
        _ = [event async for event in run]
        await runs.send("order", MESSAGE)
        await runs.decide("order", {run.pending[0].approval_id: True})
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        changed = connection.execute("update durable_steps set data = ? where key = ?", (payload, key))
        assert changed.rowcount == 1
    connection.close()
    # The message is read before the next step, after the tool that was decided about.
    before = len(effects.lines("tool")) + (key == "inbox/0")
    async with Runs(f"sqlite:{tmp_path / 'runs.db'}") as runs:
        info = await runs.run(agent, "order")
        assert info.state == "failed"
        assert info.error is not None
        assert info.error[0] == "decode-error"
    assert not loaded.exists()
    assert len(effects.lines("tool")) == before


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (self.path,)


async def test_database_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a copy that became one: the run is left as it was, and goes on once it can be written."""
    monkeypatch.setattr("llmstream.durable.store_steps._PATIENCE_S", 0.2)
    effects = Effects(tmp_path / "effects")
    store = SQLiteRunStore(tmp_path / "runs.db")
    turned = list[asyncio.Future[None]]()

    async def turn(value: str) -> None:
        assert store._worker is not None
        await store._worker.run(lambda connection: connection.execute(f"pragma query_only = {value}").close())

    def at(place: str) -> None:
        if place == "before pay" and not turned:
            turned.append(asyncio.ensure_future(turn("on")))

    async with (
        open_logs(f"sqlite:{tmp_path / 'log.db'}") as logs,
        Runs(store, logs=logs, lease_s=1.0) as runs,
    ):
        run = runs.stream(clerk(effects, at=at, jitter_s=0.05), "order", PROMPT)
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(LogUnavailable, match="readonly"):
                _ = [event async for event in run]
        info = await runs.status("order")
        assert info is not None
        assert info.state == "running"
        await turn("off")
        await finished(runs, effects)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["model", "after pay"])
async def test_postgres_starts_again(when: str, postgres: PostgresServer, tmp_path: Path) -> None:
    """In the middle of a run, which waits for it within its lease, as its reader does: nothing is lost."""
    effects = Effects(tmp_path / "effects")
    place = postgres.database(f"again_{when.replace(' ', '_')}")
    starting = list[asyncio.Future[None]]()

    async def start() -> None:
        await asyncio.sleep(0.3)
        await asyncio.to_thread(postgres.start)

    def at(place: str) -> None:
        if place == when and not starting:
            postgres.stop()
            starting.append(asyncio.ensure_future(start()))

    async with Runs(place, lease_s=20.0) as runs:
        async with asyncio.timeout(LIMIT_S):
            run = runs.stream(clerk(effects, at=at), "order", PROMPT)
            found = [event async for event in run]
        assert starting
        await starting[0]
        assert grammar.check(found) == []
        assert (run.state, run.text) == ("done", ANSWER)
        assert len(effects.lines("asked")) == len(effects.lines("tool")) == 3


@pytest.mark.parametrize("clock_s", [-3600.0, 3600.0], ids=["back", "forward"])
async def test_set_clock_takes_no_live_run(clock_s: float, tmp_path: Path) -> None:
    """Leases in a file are by the time since the machine started, so only that makes them pass."""
    now, wall = [1000.0], [1_800_000_000.0]
    store = SQLiteRunStore(tmp_path / "runs.db", clock=lambda: wall[0], lease_clock=lambda: now[0])
    await store.open()
    await store.create("order", "clerk", "{}")
    assert await store.claim("order", "alive", 10.0) is not None
    wall[0] += clock_s
    assert await store.claim("order", "other", 10.0) is None
    assert await store.due(["clerk"], 10) == []
    now[0] += 10.1
    assert [record.run for record in await store.due(["clerk"], 10)] == ["order"]
    assert await store.claim("order", "other", 10.0) is not None
    await store.aclose()


async def test_machine_that_starts_frees_runs(tmp_path: Path) -> None:
    """Its time counts from 0 again; whoever had a lease is dead."""
    store = SQLiteRunStore(tmp_path / "runs.db", lease_clock=lambda: 500_000.0)
    await store.open()
    await store.create("order", "clerk", "{}")
    assert await store.claim("order", "before", 10.0) is not None
    await store.aclose()
    after = SQLiteRunStore(tmp_path / "runs.db", lease_clock=lambda: 30.0, boot="another one")
    await after.open()
    assert [record.run for record in await after.due(["clerk"], 10)] == ["order"]
    await after.aclose()


@pytest.mark.slow
async def test_paused_process_is_ended_in_postgres(postgres: PostgresServer) -> None:
    """It is paused between two messages of a pipeline, with the lock of its run: no timeout ends that."""
    psycopg = pytest.importorskip("psycopg")
    place = postgres.database("paused")
    store = PostgresRunStore(place)
    await store.open()
    await store.create("order", "clerk", "{}")
    paused = await psycopg.AsyncConnection.connect(place, autocommit=True)
    pipeline = paused.pipeline()
    await pipeline.__aenter__()
    await paused.execute("begin")
    await paused.execute("select run from durable_runs where run = 'order' for update")
    # Flushes what is queued, without the message that would end the pipeline.
    paused.pgconn.send_flush_request()
    paused.pgconn.flush()
    async with (
        asyncio.timeout(LIMIT_S),
        await psycopg.AsyncConnection.connect(place, autocommit=True) as free,
    ):
        unlocked = "select 1 from durable_runs where run = 'order' for update skip locked"
        while await (await free.execute(unlocked)).fetchone():
            await asyncio.sleep(0.01)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(LogUnavailable, match="timeout"):
            await store.claim("order", "other", 10.0)
        assert await store.claim("order", "other", 10.0) is not None
    await store.aclose()
    with pytest.raises(psycopg.OperationalError):
        await pipeline.__aexit__(None, None, None)
    await paused.close()
