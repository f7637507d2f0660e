"""Event logs in PostgreSQL (extra `postgres`): for all machines that reach the server.

One row per batch, and one notification per commit, which names the changed runs. The record of a run is
locked while it changes, so the rules of `store.py` apply unchanged. Times are those of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from llmstream.errors import LogUnavailable
from llmstream.log.postgres_link import PostgresLink, Run, Statement
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

__all__ = ["PostgresStore"]

_COLUMNS: Final = tuple(name for name in RunStatus.__struct_fields__ if name != "now")
_NAMES: Final = ", ".join(_COLUMNS)
_NOW: Final = "extract(epoch from clock_timestamp())::double precision"

_TABLES: Final = (
    "create table if not exists llmstream_runs (run text primary key, state text not null, "
    "first bigint not null, tail bigint not null, epoch bigint not null, owner text not null, "
    "started double precision not null, changed double precision not null, ended double precision, "
    "lease_until double precision not null, lost_at double precision not null, stopping boolean not null, "
    "bytes bigint not null, keep_s double precision not null, left_s double precision, "
    "seen double precision not null)",
    "create table if not exists llmstream_batches (run text not null, last bigint not null, "
    "count bigint not null, time double precision not null, data bytea not null, primary key (run, last))",
    "create index if not exists llmstream_open on llmstream_runs (lost_at) where ended is null",
    "create index if not exists llmstream_ended on llmstream_runs (ended) where ended is not null",
)

# Column names only, no values from callers.
_SELECT: Final = f"select {_NAMES}, {_NOW} from llmstream_runs where run = %s"  # noqa: S608
_LOCK: Final = f"{_SELECT} for update"
_SNAPSHOT: Final = "begin isolation level repeatable read"
_INSERT: Final = (
    f"insert into llmstream_runs ({_NAMES}) values ({', '.join(['%s'] * len(_COLUMNS))}) "  # noqa: S608
    "on conflict (run) do nothing returning run"
)
_UPDATE: Final = f"update llmstream_runs set {', '.join(f'{name} = %s' for name in _COLUMNS)} where run = %s"  # noqa: S608
_FRAMES: Final = "insert into llmstream_batches (run, last, count, time, data) values (%s, %s, %s, %s, %s)"
_READ: Final = (
    "select last, count, time, data from (select *, sum(length(data)) over (order by last) - length(data) "
    "as before from llmstream_batches where run = %s and last > %s) as batches where before < %s "
    "order by last"
)

_CHANNEL: Final = "llmstream_log"

# A notification is limited to 8,000 bytes.
_MAX_NAMES: Final = 7_000


class PostgresStore(Store):
    """Runs in PostgreSQL.

    address: "postgresql://user@host/database", as for psql
    """

    def __init__(self, address: str) -> None:
        # Four connections: readers must not queue behind commits; commits, which renew leases, not behind the
        # starts of hundreds of runs; and a listening connection can do nothing else.
        self._writing, self._reading = PostgresLink(address), PostgresLink(address)
        self._claiming, self._listening = PostgresLink(address), PostgresLink(address)

    async def open(self) -> None:
        """As in `Store`."""
        try:
            await self._writing.connected()
            await self._writing.make(_TABLES)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """As in `Store`."""
        for link in (self._writing, self._reading, self._claiming, self._listening):
            await link.aclose()

    async def acquire(self, claim: Claim) -> Acquired:
        """As in `Store`."""
        while True:
            async with self._claiming.transaction() as run:
                old, now = await _locked(run, claim.run)
                new = acquired(old, claim, now)
                if new is None:
                    assert old is not None  # a claim of an unused id is always granted
                    return Acquired(False, old)
                if old is None:
                    if not await run(_INSERT, _row(new)):
                        continue  # another process was first
                else:
                    if claim.mode == "replace":
                        await run("delete from llmstream_batches where run = %s", (claim.run,))
                    await run(_UPDATE, (*_row(new), claim.run))
                await _notify(run, [claim.run])
                return Acquired(True, new)

    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        """As in `Store`. Records are locked in one order, so that two commits never wait for each other."""
        order = sorted(range(len(appends)), key=lambda at: appends[at].run)
        found: dict[int, RunStatus | None] = {}

        def change(records: list[list[Any]]) -> list[Statement]:
            statements = list[Statement]()
            for at, rows in zip(order, records, strict=True):
                append = appends[at]
                old, now = _found(rows)
                new = appended(old, append, now)
                if new is not None:
                    statements.append((_UPDATE, (*_row(new), append.run)))
                    if append.count:
                        values = (append.run, new.tail, append.count, now, append.data)
                        statements.append((_FRAMES, values))
                found[at] = new or old
            return statements + _notice([a.run for a in appends if a.count or a.state != "open"])

        await self._writing.exchange([(_LOCK, (appends[at].run,)) for at in order], change)
        return [found[at] for at in range(len(appends))]

    async def read(self, wanted: Sequence[tuple[str, int]], max_bytes: int) -> Sequence[RunSlice]:
        """As in `Store`."""
        reads = list[Statement]()
        for name, after in wanted:
            reads += [(_SELECT, (name,)), (_READ, (name, after, max_bytes))]
        # One snapshot: otherwise a status could be older than the frames that are read after it.
        _, *found, _ = await self._reading.together([(_SNAPSHOT, ()), *reads, ("commit", ())])
        slices = list[RunSlice]()
        for records, rows in zip(found[::2], found[1::2], strict=True):
            batches = [Batch(last - count + 1, count, at, bytes(data)) for last, count, at, data in rows]
            slices.append(RunSlice(_found(records)[0], batches))
        return slices

    async def request_stop(self, run: str) -> RunStatus | None:
        """As in `Store`."""
        async with self._writing.transaction() as execute:
            await execute(
                "update llmstream_runs set stopping = true where run = %s and state = 'open'", (run,)
            )
            await _notify(execute, [run])
            return _found(await execute(_SELECT, (run,)))[0]

    async def mark_seen(self, runs: Sequence[str]) -> None:
        """As in `Store`."""
        await self._writing.rows(
            f"update llmstream_runs set seen = {_NOW} where run = any(%s)",  # noqa: S608
            sorted(runs),
        )

    async def delete(self, run: str) -> None:
        """As in `Store`."""
        async with self._writing.transaction() as execute:
            # The record first: an append in between then finds no run, and writes no orphaned rows.
            await execute("delete from llmstream_runs where run = %s", (run,))
            await execute("delete from llmstream_batches where run = %s", (run,))
            await _notify(execute, [run])

    async def sweep(self) -> Swept:
        """As in `Store`. Each run in a transaction of its own, so that producers are not blocked."""
        due = await self._reading.rows(
            f"select run from llmstream_runs where ended is not null and ended + keep_s < {_NOW} "  # noqa: S608
            f"and (first <= tail or ended + 2 * keep_s < {_NOW})"
        )
        for (name,) in due:
            async with self._writing.transaction() as run:
                await _sweep(run, name)
        lost = await self._reading.rows(
            f"select run from llmstream_runs where ended is null and lost_at < {_NOW}"  # noqa: S608
        )
        return Swept([name for (name,) in lost])

    async def listen(self, on_change: Callable[[str | None], None]) -> None:
        """As in `Store`: by `LISTEN`, on one channel."""
        async with aclosing(self._listening.notices(_CHANNEL)) as notices:
            async for payload in notices:
                for name in _names(payload):
                    on_change(name)
        raise LogUnavailable("PostgreSQL has closed the connection that listens")


def _names(payload: str) -> Sequence[str | None]:
    if not payload:
        return [None]
    try:
        return msgspec.json.decode(payload, type=list[str])
    except msgspec.MsgspecError:
        return [None]


def _notice(names: Sequence[str]) -> list[Statement]:
    """The notification of a commit, if it changed any run."""
    if not names:
        return []
    payload = msgspec.json.encode(sorted(set(names))).decode()
    # An empty notification means any run.
    text = payload if len(payload.encode()) <= _MAX_NAMES else ""
    return [("select pg_notify(%s, %s)", (_CHANNEL, text))]


async def _notify(run: Run, names: Sequence[str]) -> None:
    for statement, values in _notice(names):
        await run(statement, values)


async def _locked(run: Run, name: str) -> tuple[RunStatus | None, float]:
    """The record, locked until the end of the transaction, and the time."""
    rows = await run(_LOCK, (name,))
    if rows:
        return _found(rows)
    ((now,),) = await run(f"select {_NOW}")
    return None, now


def _found(rows: Sequence[Any]) -> tuple[RunStatus | None, float]:
    if not rows:
        return None, 0.0
    *values, now = rows[0]
    return RunStatus(**dict(zip(_COLUMNS, values, strict=True)), now=now), now


def _row(status: RunStatus) -> tuple[Any, ...]:
    return tuple([getattr(status, name) for name in _COLUMNS])


async def _sweep(run: Run, name: str) -> None:
    status, now = await _locked(run, name)
    fate = "keep" if status is None else swept(status, now)
    if fate == "keep":  # replaced meanwhile
        return
    await run("delete from llmstream_batches where run = %s", (name,))
    if fate == "delete":
        await run("delete from llmstream_runs where run = %s", (name,))
    else:
        await run("update llmstream_runs set first = tail + 1 where run = %s", (name,))
