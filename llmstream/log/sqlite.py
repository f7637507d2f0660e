"""Event logs in an SQLite file: for all processes of one machine, with nothing to install.

The file is in WAL mode with `synchronous=normal`: a commit survives the death of any process at once; a power
failure may take the last commits. Two threads work on it, one writes and one reads. WAL does not work on
network file systems.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from llmstream.errors import InvalidRequest, LogUnavailable
from llmstream.log.sqlite_file import SQLiteWorker, open_worker, transaction
from llmstream.log.store import (
    Acquired,
    Append,
    Batch,
    Claim,
    RunSlice,
    RunStatus,
    Store,
    Swept,
    acquired,
    appended,
    swept,
)
from llmstream.log.wake import Bells

__all__ = ["SQLiteStore"]

T = TypeVar("T")

_VERSION: Final = 1
"""Of the tables below, in `pragma user_version`."""

_COLUMNS: Final = tuple(name for name in RunStatus.__struct_fields__ if name != "now")

# Frames of a run are neighbours in the file; the last number of a batch finds the batch that holds a number.
# The two indices serve the sweep, and change only when a run starts and ends.
_TABLES: Final = """
create table if not exists runs (
    run text primary key, state text not null, first integer not null, tail integer not null,
    epoch integer not null, owner text not null, started real not null, changed real not null, ended real,
    lease_until real not null, lost_at real not null, stopping integer not null, bytes integer not null,
    keep_s real not null, left_s real, seen real not null
) without rowid;
create table if not exists batches (
    run text not null, last integer not null, count integer not null, time real not null, data blob not null,
    primary key (run, last)
) without rowid;
create index if not exists open_runs on runs (run) where ended is null;
create index if not exists ended_runs on runs (ended) where ended is not null;
"""

_CREATE: Final = f"begin immediate; {_TABLES} pragma user_version = {_VERSION}; commit;"
_SYNCHRONOUS: Final = {"normal": "pragma synchronous = normal", "full": "pragma synchronous = full"}

_SELECT: Final = f"select {', '.join(_COLUMNS)} from runs where run = ?"  # noqa: S608  # names of fields
_PLACES: Final = ", ".join("?" * len(_COLUMNS))
_INSERT: Final = f"insert or replace into runs ({', '.join(_COLUMNS)}) values ({_PLACES})"  # noqa: S608  # as above
_UPDATE: Final = (
    "update runs set state = ?, tail = ?, epoch = ?, changed = ?, ended = ?, lease_until = ?, lost_at = ?, "
    "bytes = ? where run = ? and epoch = ? and tail = ? and state = ? and stopping = ? and seen = ?"
)
_FRAMES: Final = "insert into batches (run, last, count, time, data) values (?, ?, ?, ?, ?)"

_POLL_S: Final = 0.02
"""How often the file is looked at where datagrams are not available."""


class SQLiteStore(Store):
    """Runs in an SQLite file, which is made if it is missing, readable by its owner only.

    path:        of the file; its folder must exist. Beside it are the two files of WAL mode, and a folder
                 `PATH-wake` of sockets by which processes wake each other
    synchronous: "full" syncs the disk at each commit: no power failure takes a committed frame, and a commit
                 costs a hundred times as much
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["normal", "full"] = "normal",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if synchronous not in ("normal", "full"):
            raise InvalidRequest(f'synchronous is "normal" or "full", got {synchronous!r}')
        self._path = Path(path)
        self._synchronous = synchronous
        self._clock = clock
        self._bells = Bells(Path(f"{self._path}-wake"))
        self._writing: SQLiteWorker | None = None
        self._reading: SQLiteWorker | None = None
        self._known: dict[str, RunStatus] = {}  # after our last append; of the writing thread

    async def open(self) -> None:
        """As in `Store`."""
        self._writing, self._reading = SQLiteWorker(self._path), SQLiteWorker(self._path)
        try:
            await self._writing.run(self._prepare)
            await self._reading.run(lambda connection: connection.execute("pragma query_only = on"))
        except BaseException:
            await self.aclose()
            raise

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("pragma journal_mode = wal")
        connection.execute(_SYNCHRONOUS[self._synchronous])
        (version,) = connection.execute("pragma user_version").fetchone()
        if version > _VERSION:
            raise LogUnavailable(
                f"{self._path} was written by a newer version of llmstream (tables {version}, known "
                f"{_VERSION}). Update llmstream, or use another file.",
                retryable=False,
            )
        connection.executescript(_CREATE)
        self._bells.open()

    async def aclose(self) -> None:
        """As in `Store`."""
        workers = (self._reading, self._writing)
        self._reading = self._writing = None
        for worker in workers:
            if worker is not None:
                await worker.aclose()
        self._bells.close()

    async def acquire(self, claim: Claim) -> Acquired:
        """As in `Store`."""

        def change(connection: sqlite3.Connection) -> Acquired:
            with transaction(connection):
                now = self._clock()
                old = _status(connection, claim.run, now)
                new = acquired(old, claim, now)
                if new is None:
                    assert old is not None  # an id that is not in use is always granted
                    return Acquired(False, old)
                if claim.mode == "replace":
                    connection.execute("delete from batches where run = ?", (claim.run,))
                connection.execute(_INSERT, _row(new))
            self._bells.ring([claim.run])
            return Acquired(True, new)

        return await self._write(change)

    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        """As in `Store`."""

        def change(connection: sqlite3.Connection) -> list[RunStatus | None]:
            now, rows = self._clock(), list[tuple[Any, ...]]()
            try:
                with transaction(connection):
                    found = [self._append(connection, append, now, rows) for append in appends]
                    connection.executemany(_FRAMES, rows)
            except BaseException:
                self._known.clear()  # it has what was rolled back
                raise
            # A renewal is no news to readers.
            self._bells.ring([append.run for append in appends if append.count or append.state != "open"])
            return found

        return await self._write(change)

    def _append(
        self, connection: sqlite3.Connection, append: Append, now: float, rows: list[tuple[Any, ...]]
    ) -> RunStatus | None:
        """Tries with the record as it was last, which saves half of the time, then with the one there is."""
        run = append.run
        known = self._known.pop(run, None)
        for old in (known, None) if known is not None else (None,):
            there = old or _status(connection, run, now)
            new = appended(there, append, now)
            if there is not None and new is not None and _update(connection, there, new):
                if append.count:
                    rows.append((run, new.tail, append.count, now, append.data))
                if new.state == "open":
                    self._known[run] = new
                return new
        return there

    async def read(self, wanted: Sequence[tuple[str, int]], max_bytes: int) -> Sequence[RunSlice]:
        """As in `Store`."""

        def look(connection: sqlite3.Connection) -> list[RunSlice]:
            now = self._clock()
            with transaction(connection, "begin"):
                return [
                    RunSlice(_status(connection, run, now), _batches(connection, run, after, max_bytes))
                    for run, after in wanted
                ]

        return await open_worker(self._reading).run(look)

    async def request_stop(self, run: str) -> RunStatus | None:
        """As in `Store`."""

        def change(connection: sqlite3.Connection) -> RunStatus | None:
            with transaction(connection):
                connection.execute("update runs set stopping = 1 where run = ? and state = 'open'", (run,))
                found = _status(connection, run, self._clock())
            self._bells.ring([run])
            return found

        return await self._write(change)

    async def mark_seen(self, runs: Sequence[str]) -> None:
        """As in `Store`."""

        def change(connection: sqlite3.Connection) -> None:
            now = self._clock()
            with transaction(connection):
                connection.executemany("update runs set seen = ? where run = ?", [(now, run) for run in runs])

        await self._write(change)

    async def delete(self, run: str) -> None:
        """As in `Store`."""

        def change(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.execute("delete from batches where run = ?", (run,))
                connection.execute("delete from runs where run = ?", (run,))
            self._bells.ring([run])

        await self._write(change)

    async def sweep(self) -> Swept:
        """As in `Store`. Each run in a transaction of its own, so that producers are not held up."""
        now = self._clock()
        due = await open_worker(self._reading).run(
            lambda connection: connection.execute(
                "select run from runs where ended is not null and ended + keep_s < ? "
                "and (first <= tail or ended + 2 * keep_s < ?)",
                (now, now),
            ).fetchall()
        )
        for (run,) in due:
            await self._write(partial(_sweep, run=run, now=now))
        lost = await open_worker(self._reading).run(
            lambda connection: connection.execute(
                "select run from runs where ended is null and lost_at < ?", (now,)
            ).fetchall()
        )
        return Swept([run for (run,) in lost])

    async def listen(self, heard: Callable[[str | None], None]) -> None:
        """As in `Store`. Woken by datagrams, else by the file's version."""
        if await self._bells.listen(heard):
            return
        version = None
        while True:
            found = await open_worker(self._reading).run(
                lambda connection: connection.execute("pragma data_version").fetchone()
            )
            if found != version:
                version = found
                heard(None)
            await asyncio.sleep(_POLL_S)

    async def _write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        return await open_worker(self._writing).run(change)


def _row(status: RunStatus) -> tuple[Any, ...]:
    return tuple([getattr(status, name) for name in _COLUMNS])


def _status(connection: sqlite3.Connection, run: str, now: float) -> RunStatus | None:
    row = connection.execute(_SELECT, (run,)).fetchone()
    if row is None:
        return None
    fields = dict(zip(_COLUMNS, row, strict=True))
    fields["stopping"] = bool(fields["stopping"])
    return RunStatus(**fields, now=now)


def _update(connection: sqlite3.Connection, old: RunStatus, new: RunStatus) -> bool:
    """Writes what an append changes; False if the record is not as `old` has it."""
    after = (new.state, new.tail, new.epoch, new.changed, new.ended, new.lease_until, new.lost_at, new.bytes)
    before = (old.run, old.epoch, old.tail, old.state, old.stopping, old.seen)
    return connection.execute(_UPDATE, (*after, *before)).rowcount == 1


def _batches(connection: sqlite3.Connection, run: str, after: int, max_bytes: int) -> list[Batch]:
    rows = connection.execute(
        "select last, count, time, data from batches where run = ? and last > ? order by last", (run, after)
    )
    found, size = list[Batch](), 0
    for last, count, at, data in rows:
        found.append(Batch(last - count + 1, count, at, data))
        size += len(data)
        if size >= max_bytes:
            break
    rows.close()
    return found


def _sweep(connection: sqlite3.Connection, run: str, now: float) -> None:
    with transaction(connection):
        status = _status(connection, run, now)
        fate = "keep" if status is None else swept(status, now)
        if fate == "keep":  # replaced meanwhile
            return
        connection.execute("delete from batches where run = ?", (run,))
        if fate == "delete":
            connection.execute("delete from runs where run = ?", (run,))
        else:
            connection.execute("update runs set first = tail + 1 where run = ?", (run,))
