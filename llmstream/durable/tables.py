"""The tables of durable runs, and each change of them as one statement, for SQLite and PostgreSQL alike.

A statement is atomic in both. Where one depends on the record of the run, it takes it from the common table
expression `held`; PostgreSQL locks that row, which serializes a claim and a write of the losing process.
Changes share commits: those made during a commit are in the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from llmstream.agent.state import Expense
from llmstream.durable.store import RunRecord
from llmstream.first_use import prepared
from llmstream.usage import Usage

__all__ = [
    "TABLES",
    "VERSION",
    "Change",
    "Changes",
    "Statements",
    "cost_of",
    "first_epoch",
    "record_of",
    "usage_of",
    "usage_row",
]


class _Spent(msgspec.Struct):
    """Other fields in the column of tokens: their cost, and the tokens of other models in the same step."""

    cost: float | None = None
    others: dict[str, msgspec.Raw] = {}


_spent: Final = msgspec.json.Decoder(_Spent).decode

VERSION: Final = 1
"""Version of the tables, in `durable_version`. A newer one is refused."""

# Of agents in one warning: enough to see a typing error; a program has few agents.
_MOST_NAMES: Final = 20

_COLUMNS: Final = RunRecord.__struct_fields__
_NAMES: Final = ", ".join(_COLUMNS)

TABLES: Final = (
    "create table if not exists durable_version (version integer not null)",
    "create table if not exists durable_runs (run text primary key, agent text not null, "
    "state text not null, owner text not null, epoch bigint not null, lease_until double precision not null, "
    "created double precision not null, changed double precision not null, ended double precision, "
    "ready integer not null, stopping integer not null, request text not null, waiting text not null, "
    "outcome text not null)",
    "create table if not exists durable_steps (run text not null, key text not null, epoch bigint not null, "
    "time double precision not null, data {blob}, model text not null, usage text not null, "
    "primary key (run, key))",
    "create index if not exists durable_open on durable_runs (state, agent)",
)


class Statements:
    """The statements in the form of one database.

    place: of a parameter: "?" or "%s"
    blob:  type of bytes
    share: locks a row that was read, until the end of the transaction
    """

    def __init__(self, *, place: str, blob: str, share: str) -> None:
        self._place = place
        self.tables = [statement.format(blob=blob) for statement in TABLES]
        held = "with held as (select run from durable_runs where run = ? and {} " + share + ")"
        mine = held.format("epoch = ? and state = 'running'")
        alive = held.format("state in ('running', 'waiting')")
        ended = "select 1 from durable_steps where run = ? and key like 'inbox/%' and length(data) = 0"
        self.create = self._form(
            "insert into durable_runs values (?, ?, 'running', '', ?, 0, ?, ?, null, 0, 0, ?, '', '') "
            "on conflict (run) do nothing"
        )
        self.record = self._form(f"select {_NAMES} from durable_runs where run = ?")
        self.claim = self._form(
            # The condition and the change are one statement: of concurrent claims only one succeeds.
            "update durable_runs set owner = ?, epoch = epoch + 1, lease_until = ?, changed = ?, ready = 0, "
            "state = 'running' where run = ? and state in ('running', 'waiting') and lease_until < ? "
            f"returning {_NAMES}"
        )
        self.renew = self._form(
            # Also an expired lease, if no other process has claimed the run since: a slow process keeps its
            # runs.
            "update durable_runs set lease_until = ? where run = ? and epoch = ? and state = 'running' "
            "returning stopping"
        )
        self.steps = self._form("select key, epoch, data from durable_steps where run = ?")
        self.look = self._form("select data from durable_steps where run = ? and key = ?")
        self.begin = self._form(
            f"{mine} insert into durable_steps select ?, ?, ?, ?, null, '', '' from held where true "
            "on conflict (run, key) do update set epoch = excluded.epoch, time = excluded.time "
            "where durable_steps.data is null returning epoch"
        )
        self.done = self._form(
            f"{mine} insert into durable_steps select ?, ?, ?, ?, ?, ?, ? from held where true "
            "on conflict (run, key) do update set epoch = excluded.epoch, time = excluded.time, "
            "data = excluded.data, model = excluded.model, usage = excluded.usage "
            "where durable_steps.data is null returning epoch"
        )
        self.give = self._form(
            f"{alive} insert into durable_steps select run, ?, 0, ?, ?, '', '' from held where true "
            "on conflict (run, key) do nothing returning key"
        )
        self.send = self._form(
            f"{alive} insert into durable_steps select run, 'inbox/' || (select count(*) from durable_steps "
            "where run = ? and key like 'inbox/%'), 0, ?, ?, '', '' from held "
            f"where not exists ({ended}) on conflict (run, key) do nothing returning key"
        )
        self.inbox_ended = self._form(ended)
        self.ready = self._form(
            "update durable_runs set ready = 1, changed = ? where run = ? and state in ('running', 'waiting')"
        )
        self.leave = self._form(
            "update durable_runs set state = ?, owner = '', lease_until = 0, waiting = ?, outcome = ?, "
            "changed = ?, ended = ? where run = ? and epoch = ? and state = 'running' returning epoch"
        )
        self.request_stop = self._form(
            # A new epoch for a run whose process is dead: if it was only suspended, its next write is
            # refused.
            "update durable_runs set stopping = 1, changed = ?, "
            "epoch = case when lease_until < ? then epoch + 1 else epoch end, "
            "ended = case when lease_until < ? then ? else null end, "
            "state = case when lease_until < ? then 'stopped' else state end "
            f"where run = ? and state in ('running', 'waiting') returning {_NAMES}"
        )
        self.usage = self._form("select model, usage from durable_steps where run = ? and model <> ''")
        self.ended_before = self._form("select run from durable_runs where ended < ?")
        self.delete_steps = self._form("delete from durable_steps where run = ?")
        self.delete_run = self._form("delete from durable_runs where run = ?")

    def _form(self, statement: str) -> str:
        if self._place == "?":
            return statement
        # psycopg reads every `%` as the beginning of a parameter.
        return statement.replace("%", "%%").replace("?", self._place)

    def records(
        self, state: str | None, agents: Sequence[str] | None, limit: int
    ) -> tuple[str, tuple[Any, ...]]:
        """A query for records, and its parameters."""
        conditions, values = list[str](), list[Any]()
        if state is not None:
            conditions.append("state = ?")
            values.append(state)
        if agents is not None:
            conditions.append(_among("agent", agents))
            values += agents
        where = f"where {' and '.join(conditions)} " if conditions else ""
        query = f"select {_NAMES} from durable_runs {where}order by changed desc limit ?"
        return self._form(query), (*values, limit)

    def due(self, agents: Sequence[str], now: float, limit: int) -> tuple[str, tuple[Any, ...]]:
        """A query for runs that may be claimed, the longest waiting first, and its parameters."""
        query = (
            f"select {_NAMES} from durable_runs where {_among('agent', agents)} and "
            "((state = 'running' and lease_until < ?) or (state = 'waiting' and ready = 1)) "
            "order by changed limit ?"
        )
        return self._form(query), (*agents, now, limit)

    def unclaimed(
        self, agents: Sequence[str], lease_before: float, changed_before: float
    ) -> tuple[str, tuple[Any, ...]]:
        """A query for names of other agents whose runs have been due since these times, with how many."""
        query = (
            f"select agent, count(*) from durable_runs where not ({_among('agent', agents)}) and "
            "((state = 'running' and lease_until < ?) or (state = 'waiting' and ready = 1)) and changed < ? "
            "group by agent order by agent limit ?"
        )
        return self._form(query), (*agents, lease_before, changed_before, _MOST_NAMES)


def _among(column: str, values: Sequence[str]) -> str:
    # PostgreSQL refuses an empty list.
    return f"{column} in ({', '.join('?' * len(values))})" if values else "false"


def first_epoch(now: float) -> int:
    """The epoch of a run without a claim, in microseconds since 1970.

    Not 0: a process that had a deleted run of the same id must not be taken for the one that has this one.
    """
    return int(now * 1e6)


def record_of(row: Sequence[Any]) -> RunRecord:
    """The record in a row."""
    fields = dict(zip(_COLUMNS, row, strict=True))
    fields["ready"], fields["stopping"] = bool(fields["ready"]), bool(fields["stopping"])
    return RunRecord(**fields)


def usage_row(spent: Iterable[Expense]) -> tuple[str, str]:
    """The columns of model and tokens of a step; two empty texts if it has used nothing."""
    usage, cost = dict[str, Usage](), dict[str, float]()
    for expense in spent:
        usage[expense.model] = usage.get(expense.model, Usage()) + expense.usage
        if expense.cost is not None:
            cost[expense.model] = cost.get(expense.model, 0.0) + expense.cost
    if not usage:
        return "", ""
    found = {model: msgspec.to_builtins(tokens) for model, tokens in usage.items()}
    for model, dollars in cost.items():
        found[model]["cost"] = dollars
    model = next(iter(found))
    row = found.pop(model)
    if found:
        row["others"] = found
    return model, msgspec.json.encode(row).decode()


def _used(rows: Iterable[Sequence[Any]]) -> Iterable[tuple[str, str | msgspec.Raw]]:
    """Each model and its tokens."""
    for model, usage in rows:
        yield model, usage
        yield from _spent(usage).others.items()


def cost_of(rows: Iterable[Sequence[Any]]) -> float | None:
    """The sum of the known costs in rows of model and tokens; None if there is none."""
    found = [cost for _, usage in _used(rows) if (cost := _spent(usage).cost) is not None]
    return sum(found) if found else None


def usage_of(rows: Iterable[Sequence[Any]]) -> dict[str, Usage]:
    """The sums of rows of model and tokens."""
    found: dict[str, Usage] = {}
    for model, usage in _used(rows):
        found[model] = found.get(model, Usage()) + msgspec.json.decode(usage, type=prepared(Usage))
    return found


class Change(NamedTuple):
    """A statement that waits for its commit, and its first row.

    run: the changed run
    row: None if it changed nothing
    """

    run: str
    statement: str
    values: tuple[Any, ...]
    row: asyncio.Future[Any]


Commit: TypeAlias = Callable[[Sequence[Change]], Awaitable[Sequence[Any]]]
"""Runs changes in one transaction; returns the first row of each, or None."""


class Changes:
    """Pending changes, and the task that commits them."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: list[Change] = []
        self._committing: asyncio.Task[None] | None = None

    async def row(self, run: str, statement: str, *values: Any) -> Any:
        """The first row returned by a change, once it is committed; None if there is none."""
        change = Change(run, statement, values, asyncio.get_running_loop().create_future())
        self._waiting.append(change)
        # A commit waits for a disk or a server: concurrent steps share one.
        if self._committing is None or self._committing.done():
            self._committing = asyncio.create_task(self._commit_all(), name="llmstream durable commits")
        return await change.row

    async def settled(self) -> None:
        """Waits until no change is pending, so that each caller gets its result."""
        if self._committing is not None:
            await asyncio.wait([self._committing])

    async def _commit_all(self) -> None:
        await asyncio.sleep(0)  # changes of concurrent calls join one commit
        while self._waiting:
            changes, self._waiting = self._waiting, []
            try:
                rows = await self._commit(changes)
            except Exception as error:
                for change in changes:
                    if not change.row.done():
                        change.row.set_exception(error)
                continue
            for change, row in zip(changes, rows, strict=True):
                if not change.row.done():  # otherwise the caller was cancelled
                    change.row.set_result(row)
