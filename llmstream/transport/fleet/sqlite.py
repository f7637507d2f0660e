"""A shared limiter in an SQLite file, for the processes of one machine, with nothing to install.

One table has a row of state for each name, and a row for each process with the waiters it should wake. The
queues have a table of their own, so that a batch takes the same time however many wait. A batch is one
transaction that begins by taking the write lock. The clock counts from the start of the machine and never
goes backwards; stored process data is void after a reboot.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from llmstream.errors import LimitsUnavailable
from llmstream.files import connect_sqlite, machine_time, transaction
from llmstream.transport.fleet.rules import Answer, Batch, State, Waiting, apply

__all__ = ["SQLiteLimits", "SQLiteLine", "connect_limits"]

T = TypeVar("T")

_TABLES: Final = (
    """
    create table if not exists llmstream_limits (
        name text not null, part text not null, value blob not null, primary key (name, part)
    ) without rowid
    """,
    """
    create table if not exists llmstream_limits_line (
        name text not null, id text not null, rank integer not null, due real not null,
        requests real not null, tokens real not null, input real not null, output real not null,
        primary key (name, id)
    ) without rowid
    """,
    "create index if not exists llmstream_limits_rank on llmstream_limits_line (name, rank)",
)
_GET: Final = "select value from llmstream_limits where name = ? and part = ?"
_PUT: Final = "insert or replace into llmstream_limits (name, part, value) values (?, ?, ?)"
_DELETE: Final = "delete from llmstream_limits where name = ? and part = ?"
_STATE: Final = "state"

_COLUMNS: Final = "id, rank, due, requests, tokens, input, output"
_LINE: Final = "from llmstream_limits_line where name = ?"
_FIND: Final = f"select {_COLUMNS} {_LINE} and id = ?"
_FRONT: Final = f"select {_COLUMNS} {_LINE} order by rank limit ?"
_BEHIND: Final = f"select 1 {_LINE} and rank > ? limit 1"
_IN_FRONT: Final = f"select count(*) {_LINE} and rank < ?"
_OF_MEMBER: Final = f"select id {_LINE} and id > ? and id < ?"
_WAIT: Final = "insert or replace into llmstream_limits_line values (?, ?, ?, ?, ?, ?, ?, ?)"
_LEAVE: Final = f"delete {_LINE} and id = ?"

# How long a batch waits for the write lock.
_BUSY_S: Final = 5.0

# Polling interval of the file's version while requests wait; takes no lock.
_POLL_S: Final = 0.02

# A clock this far behind the file's time means that the machine was rebooted.
_REBOOTED_S: Final = 1.0


class SQLiteLimits:
    """The limits of one name in an SQLite file, created if missing, readable by its owner only.

    clock: the machine's time, for tests
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        *,
        clock: Callable[[], float] = machine_time,
    ) -> None:
        self._path = Path(path)
        self._name = name
        self._clock = clock
        self._member = ""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="llmstream-limits")
        self._connection: sqlite3.Connection | None = None
        self._waiting = asyncio.Event()

    async def apply(self, batch: Batch) -> Answer:
        """As in `LimitStore`."""
        self._member = batch.member
        (self._waiting.set if batch.waiting else self._waiting.clear)()
        return await self._run(lambda connection: self._apply(connection, batch))

    def _apply(self, connection: sqlite3.Connection, batch: Batch) -> Answer:
        with transaction(connection):
            # Read inside the lock: after waiting for it, the time must not be older than the file's.
            now = self._clock()
            row = connection.execute(_GET, (self._name, _STATE)).fetchone()
            state = _states.decode(row[0]) if row else State(created=time.time(), at=now)
            line = SQLiteLine(connection, self._name)
            if now < state.at - _REBOOTED_S:
                state = _after_restart(state, now)
                line.clear()
            before = set(state.members)
            answer = apply(state, line, batch, now)
            connection.execute(_PUT, (self._name, _STATE, msgspec.msgpack.encode(state)))
            for member in {_member_of(id) for id in answer.woken} - {batch.member}:
                ids = [id for id in answer.woken if _member_of(id) == member]
                value = msgspec.msgpack.encode([now, ids])
                connection.execute(_PUT, (self._name, f"woken {member}", value))
            gone = before - set(state.members)
            connection.executemany(_DELETE, [(self._name, f"woken {member}") for member in gone])
        return answer

    async def listen(self, woken: Callable[[list[str]], None]) -> None:
        """As in `LimitStore`. Polls the file's version, and reads the row of this process if it changed."""
        version, seen = None, None
        while True:
            await self._waiting.wait()
            with contextlib.suppress(LimitsUnavailable):
                found, row = await self._run(lambda connection: self._look(connection, version))  # noqa: B023
                version = found
                if row is not None and row != seen:
                    seen = row
                    woken(_woken.decode(row)[1])
            await asyncio.sleep(_POLL_S)

    def _look(self, connection: sqlite3.Connection, version: int | None) -> tuple[int, bytes | None]:
        (found,) = connection.execute("pragma data_version").fetchone()
        if found == version:
            return found, None
        row = connection.execute(_GET, (self._name, f"woken {self._member}")).fetchone()
        return found, row[0] if row else None

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = connect_limits(self._path)
            return work(self._connection)
        except (sqlite3.Error, OSError, msgspec.MsgspecError) as error:
            raise LimitsUnavailable(
                f"the limits in {self._path} cannot be used: {error}. Check that its folder exists and can "
                "be written, and that the disk is not full."
            ) from error

    async def aclose(self) -> None:
        """As in `LimitStore`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._thread.submit(connection.close)
        self._thread.shutdown(wait=False)


class SQLiteLine:
    """The queue of one name, within a transaction."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._execute = connection.execute
        self._name = name

    def find(self, id: str) -> Waiting | None:
        """As in `Line`."""
        row = self._execute(_FIND, (self._name, id)).fetchone()
        return _waiting(row) if row else None

    def put(self, waiting: Waiting) -> None:
        """As in `Line`."""
        self._execute(_WAIT, (self._name, waiting.id, waiting.rank, waiting.due, *waiting.cost))

    def remove(self, id: str) -> None:
        """As in `Line`."""
        self._execute(_LEAVE, (self._name, id))

    def front(self, count: int) -> list[Waiting]:
        """As in `Line`."""
        return [_waiting(row) for row in self._execute(_FRONT, (self._name, count))]

    def has_behind(self, rank: int) -> bool:
        """As in `Line`."""
        return self._execute(_BEHIND, (self._name, rank)).fetchone() is not None

    def in_front(self, rank: int) -> int:
        """As in `Line`."""
        (count,) = self._execute(_IN_FRONT, (self._name, rank)).fetchone()
        return int(count)

    def of(self, member: str) -> list[str]:
        """As in `Line`."""
        # The ids that begin with the name and a point, whose successor is the slash.
        found = self._execute(_OF_MEMBER, (self._name, f"{member}.", f"{member}/"))
        return [id for (id,) in found.fetchall()]

    def clear(self) -> None:
        """Removes all."""
        self._execute(f"delete {_LINE}", (self._name,))


def _waiting(row: tuple[str, int, float, float, float, float, float]) -> Waiting:
    id, rank, due, *cost = row
    return Waiting(id, rank, cost, due)


_states: Final = msgspec.msgpack.Decoder(State)
_woken: Final = msgspec.msgpack.Decoder(tuple[float, list[str]])


def _member_of(id: str) -> str:
    return id.rpartition(".")[0]


def _after_restart(state: State, now: float) -> State:
    """The state after a reboot: only the levels, because the downtime is unknown."""
    state.at, state.created = now, time.time()
    state.cut_at = state.pause_until = 0.0
    state.count, state.queued = 0, [0.0] * 4
    state.places, state.waiting, state.members = {}, {}, {}
    return state


def connect_limits(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Opens a file of limits, and creates it and its tables if missing."""
    connection = connect_sqlite(path, busy_s=_BUSY_S)
    try:
        # Data lost in a power failure would be void after it anyway.
        connection.execute("pragma synchronous = off")
        for statement in _TABLES:
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection
