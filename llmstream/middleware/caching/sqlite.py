"""Answers in an SQLite file: for all processes of one machine, with nothing to install.

The file is in WAL mode with `synchronous=normal`: an answer is stored completely or not at all, whenever the
process dies. Answers are compressed.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import anyio.to_thread

from llmstream.files import connect_sqlite, transaction
from llmstream.middleware.caching.stores import LEASE_S, Watched

__all__ = ["SQLiteCache"]

T = TypeVar("T")

# Of the tables below, in `pragma user_version`.
_VERSION: Final = 1

# Each answer has its size in a separate column, so that totals and the oldest are found without reading
# answers.
_TABLES: Final = """
create table if not exists answers (
    key text not null unique, size integer not null, stored real not null, used real not null,
    data blob not null
);
create index if not exists by_use on answers (used);
create index if not exists by_age on answers (stored);
create table if not exists total (bytes integer not null);
insert into total select 0 where not exists (select 1 from total);
create table if not exists claims (
    key text primary key, owner text not null, until real not null
) without rowid;
create table if not exists parts (
    place integer primary key autoincrement, key text not null, data blob not null
);
create index if not exists parts_by_key on parts (key, place);
"""
_CREATE: Final = f"begin immediate; {_TABLES} pragma user_version = {_VERSION}; commit;"

# A write takes milliseconds; past this, the request is sent without the cache.
_BUSY_S: Final = 5.0
# Uses of answers are written in batches: one commit each would cost more than the answer.
_FLUSH_S: Final = 1.0

# zlib's level: a third of the size at no cost that can be measured.
_FAST: Final = 1


class SQLiteCache:
    """A `SharedStore` in a file, which is made if it is missing, readable by its owner only.

    path: of the file; its folder must exist
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        ttl_s: float | None = None,
        max_bytes: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._ttl_s, self._max_bytes = ttl_s, max_bytes
        self._clock = clock
        # Threads of anyio share one connection.
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._used: dict[str, float] = {}
        self._flushed = clock()

    async def get(self, key: str) -> bytes | None:
        """As in `CacheStore`."""
        return await self._run(lambda connection: self._get(connection, key))

    def _get(self, connection: sqlite3.Connection, key: str) -> bytes | None:
        found = connection.execute("select data from answers where key = ?", (key,)).fetchone()
        if found is None:
            return None
        if self._max_bytes is not None:
            now = self._clock()
            self._used[key] = now
            if now - self._flushed > _FLUSH_S:
                with transaction(connection):
                    self._flush(connection, now)
        return zlib.decompress(found[0])

    def _flush(self, connection: sqlite3.Connection, now: float) -> None:
        """Writes the times of use of answers."""
        used, self._used, self._flushed = self._used, {}, now
        rows = [(at, key) for key, at in used.items()]
        connection.executemany("update answers set used = max(used, ?) where key = ?", rows)

    async def put(self, key: str, data: bytes) -> None:
        """As in `CacheStore`."""
        packed = zlib.compress(data, _FAST)
        await self._run(lambda connection: self._put(connection, key, packed))

    def _put(self, connection: sqlite3.Connection, key: str, data: bytes) -> None:
        now = self._clock()
        with transaction(connection):
            self._flush(connection, now)
            _remove(connection, "key = ?", key)
            connection.execute(
                "insert into answers (key, size, stored, used, data) values (?, ?, ?, ?, ?)",
                (key, len(data), now, now, data),
            )
            connection.execute("update total set bytes = bytes + ?", (len(data),))
            if self._ttl_s is not None:
                _remove(connection, "stored < ?", now - self._ttl_s)
            if self._max_bytes is not None:
                self._evict(connection, self._max_bytes)

    def _evict(self, connection: sqlite3.Connection, max_bytes: int) -> None:
        (total,) = connection.execute("select bytes from total").fetchone()
        over = total - max_bytes
        rows = list[tuple[int, int]]()
        if over > 0:
            for row, size in connection.execute("select rowid, size from answers order by used, rowid"):
                rows.append((row, size))
                over -= size
                if over <= 0:
                    break
        for row, _ in rows:
            _remove(connection, "rowid = ?", row)

    async def claim(self, key: str, owner: str) -> bool:
        """As in `SharedStore`."""

        def change(connection: sqlite3.Connection) -> bool:
            now = self._clock()
            with transaction(connection):
                connection.execute(
                    "delete from parts where key in (select key from claims where until < ?)", (now,)
                )
                connection.execute("delete from claims where until < ?", (now,))
                made = connection.execute(
                    "insert or ignore into claims values (?, ?, ?)", (key, owner, now + LEASE_S)
                )
                return made.rowcount == 1

        return await self._run(change)

    async def publish(self, key: str, owner: str, lines: Sequence[bytes]) -> bool:
        """As in `SharedStore`."""

        def change(connection: sqlite3.Connection) -> bool:
            with transaction(connection):
                renewed = connection.execute(
                    "update claims set until = ? where key = ? and owner = ?",
                    (self._clock() + LEASE_S, key, owner),
                )
                if renewed.rowcount == 1 and lines:
                    connection.execute(
                        "insert into parts (key, data) values (?, ?)", (key, b"\n".join(lines))
                    )
                return renewed.rowcount == 1

        return await self._run(change)

    async def watch(self, key: str, place: int) -> Watched | None:
        """As in `SharedStore`."""

        def look(connection: sqlite3.Connection) -> Watched | None:
            with transaction(connection, "begin"):
                claim = connection.execute(
                    "select owner from claims where key = ? and until >= ?", (key, self._clock())
                ).fetchone()
                if claim is None:
                    return None
                parts = connection.execute(
                    "select place, data from parts where key = ? and place > ? order by place", (key, place)
                ).fetchall()
            lines = [line for _, data in parts for line in data.split(b"\n")]
            return Watched(claim[0], lines, parts[-1][0] if parts else place)

        return await self._run(look)

    async def release(self, key: str, owner: str) -> None:
        """As in `SharedStore`."""

        def change(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                ended = connection.execute("delete from claims where key = ? and owner = ?", (key, owner))
                if ended.rowcount == 1:
                    connection.execute("delete from parts where key = ?", (key,))

        await self._run(change)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs work in a thread. Once started it is completed, even if the caller is cancelled."""
        return await anyio.to_thread.run_sync(self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._connection is None or self._process != os.getpid():
                _inherited.append(self._connection)
                self._connection, self._process = _opened(self._path), os.getpid()
                weakref.finalize(self, _close, self._connection, self._process)
            return work(self._connection)


# Connections opened before a fork, which SQLite forbids to use or close in the child.
_inherited: Final[list[sqlite3.Connection | None]] = []


def _close(connection: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():
        connection.close()


def _opened(path: str | os.PathLike[str]) -> sqlite3.Connection:
    connection = connect_sqlite(path, busy_s=_BUSY_S)
    try:
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma temp_store = memory")
        (version,) = connection.execute("pragma user_version").fetchone()
        if version > _VERSION:
            raise ValueError(f"{path} was written by a newer version of llmstream (tables {version})")
        connection.executescript(_CREATE)
    except BaseException:
        connection.close()
        raise
    return connection


def _remove(connection: sqlite3.Connection, which: str, value: str | float) -> None:
    # The conditions are the constants above.
    counted, deleted = f"select sum(size) from answers where {which}", f"delete from answers where {which}"  # noqa: S608
    (size,) = connection.execute(counted, (value,)).fetchone()
    if size is not None:
        connection.execute(deleted, (value,))
        connection.execute("update total set bytes = bytes - ?", (size,))
