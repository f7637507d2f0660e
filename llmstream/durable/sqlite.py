"""Durable runs in an SQLite file: for all processes of one machine, with nothing to install.

Leases are counted by the time since the machine started, where boots have an id (Linux), so that setting the
clock expires no lease. By default each step is synced to the disk before the run continues, so that not even
a power failure makes a tool run twice. The rules of the connection are those of `llmstream.log.sqlite_file`.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from llmstream.durable.store import RecordedStep, Renewal, RunRecord, RunStore, State
from llmstream.durable.tables import (
    VERSION,
    Change,
    Changes,
    Statements,
    cost_of,
    first_epoch,
    record_of,
    usage_of,
)
from llmstream.errors import InvalidRequest, LogUnavailable
from llmstream.files import machine_boot, machine_time, transaction
from llmstream.log.sqlite_file import SQLiteWorker, open_worker
from llmstream.usage import Usage

__all__ = ["SQLiteRunStore"]

T = TypeVar("T")

_SQL: Final = Statements(place="?", blob="blob", share="")


class SQLiteRunStore(RunStore):
    """Runs in an SQLite file, which is made if it is missing, readable by its owner only.

    synchronous: "normal" survives the death of any process, but a power failure may take the last steps
    clock:       seconds since 1970, for tests
    lease_clock, boot: the time since the machine started, and a name of that start, for tests
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["normal", "full"] = "full",
        clock: Callable[[], float] = time.time,
        lease_clock: Callable[[], float] | None = None,
        boot: str | None = None,
    ) -> None:
        if synchronous not in ("normal", "full"):
            raise InvalidRequest(f'synchronous is "normal" or "full", got {synchronous!r}')
        self._path = Path(path)
        self._synchronous = synchronous
        self._clock = clock
        # Id of the boot to which leases belong; without one they use the wall clock.
        self._boot = machine_boot() if boot is None else boot
        self._lease_clock = lease_clock or (machine_time if self._boot else clock)
        self._worker: SQLiteWorker | None = None
        self._changes = Changes(self._commit)

    async def open(self) -> None:
        """As in `RunStore`."""
        self._worker = SQLiteWorker(self._path, "file of durable runs")
        try:
            await self._worker.run(self._prepare)
        except BaseException:
            await self.aclose()
            raise

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # Readers do not wait for the writer. It stays set in the file, and does not work on network file
        # systems.
        connection.execute("pragma journal_mode = wal")
        full = self._synchronous == "full"
        connection.execute("pragma synchronous = full" if full else "pragma synchronous = normal")
        with transaction(connection):
            for statement in _SQL.tables:
                connection.execute(statement)
            row = connection.execute("select version from durable_version").fetchone()
            if row is None:
                connection.execute("insert into durable_version values (?)", (VERSION,))
            elif row[0] > VERSION:
                raise LogUnavailable(
                    f"{self._path} was written by a newer version of llmstream (runs {row[0]}, known "
                    f"{VERSION}). Update llmstream, or use another file.",
                    retryable=False,
                )
            connection.execute("create table if not exists durable_boot (boot text not null)")
            if connection.execute("select boot from durable_boot").fetchall() != [(self._boot,)]:
                # Leases from before the boot: their processes are dead.
                connection.execute("update durable_runs set lease_until = 0 where state = 'running'")
                connection.execute("delete from durable_boot")
                connection.execute("insert into durable_boot values (?)", (self._boot,))

    async def aclose(self) -> None:
        """As in `RunStore`."""
        await self._changes.settled()
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.aclose()

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await open_worker(self._worker).run(work)

    async def _commit(self, changes: Sequence[Change]) -> list[Any]:
        def work(connection: sqlite3.Connection) -> list[Any]:
            with transaction(connection):
                return [connection.execute(each.statement, each.values).fetchone() for each in changes]

        return await self._run(work)

    async def _rows(self, statement: str, *values: Any) -> list[Any]:
        return await self._run(lambda connection: connection.execute(statement, values).fetchall())

    async def create(self, run: str, agent: str, request: str) -> RunRecord:
        """As in `RunStore`."""
        now = self._clock()

        def work(connection: sqlite3.Connection) -> Any:
            with transaction(connection):
                connection.execute(_SQL.create, (run, agent, first_epoch(now), now, now, request))
                return connection.execute(_SQL.record, (run,)).fetchone()

        return record_of(await self._run(work))

    async def claim(self, run: str, owner: str, lease_s: float) -> RunRecord | None:
        """As in `RunStore`."""
        lease = self._lease_clock()
        row = await self._changes.row(run, _SQL.claim, owner, lease + lease_s, self._clock(), run, lease)
        return None if row is None else record_of(row)

    async def renew(self, claims: Mapping[str, int], lease_s: float) -> Renewal:
        """As in `RunStore`."""
        until = self._lease_clock() + lease_s

        def work(connection: sqlite3.Connection) -> dict[str, Any]:
            with transaction(connection):
                return {
                    run: connection.execute(_SQL.renew, (until, run, epoch)).fetchone()
                    for run, epoch in claims.items()
                }

        found = await self._run(work)
        ours = frozenset(run for run, row in found.items() if row is not None)
        return Renewal(ours, frozenset(run for run in ours if found[run][0]))

    async def steps(self, run: str) -> dict[str, RecordedStep]:
        """As in `RunStore`."""
        rows = await self._rows(_SQL.steps, run)
        return {key: RecordedStep(epoch, data) for key, epoch, data in rows}

    async def look(self, run: str, key: str) -> bytes | None:
        """As in `RunStore`."""
        rows = await self._rows(_SQL.look, run, key)
        return rows[0][0] if rows else None

    async def begin(self, run: str, epoch: int, key: str) -> bool:
        """As in `RunStore`."""
        values = (run, epoch, run, key, epoch, self._clock())
        return await self._changes.row(run, _SQL.begin, *values) is not None

    async def done(self, run: str, epoch: int, key: str, data: bytes, usage: tuple[str, str]) -> bool:
        """As in `RunStore`."""
        values = (run, epoch, run, key, epoch, self._clock(), data, *usage)
        return await self._changes.row(run, _SQL.done, *values) is not None

    async def give(self, run: str, key: str, data: bytes) -> bool:
        """As in `RunStore`."""
        now = self._clock()

        def work(connection: sqlite3.Connection) -> bool:
            with transaction(connection):
                given = connection.execute(_SQL.give, (run, key, now, data)).fetchone() is not None
                if given:
                    connection.execute(_SQL.ready, (now, run))
                return given

        return await self._run(work)

    async def send(self, run: str, data: bytes) -> bool:
        """As in `RunStore`."""
        return await self._changes.row(run, _SQL.send, run, run, self._clock(), data, run) is not None

    async def leave(self, run: str, epoch: int, state: State, waiting: str, outcome: str) -> bool:
        """As in `RunStore`."""
        now = self._clock()
        ended = None if state in ("running", "waiting") else now
        return (
            await self._changes.row(run, _SQL.leave, state, waiting, outcome, now, ended, run, epoch)
            is not None
        )

    async def request_stop(self, run: str) -> RunRecord | None:
        """As in `RunStore`."""
        now, lease = self._clock(), self._lease_clock()
        row = await self._changes.row(run, _SQL.request_stop, now, lease, lease, now, lease, run)
        return await self.record(run) if row is None else record_of(row)

    async def record(self, run: str) -> RunRecord | None:
        """As in `RunStore`."""
        rows = await self._rows(_SQL.record, run)
        return record_of(rows[0]) if rows else None

    async def records(
        self, state: State | None, agents: Sequence[str] | None, limit: int
    ) -> Sequence[RunRecord]:
        """As in `RunStore`."""
        statement, values = _SQL.records(state, agents, limit)
        return [record_of(row) for row in await self._rows(statement, *values)]

    async def due(self, agents: Sequence[str], limit: int) -> Sequence[RunRecord]:
        """As in `RunStore`."""
        statement, values = _SQL.due(agents, self._lease_clock(), limit)
        return [record_of(row) for row in await self._rows(statement, *values)]

    async def unclaimed(self, agents: Sequence[str], overdue_s: float) -> Mapping[str, int]:
        """As in `RunStore`."""
        statement, values = _SQL.unclaimed(agents, self._lease_clock() - overdue_s, self._clock() - overdue_s)
        return dict(await self._rows(statement, *values))

    async def usage(self, run: str) -> dict[str, Usage]:
        """As in `RunStore`."""
        return usage_of(await self._rows(_SQL.usage, run))

    async def cost(self, run: str) -> float | None:
        """As in `RunStore`."""
        return cost_of(await self._rows(_SQL.usage, run))

    async def delete_ended(self, before: float) -> int:
        """As in `RunStore`."""
        runs = await self._rows(_SQL.ended_before, before)
        for (run,) in runs:
            await self.delete(run)
        return len(runs)

    async def delete(self, run: str) -> None:
        """As in `RunStore`."""

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.execute(_SQL.delete_steps, (run,))
                connection.execute(_SQL.delete_run, (run,))

        await self._run(work)
