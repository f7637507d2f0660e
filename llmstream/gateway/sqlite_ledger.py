"""The ledger in one SQLite file, for the processes of one machine.

The file is in WAL mode: readers do not wait for writers. WAL does not work on network file systems.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Unpack

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.files import connect_sqlite, transaction
from llmstream.first_use import prepared
from llmstream.gateway.accounts import Row
from llmstream.gateway.ledger import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    Budget,
    Busy,
    Filter,
    GroupedBy,
    Key,
    Ledger,
    Sum,
    budgets_of,
    digest,
    is_lost,
    limited,
    over_budget,
    payers_of,
    this_process,
)

__all__ = ["SQLiteLedger"]

# One transaction takes well under a millisecond, so that 5 s mean a stuck process.
_BUSY_S: Final = 5.0
_WAIT_WHILE_BUSY: Final = f"pragma busy_timeout = {_BUSY_S * 1000:.0f}"
_KEYS: Final = "select digest, data from keys"
# In pages. `tidy` is called long before; after 1,000, SQLite would wait for the disk in the middle of a call.
_TIDY_LATE: Final = "pragma wal_autocheckpoint = 16000"
_VERSION: Final = 2
_SET_VERSION: Final = f"pragma user_version = {_VERSION}"
_CALLS_OF_KEY: Final = (
    "select started, cost_usd from calls where key = ? and started > ? and cost_usd > 0 order by started"
)
# The comparison with '' lets SQLite use the index of tags.
_CALLS_OF_TAG: Final = (
    "select started, cost_usd from calls where tag = ? and tag != '' and started > ? and cost_usd > 0 "
    "order by started"
)

_COLUMNS: Final = tuple(name for name in Row.__struct_fields__ if name != "id")
_TYPES: Final = {"started": "real", "cost_usd": "real", "first_s": "real", "duration_s": "real"}
_INTEGERS: Final = frozenset({"streamed", "input_tokens", "output_tokens", "cached_tokens", "estimated"})


def _column(name: str) -> str:
    return f"{name} {_TYPES.get(name) or ('integer' if name in _INTEGERS else 'text')}"


# `spent` has sums by the hour, so that a window of a month is not summed call by call.
_TABLES: Final = f"""
create table if not exists keys (name text primary key, digest blob not null unique, data blob not null);
create table if not exists calls (
    id integer primary key, owner text not null, {", ".join(map(_column, _COLUMNS))}
);
create index if not exists calls_of_keys on calls (key, started);
create index if not exists calls_of_tags on calls (tag, started) where tag != '';
create index if not exists calls_by_time on calls (started);
create index if not exists open_calls on calls (outcome) where outcome = 'open';
create table if not exists spent (
    key text not null, hour integer not null, usd real not null, primary key (key, hour)
) without rowid;
create table if not exists settings (name text primary key, value blob not null) without rowid;
create table if not exists carried (
    call_id text primary key, time real not null, data blob not null
) without rowid;
"""
_CREATE: Final = f"begin immediate; {_TABLES} pragma user_version = {_VERSION}; commit;"

_INSERT: Final = (
    f"insert into calls (owner, {', '.join(_COLUMNS)}) values (?, {', '.join('?' * len(_COLUMNS))})"  # noqa: S608
)
_UPDATE: Final = f"update calls set {', '.join(f'{name} = ?' for name in _COLUMNS)} where id = ?"  # noqa: S608
_SELECT: Final = f"select id, {', '.join(_COLUMNS)} from calls"  # noqa: S608  # names of fields
# A few at each call, so that no call has to delete many.
_FORGET: Final = (
    "delete from calls where id in (select id from calls where started < ? order by started limit 10)"
)
_SPEND: Final = (
    "insert into spent values (?, ?, ?) on conflict (key, hour) do update set usd = usd + excluded.usd"
)


_GROUPS: Final = {
    "key": "key",
    "tag": "tag",
    "model": "model",
    "route": "route",
    "day": "strftime('%Y-%m-%d', started, 'unixepoch')",
}


class SQLiteLedger(Ledger):
    """Keys and calls in one SQLite file, created if missing, readable by its owner only.

    Its methods block for some 50 us; changes longer if another process writes.

    path:   of the file; ":memory:" for this process alone
    keep_s: how long the log keeps a call, at least a day; None for ever
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], float] = time.time,
        keep_s: float | None = None,
    ) -> None:
        self._clock = clock
        self._keep_s = keep_s
        # Distinguishes a dead gateway from a busy one: see `recover`.
        self._owner = this_process()
        self._lock = threading.Lock()
        self._db = _connect(path)
        # For keys while `_db` waits for another process: readers of a file wait for no writer.
        self._beside = None if os.fspath(path) == ":memory:" else _connect(path)
        self._beside_lock = threading.Lock()
        self._version = -1
        self._by_digest: dict[bytes, Key] = {}

    def close(self) -> None:
        """As in `Ledger`."""
        with self._lock, self._beside_lock:
            self._db.close()
            if self._beside is not None:
                self._beside.close()

    # Keys.

    def _put_key(self, key: Key, found_by: bytes) -> bool:
        stored = msgspec.structs.replace(key, created=key.created or self._clock())
        try:
            with self._changing() as db:
                db.execute(
                    "insert into keys values (?, ?, ?)", (key.name, found_by, msgspec.json.encode(stored))
                )
        except sqlite3.IntegrityError:
            return False
        return True

    def keys(self) -> list[Key]:
        """As in `Ledger`."""
        rows = self._rows("select data from keys order by name")
        return [msgspec.json.decode(data, type=prepared(Key)) for (data,) in rows]

    def revoke(self, name: str) -> None:
        """As in `Ledger`."""
        with self._changing() as db:
            found = db.execute("select data from keys where name = ?", (name,)).fetchone()
            if found is None:
                raise InvalidRequest(f"there is no key named {name!r}. `gateway keys list` shows all.")
            key = msgspec.structs.replace(
                msgspec.json.decode(found[0], type=prepared(Key)), revoked=self._clock()
            )
            db.execute("update keys set data = ? where name = ?", (msgspec.json.encode(key), name))

    def find(self, secrets_given: Sequence[str]) -> Key | None:
        """As in `Ledger`."""
        known = self._known()
        for secret in secrets_given:
            key = known.get(digest(secret))
            if key is not None and key.revoked is None:
                return key
        return None

    @property
    def has_keys(self) -> bool:
        """As in `Ledger`."""
        return bool(self._known())

    def _known(self) -> dict[bytes, Key]:
        """All keys, read again only after the file has changed."""
        beside = self._beside
        if not self._lock.acquire(blocking=beside is None):
            assert beside is not None
            with self._beside_lock:
                return _by_digest(beside.execute(_KEYS).fetchall())
        try:
            # Counts the commits of other connections; ours reset it.
            (version,) = self._db.execute("pragma data_version").fetchone()
            if version != self._version:
                self._by_digest = _by_digest(self._db.execute(_KEYS).fetchall())
                self._version = version
            return self._by_digest
        finally:
            self._lock.release()

    # Calls.

    def reserve(
        self,
        row: Row,
        key: Key,
        tokens: int,
        cost_usd: float | None,
        tag_budget: Budget | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """As in `Ledger`."""
        budgets = budgets_of(key, tag_budget, row, cost_usd)
        with self._changing(waits=waits) as db:
            now = self._clock()
            # In one transaction: between a separate check and insert, another worker could use the same
            # allowance.
            self._check_minute(db, key, tokens, now)
            for budget in budgets:
                self._check_budget(db, budget, cost_usd or 0.0, now)
            entered = msgspec.structs.replace(row, input_tokens=tokens, cost_usd=cost_usd)
            row.id = db.execute(_INSERT, (self._owner, *_values(entered))).lastrowid or 0
            _spend(db, row, cost_usd or 0.0)
            if self._keep_s is not None:
                db.execute(_FORGET, (now - self._keep_s,))

    def settle(self, row: Row, *, waits: bool = True) -> None:
        """As in `Ledger`."""
        with self._changing(waits=waits) as db:
            found = db.execute("select cost_usd from calls where id = ?", (row.id,)).fetchone()
            reserved = found[0] if found is not None else None
            db.execute(_UPDATE, (*_values(row), row.id))
            _spend(db, row, (row.cost_usd or 0.0) - (reserved or 0.0))

    def _check_minute(self, db: sqlite3.Connection, key: Key, tokens: int, now: float) -> None:
        if key.requests_per_minute is None and key.tokens_per_minute is None:
            return
        count, used, first = db.execute(
            "select count(*), coalesce(sum(input_tokens + output_tokens), 0), min(started) from calls "
            "where key = ? and started > ?",
            (key.name, now - MINUTE_S),
        ).fetchone()
        # The oldest call leaves the window then; after that there may be room, or another one to wait for.
        wait_s = max(0.1, (first or now) + MINUTE_S - now)
        if key.requests_per_minute is not None and count >= key.requests_per_minute:
            raise limited(f"{key.requests_per_minute} requests a minute", key, wait_s)
        # A call larger than the limit is allowed if no other is in the window; otherwise it would wait for
        # ever.
        if key.tokens_per_minute is not None and used and used + tokens > key.tokens_per_minute:
            raise limited(f"{key.tokens_per_minute} tokens a minute", key, wait_s)

    def _check_budget(self, db: sqlite3.Connection, budget: Budget, cost_usd: float, now: float) -> None:
        spent = self._spent(db, budget, now)
        total = sum(usd for _, usd in spent)
        if total + cost_usd > budget.usd:
            wait_s = _until_room(spent, total + cost_usd - budget.usd, budget.window_s, now)
            raise over_budget(budget, total, cost_usd, wait_s)

    def _spent(self, db: sqlite3.Connection, budget: Budget, now: float) -> list[tuple[float, float]]:
        """Pairs of a time and what was spent there, in the budget's window, oldest first."""
        since = now - budget.window_s
        if budget.window_s < DAY_S:
            calls = _CALLS_OF_KEY if budget.of == "key" else _CALLS_OF_TAG
            return db.execute(calls, (budget.name, since)).fetchall()
        # An hour that is partly in the window counts completely.
        rows = db.execute(
            "select hour, usd from spent where key = ? and hour >= ? order by hour",
            (budget.payer, _hour(since)),
        ).fetchall()
        return [((hour + 1) * float(HOUR_S), usd) for hour, usd in rows]

    def rows(self, *, limit: int = 100, **wanted: Unpack[Filter]) -> list[Row]:
        """As in `Ledger`."""
        where, values = _where(wanted)
        found = self._rows(f"{_SELECT} {where} order by id desc limit ?", (*values, limit))
        return [
            msgspec.convert(dict(zip(("id", *_COLUMNS), one, strict=True)), prepared(Row), strict=False)
            for one in found
        ]

    def sums(self, group: GroupedBy, **wanted: Unpack[Filter]) -> list[Sum]:
        """As in `Ledger`."""
        where, values = _where(wanted)
        found = self._rows(
            f"select {_GROUPS[group]} as g, count(*), sum(outcome not in ('complete', 'open')), "  # noqa: S608
            "coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cost_usd), 0), "
            f"sum(cost_usd is null) from calls {where} group by g "
            f"order by {'g' if group == 'day' else '6 desc, 2 desc'}",
            values,
        )
        return [Sum(*one) for one in found]

    def recover(self) -> int:
        """As in `Ledger`."""
        with self._changing() as db:
            found = db.execute("select id, owner, started from calls where outcome = 'open'").fetchall()
            lost = [(number,) for number, owner, started in found if is_lost(owner, self._clock() - started)]
            db.executemany("update calls set outcome = 'lost', code = 'gateway-died' where id = ?", lost)
        return len(lost)

    # Data of the gateway itself.

    def secret(self, name: str) -> bytes:
        """As in `Ledger`."""
        with self._changing() as db:
            db.execute("insert or ignore into settings values (?, ?)", (name, secrets.token_bytes(32)))
            (value,) = db.execute("select value from settings where name = ?", (name,)).fetchone()
        return bytes(value)

    def carry(self, entries: Sequence[tuple[str, bytes]], keep_s: float) -> None:
        """As in `Ledger`."""
        with self._changing() as db:
            now = self._clock()
            rows = [(call_id, now, data) for call_id, data in entries]
            db.executemany("insert or replace into carried values (?, ?, ?)", rows)
            db.execute("delete from carried where time < ?", (now - keep_s,))

    def carried(self, call_ids: Sequence[str]) -> dict[str, bytes]:
        """As in `Ledger`."""
        found = {}
        for call_id in call_ids:
            for (data,) in self._rows("select data from carried where call_id = ?", (call_id,)):
                found[call_id] = data
        return found

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            return self._db.execute(statement, values).fetchall()

    @contextmanager
    def _changing(self, *, waits: bool = True) -> Iterator[sqlite3.Connection]:
        """raises: Busy"""
        if not self._lock.acquire(blocking=waits):
            raise Busy
        try:
            with transaction(self._db) if waits else self._at_once():
                yield self._db
                self._version = -1
        finally:
            self._lock.release()

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        self._db.execute("pragma busy_timeout = 0")
        try:
            with transaction(self._db):
                yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:  # the rest of the message has the reason
                raise Busy from None
            raise
        finally:
            self._db.execute(_WAIT_WHILE_BUSY)

    def tidy(self) -> None:
        """Moves what is in the WAL into the file, and waits for the disk."""
        with self._lock:
            self._db.execute("pragma wal_checkpoint(passive)").fetchall()


def _by_digest(rows: Iterable[tuple[bytes, bytes]]) -> dict[bytes, Key]:
    return {found_by: msgspec.json.decode(data, type=prepared(Key)) for found_by, data in rows}


def _spend(db: sqlite3.Connection, row: Row, usd: float) -> None:
    if usd:
        db.executemany(_SPEND, [(payer, _hour(row.started), usd) for payer in payers_of(row)])


def _connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """raises: InvalidRequest if the file cannot be opened"""
    where = os.fspath(path)
    try:
        db = connect_sqlite(where, busy_s=_BUSY_S)
        db.execute("pragma synchronous = normal")
        db.execute(_TIDY_LATE)
        (version,) = db.execute("pragma user_version").fetchone()
        if version > _VERSION:
            raise InvalidRequest(f"{where} was written by a newer version of llmstream. Update it.")
        if version == 1:
            _add_tags(db)
        db.executescript(_CREATE)
    except (OSError, sqlite3.Error) as error:
        raise InvalidRequest(f"the store {where!r} cannot be opened: {error}") from None
    return db


def _add_tags(db: sqlite3.Connection) -> None:
    with transaction(db):
        if db.execute("pragma user_version").fetchone() == (1,):
            db.execute("alter table calls add column tag text default ''")
            db.execute(_SET_VERSION)


def _hour(time_s: float) -> int:
    return int(time_s // HOUR_S)


def _values(row: Row) -> list[Any]:
    return [getattr(row, name) for name in _COLUMNS]


def _where(wanted: Filter) -> tuple[str, list[Any]]:
    conditions, values = ["started >= ?"], list[Any]([wanted.get("since", 0.0)])
    for name in ("key", "tag", "outcome"):
        if wanted.get(name):
            conditions.append(f"{name} = ?")
            values.append(wanted.get(name))
    if model := wanted.get("model"):
        conditions.append("(instr(model, ?) or instr(asked, ?))")
        values += [model, model]
    return f"where {' and '.join(conditions)}", values


def _until_room(spent: list[tuple[float, float]], needed: float, window_s: float, now: float) -> float:
    """Seconds until `needed` USD have left the window; all of it if that is not enough."""
    for time_s, usd in spent:
        needed -= usd
        if needed <= 0:
            return max(1.0, time_s + window_s - now)
    return window_s
