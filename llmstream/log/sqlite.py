"""Event logs in an SQLite file: for all processes of one machine, with nothing to install.

The file is in WAL mode with `synchronous=normal`: a commit survives the death of any process at once; a power
failure may take the last commits. Two threads use it, one for writes and one for reads. WAL does not work on
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
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.files import transaction
from llmstream.log import sqlite_tables as tables
from llmstream.log.sqlite_file import SQLiteWorker, open_worker
from llmstream.log.store import (
    Acquired,
    Append,
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

_SYNCHRONOUS: Final = {"normal": "pragma synchronous = normal", "full": "pragma synchronous = full"}

# Polling interval of the file if datagrams are not available.
_POLL_S: Final = 0.02


class SQLiteStore(Store):
    """Runs in an SQLite file, created if missing, readable by its owner only.

    path:        of the file; its folder must exist. Beside it are the two files of WAL mode, and a folder
                 `PATH-wake` of sockets by which processes wake each other
    synchronous: "full" syncs the disk at each commit: a power failure loses no committed frame, but a commit
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
        # The runs that this process produces, after its last append, and the count of changes seen then; used
        # by the writing thread.
        self._known: dict[str, tables.Record] = {}
        self._changes = 0

    is_local = True

    async def open(self) -> None:
        """As in `Store`."""
        # Two connections: in WAL mode a reader does not wait for the writer.
        self._writing, self._reading = SQLiteWorker(self._path), SQLiteWorker(self._path)
        try:
            await self._writing.run(self._prepare)
            await self._reading.run(lambda connection: connection.execute("pragma query_only = on"))
        except BaseException:
            await self.aclose()
            raise

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute(_SYNCHRONOUS[self._synchronous])
        with transaction(connection):
            tables.prepare(connection, str(self._path))
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
                old = tables.read_record(connection, claim.run, now)
                new = acquired(None if old is None else old.status, claim, now)
                if new is None:
                    assert old is not None  # a claim of an unused id is always granted
                    return Acquired(False, old.status)
                if old is not None and claim.mode == "replace":
                    tables.delete_frames(connection, old.n)
                tables.note_change(connection)
                tables.write_record(connection, None if old is None else old.n, new)
            self._bells.ring([claim.run])
            return Acquired(True, new)

        return await self._write(change)

    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        """As in `Store`."""

        def change(connection: sqlite3.Connection) -> list[RunStatus | None]:
            try:
                found = self._append_all(connection, appends)
            except _Overtaken:  # for example a fork of this process, which has the same epochs
                found = self._append_all(connection, appends)
            self._bells.ring_commit(appends, found)
            return found

        return await self._write(change)

    def _append_all(
        self, connection: sqlite3.Connection, appends: Sequence[Append]
    ) -> list[RunStatus | None]:
        try:
            with transaction(connection):
                self._forget_changed(connection)
                commit = _Commit(connection, self._clock(), tables.read_version(connection), [], [], [])
                found = [self._append(commit, append) for append in appends]
                tables.update_records(connection, commit.renewed)
                tables.insert_batches(connection, commit.certain)
                if commit.unsure and not tables.insert_if_last(connection, commit.unsure):
                    raise _Overtaken
        except BaseException:
            self._known.clear()  # it contains rolled-back changes
            raise
        return found

    def _forget_changed(self, connection: sqlite3.Connection) -> None:
        """Drops cached runs that others have changed. None can change between here and the commit."""
        changes, deleted = tables.read_changes(connection)
        if changes == self._changes:
            return
        if deleted > self._changes:
            self._known.clear()
        else:
            for run in tables.changed_since(connection, self._changes):
                self._known.pop(run, None)
        self._changes = changes

    def _append(self, commit: _Commit, append: Append) -> RunStatus | None:
        run, now = append.run, commit.now
        # Removed, and added again only if the run is still open: the cache is never older than the file.
        found = self._known.pop(run, None)
        if found is None:
            found = tables.read_record(commit.connection, run, now, commit.version)
            if found is None:
                return None
        n, old, written = found.n, found.status, found.written
        new = appended(old, append, now)
        if new is None:
            self._known[run] = found
            return msgspec.structs.replace(old, now=now)
        if append.count:
            rows = commit.certain if found.version == commit.version else commit.unsure
            rows.append((n, new.tail, append.count, now, new.bytes, append.data))
        if append.lost:
            tables.note_change(commit.connection, run)  # its producer, if alive, is another process
        # Batches extend a lease but never shorten it after the clock was set back; and a sweep reads only
        # records.
        if new.state != "open":
            tables.update_records(commit.connection, [(n, new)])
        elif not append.count or abs(now - written) >= append.lease_s / 4:
            commit.renewed.append((n, new))
            written = now
        if new.state == "open":
            # A missing row cannot be checked.
            seen = commit.version if append.count else found.version
            self._known[run] = tables.Record(n, new, written, seen)
        return new

    async def read(self, wanted: Sequence[tuple[str, int]], max_bytes: int) -> Sequence[RunSlice]:
        """As in `Store`."""

        def look(connection: sqlite3.Connection) -> list[RunSlice]:
            now = self._clock()
            with transaction(connection, "begin"):
                return [_slice(connection, run, after, max_bytes, now) for run, after in wanted]

        return await open_worker(self._reading).run(look)

    async def request_stop(self, run: str) -> RunStatus | None:
        """As in `Store`."""

        def change(connection: sqlite3.Connection) -> RunStatus | None:
            with transaction(connection):
                tables.note_change(connection, run)
                connection.execute("update runs set stopping = 1 where run = ? and state = 'open'", (run,))
                found = tables.read_record(connection, run, self._clock())
            self._bells.ring([run])
            return None if found is None else found.status

        return await self._write(change)

    async def mark_seen(self, runs: Sequence[str]) -> None:
        """As in `Store`."""

        def change(connection: sqlite3.Connection) -> None:
            now = self._clock()
            with transaction(connection):
                for run in runs:
                    tables.note_change(connection, run)
                    connection.execute("update runs set seen = ? where run = ?", (now, run))

        await self._write(change)

    async def delete(self, run: str) -> None:
        """As in `Store`."""

        def change(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                found = tables.read_record(connection, run, self._clock())
                if found is not None:
                    tables.delete_run(connection, found.n)
            self._bells.ring([run])

        await self._write(change)

    async def sweep(self) -> Swept:
        """As in `Store`. Each run in a transaction of its own, so that producers are not blocked."""
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

    async def listen(self, on_change: Callable[[str | None], None]) -> None:
        """As in `Store`. Woken by datagrams, or else by polling the file's version."""
        self._bells.committed = self.committed
        if await self._bells.listen(on_change):
            return
        version = None
        while True:
            found = await open_worker(self._reading).run(
                lambda connection: connection.execute("pragma data_version").fetchone()
            )
            if found != version:
                version = found
                on_change(None)
            await asyncio.sleep(_POLL_S)

    async def _write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        return await open_worker(self._writing).run(change)


class _Commit(NamedTuple):
    """A commit in progress.

    version: of the file at the start of this transaction
    renewed: records of open runs that are too far behind the lease or clock, by their numbers
    certain: rows of runs that no other process has written to since this one did
    unsure:  rows of runs for which that is unknown, because another process wrote to the file
    """

    connection: sqlite3.Connection
    now: float
    version: int
    renewed: list[tuple[int, RunStatus]]
    certain: list[tables.NewBatch]
    unsure: list[tables.NewBatch]


class _Overtaken(Exception):  # visible nowhere else
    """Another process has written to a run that a producer of this process wanted to append to."""


def _slice(connection: sqlite3.Connection, run: str, after: int, max_bytes: int, now: float) -> RunSlice:
    found = tables.read_record(connection, run, now)
    if found is None:
        return RunSlice(None, ())
    return RunSlice(found.status, tables.batches_after(connection, found.n, after, max_bytes))


def _sweep(connection: sqlite3.Connection, run: str, now: float) -> None:
    with transaction(connection):
        found = tables.read_record(connection, run, now)
        fate = "keep" if found is None else swept(found.status, now)
        if found is None or fate == "keep":  # replaced meanwhile
            return
        if fate == "delete":
            tables.delete_run(connection, found.n)
        else:
            tables.delete_frames(connection, found.n)
            connection.execute("update runs set first = tail + 1 where n = ?", (found.n,))
