"""Durable runs in PostgreSQL (extra `postgres`): for workers on any number of machines.

Leases are compared by the server's clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

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
from llmstream.errors import LogUnavailable
from llmstream.log.postgres_link import PostgresLink
from llmstream.usage import Usage

__all__ = ["PostgresRunStore"]

_SQL: Final = Statements(place="%s", blob="bytea", share="for share")

# The server's clock, since those of the workers' machines differ.
_NOW: Final = "select extract(epoch from clock_timestamp())::double precision"


class PostgresRunStore(RunStore):
    """Runs in PostgreSQL.

    address: "postgresql://user@host/database", as for psql
    """

    def __init__(self, address: str) -> None:
        self._link = PostgresLink(address)
        self._changes = Changes(self._commit)

    async def open(self) -> None:
        """As in `RunStore`."""
        try:
            await self._link.connected()
            await self._link.make(_SQL.tables)
            async with self._link.transaction() as run:
                # Two workers that start together would both find the table empty.
                await run("lock table durable_version")
                rows = await run("select version from durable_version")
                if not rows:
                    await run("insert into durable_version values (%s)", (VERSION,))
                elif rows[0][0] > VERSION:
                    raise LogUnavailable(
                        f"the database was written by a newer version of llmstream (runs {rows[0][0]}, known "
                        f"{VERSION}). Update llmstream, or use another database.",
                        retryable=False,
                    )
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """As in `RunStore`."""
        await self._changes.settled()
        await self._link.aclose()

    async def _commit(self, changes: Sequence[Change]) -> list[Any]:
        # Sorted, to avoid deadlocks: each change locks the record of its run.
        order = sorted(range(len(changes)), key=lambda at: changes[at].run)
        found = await self._link.together([(changes[at].statement, changes[at].values) for at in order])
        rows = {at: each[0] if each else None for at, each in zip(order, found, strict=True)}
        return [rows[at] for at in range(len(changes))]

    async def _row(self, statement: str, *values: Any) -> Any:
        rows = await self._link.rows(statement, *values)
        return rows[0] if rows else None

    async def create(self, run: str, agent: str, request: str) -> RunRecord:
        """As in `RunStore`."""
        async with self._link.transaction() as execute:
            ((now,),) = await execute(_NOW)
            await execute(_SQL.create, (run, agent, first_epoch(now), now, now, request))
            return record_of((await execute(_SQL.record, (run,)))[0])

    async def claim(self, run: str, owner: str, lease_s: float) -> RunRecord | None:
        """As in `RunStore`."""
        async with self._link.transaction() as execute:
            ((now,),) = await execute(_NOW)
            rows = await execute(_SQL.claim, (owner, now + lease_s, now, run, now))
            return record_of(rows[0]) if rows else None

    async def renew(self, claims: Mapping[str, int], lease_s: float) -> Renewal:
        """As in `RunStore`."""
        ours, stopping = set[str](), set[str]()
        async with self._link.transaction() as execute:
            ((now,),) = await execute(_NOW)
            for run in sorted(claims):  # sorted, to avoid deadlocks
                rows = await execute(_SQL.renew, (now + lease_s, run, claims[run]))
                if rows:
                    ours.add(run)
                    if rows[0][0]:
                        stopping.add(run)
        return Renewal(frozenset(ours), frozenset(stopping))

    async def steps(self, run: str) -> dict[str, RecordedStep]:
        """As in `RunStore`."""
        rows = await self._link.rows(_SQL.steps, run)
        return {key: RecordedStep(epoch, None if data is None else bytes(data)) for key, epoch, data in rows}

    async def look(self, run: str, key: str) -> bytes | None:
        """As in `RunStore`."""
        row = await self._row(_SQL.look, run, key)
        return None if row is None or row[0] is None else bytes(row[0])

    async def begin(self, run: str, epoch: int, key: str) -> bool:
        """As in `RunStore`."""
        # The time of a step is informational; only leases need the server's clock, which costs a round trip.
        return await self._changes.row(run, _SQL.begin, run, epoch, run, key, epoch, time.time()) is not None

    async def done(self, run: str, epoch: int, key: str, data: bytes, usage: tuple[str, str]) -> bool:
        """As in `RunStore`."""
        values = (run, epoch, run, key, epoch, time.time(), data, *usage)
        return await self._changes.row(run, _SQL.done, *values) is not None

    async def give(self, run: str, key: str, data: bytes) -> bool:
        """As in `RunStore`."""
        async with self._link.transaction() as execute:
            ((now,),) = await execute(_NOW)
            given = bool(await execute(_SQL.give, (run, key, now, data)))
            if given:
                await execute(_SQL.ready, (now, run))
            return given

    async def send(self, run: str, data: bytes) -> bool:
        """As in `RunStore`. Two concurrent calls may get the same number; then the second one retries."""
        while await self._row(_SQL.send, run, run, time.time(), data, run) is None:
            record = await self.record(run)
            if record is None or record.is_over or await self._row(_SQL.inbox_ended, run) is not None:
                return False
        return True

    async def leave(self, run: str, epoch: int, state: State, waiting: str, outcome: str) -> bool:
        """As in `RunStore`."""
        async with self._link.transaction() as execute:
            ((now,),) = await execute(_NOW)
            ended = None if state in ("running", "waiting") else now
            return bool(await execute(_SQL.leave, (state, waiting, outcome, now, ended, run, epoch)))

    async def request_stop(self, run: str) -> RunRecord | None:
        """As in `RunStore`."""
        async with self._link.transaction() as execute:
            ((now,),) = await execute(_NOW)
            rows = await execute(_SQL.request_stop, (now, now, now, now, now, run))
            rows = rows or await execute(_SQL.record, (run,))
            return record_of(rows[0]) if rows else None

    async def record(self, run: str) -> RunRecord | None:
        """As in `RunStore`."""
        row = await self._row(_SQL.record, run)
        return None if row is None else record_of(row)

    async def records(
        self, state: State | None, agents: Sequence[str] | None, limit: int
    ) -> Sequence[RunRecord]:
        """As in `RunStore`."""
        statement, values = _SQL.records(state, agents, limit)
        return [record_of(row) for row in await self._link.rows(statement, *values)]

    async def due(self, agents: Sequence[str], limit: int) -> Sequence[RunRecord]:
        """As in `RunStore`."""
        async with self._link.transaction() as execute:
            ((now,),) = await execute(_NOW)
            statement, values = _SQL.due(agents, now, limit)
            return [record_of(row) for row in await execute(statement, values)]

    async def unclaimed(self, agents: Sequence[str], overdue_s: float) -> Mapping[str, int]:
        """As in `RunStore`."""
        async with self._link.transaction() as execute:
            ((now,),) = await execute(_NOW)
            statement, values = _SQL.unclaimed(agents, now - overdue_s, now - overdue_s)
            return dict(await execute(statement, values))

    async def usage(self, run: str) -> dict[str, Usage]:
        """As in `RunStore`."""
        return usage_of(await self._link.rows(_SQL.usage, run))

    async def cost(self, run: str) -> float | None:
        """As in `RunStore`."""
        return cost_of(await self._link.rows(_SQL.usage, run))

    async def delete_ended(self, before: float) -> int:
        """As in `RunStore`."""
        runs = await self._link.rows(_SQL.ended_before, before)
        for (run,) in runs:
            await self.delete(run)
        return len(runs)

    async def delete(self, run: str) -> None:
        """As in `RunStore`."""
        async with self._link.transaction() as execute:
            await execute(_SQL.delete_steps, (run,))
            await execute(_SQL.delete_run, (run,))
