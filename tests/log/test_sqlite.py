"""SQLite files: their versions, durability, and what else is wrong with them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.log import SQLiteStore
from tests.log.sources import answer, followed, told


async def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("pragma user_version = 99")
    connection.close()
    with pytest.raises(ls.LogUnavailable, match="newer version of llmstream") as refused:
        await SQLiteStore(tmp_path / "runs.db").open()
    assert not refused.value.retryable


async def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_bytes(b"not a database " * 100)
    with pytest.raises(ls.LogUnavailable, match="cannot be used: file is not a database"):
        await SQLiteStore(tmp_path / "runs.db").open()


async def test_full_durability_is_an_option(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db", synchronous="full")
    async with ls.open_logs(store) as logs:
        await logs.start("answer", told(answer(5)))
        assert await followed(logs, "answer") == answer(5)
        assert store._writing is not None
        row = await store._writing.run(lambda found: found.execute("pragma synchronous").fetchone())
        assert row == (2,)
    with pytest.raises(ls.InvalidRequest, match='"normal" or "full"'):
        SQLiteStore(tmp_path / "runs.db", synchronous="off")


async def test_a_locked_file_is_waited_for(tmp_path: Path) -> None:
    """By a backup, for example; nothing is lost, and readers are not held up."""
    async with ls.open_logs(f"sqlite:{tmp_path}/runs.db") as logs:
        await (await logs.start("before", told(answer(5)))).wait()
        backup = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
        backup.execute("begin immediate")
        assert await followed(logs, "before") == answer(5)
        backup.execute("commit")
        backup.close()
        live = await logs.start("after", told(answer(5)))
        assert await live.wait() == "closed"


async def test_a_file_outlives_its_processes(tmp_path: Path) -> None:
    for run in ("one", "two"):
        async with ls.open_logs(f"sqlite:{tmp_path}/runs.db") as logs:
            await (await logs.start(run, told(answer(5)))).wait()
    async with ls.open_logs(f"sqlite:{tmp_path}/runs.db") as logs:
        for run in ("one", "two"):
            assert await followed(logs, run) == answer(5)
