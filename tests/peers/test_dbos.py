"""Durable runs as workflows of DBOS: it starts them again, and no tool runs twice.

This file is also the program that is killed: `python -m tests.peers.test_dbos FOLDER PLACE [EXECUTOR]`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmstream.durable import Runs
from llmstream.errors import InvalidRequest
from tests.durable.clerk import ANSWER, PROMPT, Effects, clerk
from tests.postgres import PostgresServer, removed
from tests.postgres import started as started_server

dbos = pytest.importorskip("dbos", reason="dbos is not installed (extra: frameworks)")

from llmstream.durable import dbos as adapter  # noqa: E402  # dbos may be missing

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0
LEASE_S = 1.0
EVERY = pytest.mark.skipif(not os.environ.get("DURABLE_SWEEP"), reason="every combination: DURABLE_SWEEP=1")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def launched(folder: Path, executor: str = "local") -> None:
    """DBOS on the database that the folder names, or on a file in it."""
    address = folder / "address"
    if address.exists():
        where: dict[str, Any] = {"system_database_url": address.read_text()}
    else:
        where = {"system_database_engine": adapter.engine(f"sqlite:{folder / 'dbos.db'}")}
    dbos.DBOS(
        config={
            "name": "clerks",
            **where,
            "serializer": dbos.DBOSPortableJSONSerializer(),
            "application_version": "1",
            "executor_id": executor,
            "log_level": "ERROR",
        }
    )


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = started_server()
    yield server
    removed(server)


_numbers = itertools.count()


@pytest.fixture
def place_of_all(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder; with the address of an empty PostgreSQL database for DBOS and the runs, or without."""
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        (tmp_path / "address").write_text(server.database(f"clerks{next(_numbers)}"))
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    launched(tmp_path)
    yield tmp_path
    dbos.DBOS.destroy(destroy_registry=True)


def opened(folder: Path) -> Runs:
    address = folder / "address"
    where = address.read_text() if address.exists() else f"sqlite:{folder / 'runs.db'}"
    return Runs(where, lease_s=LEASE_S)


async def started(run: Any, *texts: str) -> Any:
    dbos.DBOS.launch()
    with dbos.SetWorkflowID("order"):
        return await dbos.DBOS.start_workflow_async(run, *texts)


async def status(workflow: str = "order") -> Any:
    (found,) = await dbos.DBOS.list_workflows_async(workflow_ids=[workflow])
    return found


async def waiting(runs: Runs) -> Any:
    async with asyncio.timeout(LIMIT_S):
        while (info := await runs.status("order")) is None or info.state != "waiting":
            await asyncio.sleep(0.05)
    return info


async def test_dbos_runs_to_the_end(folder: Path) -> None:
    effects = Effects(folder / "effects")
    async with opened(folder) as runs:
        handle = await started(adapter.workflow(clerk(effects), runs), "order", PROMPT)
        assert await asyncio.wait_for(handle.get_result(), LIMIT_S) == ANSWER
        info = await runs.status("order")
    assert info is not None
    assert info.state == "done"
    assert len(effects.lines("tool")) == 3
    found = await status()
    assert (found.name, found.status) == ("llmstream.clerk", "SUCCESS")


async def test_dbos_gets_text_no_pickles(folder: Path) -> None:
    """Prompt, answer and step are text that anybody can read."""
    async with opened(folder) as runs:
        handle = await started(adapter.workflow(clerk(Effects(folder / "effects")), runs), "order", PROMPT)
        await asyncio.wait_for(handle.get_result(), LIMIT_S)
    with adapter.engine(f"sqlite:{folder / 'dbos.db'}").connect() as connection:
        asked = connection.exec_driver_sql("select inputs from workflow_input").scalar()
        given = connection.exec_driver_sql("select output from workflow_output").scalar()
        step = connection.exec_driver_sql("select output from operation_outputs").scalar()
        mode = connection.exec_driver_sql("pragma journal_mode").scalar()
        now = connection.exec_driver_sql("select unixepoch('subsec')").scalar()
    assert asked == f'{{"namedArgs":{{}},"positionalArgs":["order","{PROMPT}"]}}'
    assert (given, json.loads(json.loads(step))) == (f'"{ANSWER}"', {"text": ANSWER})
    assert mode == "wal"
    assert now > 1.7e9
    assert (folder / "dbos.db").stat().st_mode & 0o077 == 0


async def test_dbos_waits_for_decision(folder: Path) -> None:
    effects = Effects(folder / "effects")
    async with opened(folder) as runs:
        handle = await started(adapter.workflow(clerk(effects, approval=True), runs), "order", PROMPT)
        info = await waiting(runs)
        assert len(effects.lines("tool")) == 2
        assert (await status()).status == "PENDING"
        async with opened(folder) as others:
            await others.decide("order", {call.approval_id: True for call in info.pending})
        assert await asyncio.wait_for(handle.get_result(), LIMIT_S) == ANSWER
    assert len(effects.lines("tool")) == 3


async def test_dbos_cancel_stops_the_run(folder: Path) -> None:
    async with opened(folder) as runs:
        agent = clerk(Effects(folder / "effects"), approval=True)
        await started(adapter.workflow(agent, runs), "order", PROMPT)
        await waiting(runs)
        await dbos.DBOS.cancel_workflow_async("order")
        async with asyncio.timeout(LIMIT_S):
            while (info := await runs.status("order")) is None or info.state != "stopped":
                await asyncio.sleep(0.05)
        assert (await status()).status == "CANCELLED"


