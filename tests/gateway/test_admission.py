"""Where the ledger's changes are made: in the loop at once, or in a thread where that could hold it up."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from llmstream.gateway import Key
from llmstream.gateway.accounts import Row
from llmstream.gateway.admission import Admission
from llmstream.gateway.ledger import Busy
from llmstream.gateway.sqlite_ledger import SQLiteLedger

ANYONE = Key(name="")


class Watched(SQLiteLedger):
    """Notes the threads that change it, and takes `slow_s` for each change."""

    def __init__(self, path: Path, slow_s: float = 0.0) -> None:
        super().__init__(path)
        self.slow_s = slow_s
        self.threads: list[bool] = []
        self.tidied = threading.Event()

    def reserve(self, *given: Any, waits: bool = True) -> None:
        super().reserve(*given, waits=waits)
        self.threads.append(threading.current_thread() is not threading.main_thread())
        time.sleep(self.slow_s)

    def tidy(self) -> None:
        super().tidy()
        self.tidied.set()


@contextmanager
def other_process(path: Path) -> Iterator[None]:
    """Another connection that holds the lock of the file."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    try:
        yield
    finally:
        other.execute("rollback")
        other.close()


def new_row() -> Row:
    return Row(started=time.time(), route="*")


def test_busy_files_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    ledger = SQLiteLedger(path)
    row = new_row()
    ledger.reserve(row, ANYONE, 10, None)
    with other_process(path):
        with pytest.raises(Busy):
            ledger.reserve(new_row(), ANYONE, 10, None, waits=False)
        with pytest.raises(Busy):
            ledger.settle(row, waits=False)
    assert [one.outcome for one in ledger.rows()] == ["open"]
    row.outcome = "complete"
    ledger.settle(row, waits=False)
    assert [one.outcome for one in ledger.rows()] == ["complete"]
    # Changes that may wait do so as before.
    assert ledger._rows("pragma busy_timeout") == [(5000,)]
    ledger.close()


async def test_busy_files_hold_no_loop(tmp_path: Path) -> None:
    """The call waits for the other process in a thread, and keys are read meanwhile."""
    path = tmp_path / "gateway.db"
    ledger = Watched(path)
    ledger.add_key(Key(name="ada"))
    admission = Admission(ledger)
    assert ledger.has_keys
    with other_process(path):
        reserving = asyncio.create_task(admission.reserve(new_row(), ANYONE, 10, None))
        for _ in range(5):
            await asyncio.sleep(0.001)
            assert ledger.has_keys
        assert not reserving.done()
    async with asyncio.timeout(30):
        await reserving
    assert ledger.threads == [True]
    admission.close()


async def test_slow_disks_get_a_thread(tmp_path: Path) -> None:
    """After three slow changes in a row; a single one may have waited for the CPU."""
    ledger = Watched(tmp_path / "gateway.db", slow_s=0.006)
    admission = Admission(ledger)
    for _ in range(4):
        await admission.reserve(new_row(), ANYONE, 10, None)
    assert ledger.threads == [False, False, False, True]
    admission.close()


async def test_wal_is_emptied_beside_calls(tmp_path: Path) -> None:
    ledger = Watched(tmp_path / "gateway.db")
    admission = Admission(ledger)
    for _ in range(130):
        row = new_row()
        await admission.reserve(row, ANYONE, 10, None)
        row.outcome = "complete"
        admission.settle(row)
    assert await asyncio.to_thread(ledger.tidied.wait, 30)
    admission.close()


async def test_failed_settles_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as those of a full disk: in the order in which the calls ended."""
    path = tmp_path / "gateway.db"
    ledger = SQLiteLedger(path)
    admission = Admission(ledger)
    rows = [new_row(), new_row()]
    for row in rows:
        await admission.reserve(row, ANYONE, 10, None)
        row.outcome = "complete"
    settle, settled = ledger.settle, list[int]()

    def failing(row: Row, *, waits: bool = True) -> None:
        if not waits:
            raise sqlite3.OperationalError("disk I/O error")
        settle(row)
        settled.append(row.id)

    monkeypatch.setattr(ledger, "settle", failing)
    for row in rows:
        admission.settle(row)
    admission.close()
    assert settled == [row.id for row in rows]
    again = SQLiteLedger(path)
    assert [row.outcome for row in again.rows()] == ["complete"] * 2
    again.close()