async def test_dbos_reports_a_failed_run(folder: Path) -> None:
    async with opened(folder) as runs:
        await runs.submit("other", "order", PROMPT)
        agent = clerk(Effects(folder / "effects"))
        handle = await started(adapter.workflow(agent, runs), "order", PROMPT)
        with pytest.raises(dbos.PortableWorkflowError, match="belongs to agent 'other'") as failure:
            await asyncio.wait_for(handle.get_result(), LIMIT_S)
    assert failure.value.name == "invalid-request"
    assert (await status()).status == "ERROR"


async def test_dbos_queue_of_runs(folder: Path) -> None:
    """A queue of DBOS lets two runs at a time begin."""
    effects, most = Effects(folder / "effects"), 0
    async with opened(folder) as runs:
        clerks = adapter.workflow(clerk(effects, jitter_s=0.05), runs)
        dbos.DBOS.launch()
        await dbos.DBOS.register_queue_async("agents", worker_concurrency=2, polling_interval_sec=0.1)
        handles = [
            await dbos.DBOS.enqueue_workflow_async("agents", clerks, f"order-{n}", PROMPT) for n in range(5)
        ]
        answers = asyncio.gather(*(handle.get_result() for handle in handles))
        async with asyncio.timeout(LIMIT_S):
            while not answers.done():
                most = max(most, len(await runs.list(state="running")))
                await asyncio.sleep(0.01)
        assert await answers == [ANSWER] * 5
        assert len(await runs.list(state="done")) == 5
    assert 1 <= most <= 2
    assert len(effects.lines("tool")) == 15


async def test_reaper_leaves_living_runs_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits for a person, and one whose tool takes longer than the reaper waits."""
    effects = Effects(folder / "effects")
    looks = 0

    async def counted(run: str) -> Any:
        nonlocal looks
        looks += 1
        return await runs.status(run)

    async with opened(folder) as runs, opened(folder) as seen:
        monkeypatch.setattr(seen, "status", counted)
        reaping = asyncio.create_task(adapter.reap(seen, after_s=1.5))
        handle = await started(
            adapter.workflow(clerk(effects, approval=True, jitter_s=4.0), runs), "order", PROMPT
        )
        info = await waiting(runs)
        enough = looks + 9
        async with asyncio.timeout(LIMIT_S):
            while looks < enough:
                await asyncio.sleep(0.05)
        before = await status()
        assert (before.status, before.recovery_attempts) == ("PENDING", 1)
        await runs.decide("order", {call.approval_id: True for call in info.pending})
        assert await asyncio.wait_for(handle.get_result(), LIMIT_S) == ANSWER
        assert (await status()).recovery_attempts == 1
        reaping.cancel()


async def test_reaper_waits_past_the_lease(folder: Path) -> None:
    async with opened(folder) as runs:
        with pytest.raises(InvalidRequest, match="longer than the lease"):
            await adapter.reap(runs, after_s=LEASE_S)


def test_dbos_engine_needs_a_file() -> None:
    with pytest.raises(InvalidRequest, match=r"sqlite:dbos\.db"):
        adapter.engine("postgresql://db/app")


def program(folder: Path, place: str, executor: str = "local") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.peers.test_dbos", str(folder), place, executor],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S * 2,
    )


@pytest.mark.parametrize(
    ("place_of_all", "executor", "place"),
    [
        ("sqlite", "local", "after pay"),
        ("postgres", "other", "model"),
        pytest.param("sqlite", "local", "model", marks=EVERY),
        pytest.param("sqlite", "other", "model", marks=EVERY),
        pytest.param("sqlite", "other", "after pay", marks=EVERY),
        pytest.param("postgres", "local", "model", marks=EVERY),
        pytest.param("postgres", "local", "after pay", marks=EVERY),
        pytest.param("postgres", "other", "after pay", marks=EVERY),
    ],
    indirect=["place_of_all"],
)
def test_dbos_recovers_after_a_kill(place_of_all: Path, place: str, executor: str) -> None:
    """Killed at the second request to the model, or at the tool that pays.

    DBOS starts it again in a process with the same executor id, and the reaper in one with another. Every
    combination: DURABLE_SWEEP=1 pytest -m '' tests/peers/test_dbos.py
    """
    killed = program(place_of_all, place)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = program(place_of_all, "", executor)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith(ANSWER)
    ran = Effects(place_of_all / "effects").lines("tool")
    assert len(ran) == len(set(ran)) == 3, ran
    assert ("may have had effects" in again.stdout) == (place == "after pay")


async def work(folder: Path, place: str, executor: str) -> None:
    """Starts the workflow and is killed; without a place, waits for what DBOS or the reaper starts again."""
    effects = Effects(folder / "effects")

    def at(here: str) -> None:
        if here == place and (here != "model" or len(effects.lines("asked")) == 1):
            os.kill(os.getpid(), signal.SIGKILL)

    async with opened(folder) as runs:
        run = adapter.workflow(clerk(effects, at=at), runs)
        launched(folder, executor)
        if place:
            handle = await started(run, "order", PROMPT)
        else:
            dbos.DBOS.launch()
            handle = await dbos.DBOS.retrieve_workflow_async("order")
        reaping = asyncio.create_task(adapter.reap(runs) if executor != "local" else asyncio.sleep(0))
        print(await asyncio.wait_for(handle.get_result(), LIMIT_S))
        reaping.cancel()
        dbos.DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
