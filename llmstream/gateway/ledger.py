"""The ledger: keys, what they may use, and a row for each call, in one SQLite file.

A call is entered with the most that it can use before it is made, and with what it used after. So a gateway
that dies in the middle loses no call, and several processes on one file do not overspend together. The file
is in WAL mode: readers do not wait for writers. WAL does not work on network file systems.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from llmstream import private_sqlite
from llmstream.errors import InvalidRequest, LLMStreamError, PermissionDenied, RateLimited
from llmstream.gateway.accounts import Row

__all__ = ["Key", "Ledger", "Sum"]

# Recognizable to people and to scanners for leaked secrets.
_PREFIX: Final = "ls-"
_HOUR_S: Final = 3600
_MINUTE_S: Final = 60.0
# Several workers write; one transaction takes well under a millisecond, so that 5 s mean a stuck process.
_BUSY_S: Final = 5.0
_VERSION: Final = 1
# A process id may be that of another program by now, so that an old call is lost in any case.
_LOST_AFTER_S: Final = 7200.0

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
_SPEND: Final = (
    "insert into spent values (?, ?, ?) on conflict (key, hour) do update set usd = usd + excluded.usd"
)


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A client's key, without its secret.

    models:              names and patterns of models that it may use
    requests_per_minute: None is no limit of its own
    tokens_per_minute:   input and output
    budget_usd:          what it may spend within `budget_s`, a window that slides
    created, revoked:    Unix times, in s
    """

    name: str
    models: tuple[str, ...] = ("*",)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    budget_usd: float | None = None
    budget_s: float = 30 * 86400.0
    created: float = 0.0
    revoked: float | None = None

    def may_use(self, model: str) -> bool:
        """Whether it may use the model of this name."""
        return any(fnmatchcase(model, pattern) for pattern in self.models)


class Sum(msgspec.Struct, frozen=True):
    """Calls of one group: a key, a model, a day.

    unknown_cost: calls whose cost is not known
    """

    group: str
    calls: int
    failed: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unknown_cost: int


_GROUPS: Final = {
    "key": "key",
    "model": "model",
    "route": "route",
    "day": "strftime('%Y-%m-%d', started, 'unixepoch')",
}


class Ledger:
    """Keys and calls in one SQLite file, which is made if it is missing, readable by its owner only.

    Its methods block for some 50 us; `reserve` longer where another process writes. Threads may share it.

    path: of the file; ":memory:" for this process alone
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        # Tells a gateway that died from one that is busy: see `recover`.
        self._owner = f"{os.getpid()}"
        self._lock = threading.Lock()
        self._db = _connect(path)
        self._version = -1
        self._by_digest: dict[bytes, Key] = {}

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._db.close()

    # Keys.

    def add_key(self, key: Key) -> str:
        """Stores a key and returns its secret, which is not stored: only its SHA-256 is.

        raises: InvalidRequest if the name is taken, also by a revoked key
        """
        secret = _PREFIX + secrets.token_urlsafe(32)
        stored = msgspec.structs.replace(key, created=key.created or self._clock())
        try:
            with self._changing() as db:
                db.execute(
                    "insert into keys values (?, ?, ?)",
                    (key.name, _digest(secret), msgspec.json.encode(stored)),
                )
        except sqlite3.IntegrityError:
            raise InvalidRequest(f"there is a key of the name {key.name!r}. Use another name.") from None
        return secret

    def keys(self) -> list[Key]:
        """All keys by name, with those that were revoked."""
        rows = self._rows("select data from keys order by name")
        return [msgspec.json.decode(data, type=Key) for (data,) in rows]

    def revoke(self, name: str) -> None:
        """Makes a key useless; its calls stay in the log.

        raises: InvalidRequest if there is none of this name
        """
        with self._changing() as db:
            found = db.execute("select data from keys where name = ?", (name,)).fetchone()
            if found is None:
                raise InvalidRequest(f"there is no key of the name {name!r}. `gateway keys list` shows all.")
            key = msgspec.structs.replace(msgspec.json.decode(found[0], type=Key), revoked=self._clock())
            db.execute("update keys set data = ? where name = ?", (msgspec.json.encode(key), name))

    def find(self, secrets_given: Sequence[str]) -> Key | None:
        """Returns the key of the first secret that is known and not revoked."""
        known = self._known()
        for secret in secrets_given:
            key = known.get(_digest(secret))
            if key is not None and key.revoked is None:
                return key
        return None

    @property
    def has_keys(self) -> bool:
        """Whether there is a key, revoked or not: a gateway that had one is not open without it."""
        # Otherwise to revoke the last key would open the gateway to everyone.
        return bool(self._known())

    def _known(self) -> dict[bytes, Key]:
        """All keys, read again only after the file has changed."""
        with self._lock:
            # Counts the commits of other connections; ours reset it.
            (version,) = self._db.execute("pragma data_version").fetchone()
            if version != self._version:
                rows = self._db.execute("select digest, data from keys").fetchall()
                self._by_digest = {digest: msgspec.json.decode(data, type=Key) for digest, data in rows}
                self._version = version
            return self._by_digest

    # Calls.

    def reserve(self, row: Row, key: Key, tokens: int, cost_usd: float | None) -> None:
        """Enters a call with the most that it can use; sets `row.id`.

        raises: RateLimited if that is beyond a limit of the key, with the time after which it is not;
                PermissionDenied if a budget cannot be kept because the price is unknown
        """
        with self._changing() as db:
            now = self._clock()
            # Inside the transaction: between a check and an insert of its own, another worker could use the
            # same room.
            self._check_minute(db, key, tokens, now)
            # Callers without a key share no budget: the field is of a key.
            if key.budget_usd is not None and row.key:
                self._check_budget(db, key, cost_usd, row, now)
            entered = msgspec.structs.replace(row, input_tokens=tokens, cost_usd=cost_usd)
            row.id = db.execute(_INSERT, (self._owner, *_values(entered))).lastrowid or 0
            if cost_usd:
                db.execute(_SPEND, (row.key, _hour(row.started), cost_usd))

    def settle(self, row: Row) -> None:
        """Writes what a call has used in place of what was reserved."""
        with self._changing() as db:
            found = db.execute("select cost_usd from calls where id = ?", (row.id,)).fetchone()
            reserved = found[0] if found is not None else None
            db.execute(_UPDATE, (*_values(row), row.id))
            # The hour of the start, as the reserve: otherwise a long call would leave its reserve in one hour
            # and its correction in another.
            difference = (row.cost_usd or 0.0) - (reserved or 0.0)
            if difference:
                db.execute(_SPEND, (row.key, _hour(row.started), difference))

    def _check_minute(self, db: sqlite3.Connection, key: Key, tokens: int, now: float) -> None:
        if key.requests_per_minute is None and key.tokens_per_minute is None:
            return
        count, used, first = db.execute(
            "select count(*), coalesce(sum(input_tokens + output_tokens), 0), min(started) from calls "
            "where key = ? and started > ?",
            (key.name, now - _MINUTE_S),
        ).fetchone()
        # The oldest call leaves the window then; there may be room, or a next one to wait for.
        wait_s = max(0.1, (first or now) + _MINUTE_S - now)
        if key.requests_per_minute is not None and count >= key.requests_per_minute:
            raise _limited(f"{key.requests_per_minute} requests a minute", key, wait_s)
        # A call that is larger than the limit passes where nothing else does; else it would wait for ever.
        if key.tokens_per_minute is not None and used and used + tokens > key.tokens_per_minute:
            raise _limited(f"{key.tokens_per_minute} tokens a minute", key, wait_s)

    def _check_budget(
        self, db: sqlite3.Connection, key: Key, cost_usd: float | None, row: Row, now: float
    ) -> None:
        assert key.budget_usd is not None
        if cost_usd is None:
            raise PermissionDenied(
                f"The key {key.name} has a budget, and no price of {row.model} is known. The operator can "
                f"set `price` in the route {row.route!r}.",
                status=403,
                reason="unknown_price",
            )
        spent = self._spent(db, key, now)
        total = sum(usd for _, usd in spent)
        if total + cost_usd <= key.budget_usd:
            return
        left = max(0.0, key.budget_usd - total)
        raise RateLimited(
            f"The key {key.name} has {left:.4f} of its {key.budget_usd:g} USD left, and this request may "
            f"cost {cost_usd:.4f}. Ask for fewer output tokens, or wait.",
            status=429,
            reason="budget_exceeded",
            retry_after_s=_until_room(spent, total + cost_usd - key.budget_usd, key.budget_s, now),
        )

    def _spent(self, db: sqlite3.Connection, key: Key, now: float) -> list[tuple[float, float]]:
        """Pairs of a time and what was spent there, in the key's window, oldest first."""
        since = now - key.budget_s
        # Sums by the hour are too coarse for a short window, and few calls are in it.
        if key.budget_s < 24 * _HOUR_S:
            return db.execute(
                "select started, cost_usd from calls where key = ? and started > ? and cost_usd > 0 "
                "order by started",
                (key.name, since),
            ).fetchall()
        # An hour that is partly in the window counts.
        rows = db.execute(
            "select hour, usd from spent where key = ? and hour >= ? order by hour", (key.name, _hour(since))
        ).fetchall()
        return [((hour + 1) * float(_HOUR_S), usd) for hour, usd in rows]

    def rows(
        self, *, key: str = "", model: str = "", outcome: str = "", since: float = 0.0, limit: int = 100
    ) -> list[Row]:
        """The latest calls that fit, newest first; `model` is a part of its name or of the one asked for."""
        where, values = _where(key, model, outcome, since)
        found = self._rows(f"{_SELECT} {where} order by id desc limit ?", (*values, limit))
        return [
            msgspec.convert(dict(zip(("id", *_COLUMNS), one, strict=True)), Row, strict=False)
            for one in found
        ]

    def sums(
        self, group: str, *, key: str = "", model: str = "", outcome: str = "", since: float = 0.0
    ) -> list[Sum]:
        """Sums by "key", "model", "route" or "day" (UTC) of the calls that fit, the dearest first."""
        where, values = _where(key, model, outcome, since)
        found = self._rows(
            f"select {_GROUPS[group]} as g, count(*), sum(outcome not in ('complete', 'open')), "  # noqa: S608
            "coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cost_usd), 0), "
            f"sum(cost_usd is null) from calls {where} group by g "
            f"order by {'g' if group == 'day' else '6 desc, 2 desc'}",
            values,
        )
        return [Sum(*one) for one in found]

    def recover(self) -> int:
        """Marks open calls of gateways that died as lost; returns their number. Their reserve stays spent."""
        with self._changing() as db:
            found = db.execute("select id, owner, started from calls where outcome = 'open'").fetchall()
            lost = [
                (number,)
                for number, owner, started in found
                if started < self._clock() - _LOST_AFTER_S or not _is_alive(owner)
            ]
            db.executemany("update calls set outcome = 'lost', code = 'gateway-died' where id = ?", lost)
        return len(lost)

    # What the gateway itself remembers.

    def secret(self, name: str) -> bytes:
        """Returns 32 random bytes that are the same for all processes on this file."""
        with self._changing() as db:
            db.execute("insert or ignore into settings values (?, ?)", (name, secrets.token_bytes(32)))
            (value,) = db.execute("select value from settings where name = ?", (name,)).fetchone()
        return bytes(value)

    def carry(self, entries: Sequence[tuple[str, bytes]], keep_s: float) -> None:
        """Stores data by the id of a call, and drops what is older than `keep_s`."""
        with self._changing() as db:
            now = self._clock()
            rows = [(call_id, now, data) for call_id, data in entries]
            db.executemany("insert or replace into carried values (?, ?, ?)", rows)
            db.execute("delete from carried where time < ?", (now - keep_s,))

    def carried(self, call_ids: Sequence[str]) -> dict[str, bytes]:
        """Returns the data of those calls that have any."""
        found = {}
        for call_id in call_ids:
            for (data,) in self._rows("select data from carried where call_id = ?", (call_id,)):
                found[call_id] = data
        return found

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            return self._db.execute(statement, values).fetchall()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, private_sqlite.transaction(self._db):
            yield self._db
            self._version = -1


def _connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """raises: InvalidRequest if the file cannot be opened"""
    where = os.fspath(path)
    try:
        db = private_sqlite.connect(where, busy_s=_BUSY_S)
        db.execute("pragma synchronous = normal")
        (version,) = db.execute("pragma user_version").fetchone()
        if version > _VERSION:
            raise InvalidRequest(f"{where} was written by a newer version of llmstream. Update it.")
        db.executescript(_CREATE)
    except (OSError, sqlite3.Error) as error:
        raise InvalidRequest(f"the store {where!r} cannot be opened: {error}") from None
    return db


def _digest(secret: str) -> bytes:
    # The secret is random, so that a slow hash would protect nothing.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _hour(time_s: float) -> int:
    return int(time_s // _HOUR_S)


def _values(row: Row) -> list[Any]:
    return [getattr(row, name) for name in _COLUMNS]


def _where(key: str, model: str, outcome: str, since: float) -> tuple[str, list[Any]]:
    conditions, values = ["started >= ?"], list[Any]([since])
    if key:
        conditions.append("key = ?")
        values.append(key)
    if model:
        conditions.append("(instr(model, ?) or instr(asked, ?))")
        values += [model, model]
    if outcome:
        conditions.append("outcome = ?")
        values.append(outcome)
    return f"where {' and '.join(conditions)}", values


def _limited(limit: str, key: Key, wait_s: float) -> LLMStreamError:
    who = f"The key {key.name}" if key.name else "This gateway"
    return RateLimited(
        f"{who} is limited to {limit}.", status=429, reason="rate_limit_exceeded", retry_after_s=wait_s
    )


def _until_room(spent: list[tuple[float, float]], needed: float, window_s: float, now: float) -> float:
    """Seconds until `needed` USD have left the window; all of it if that is not enough."""
    for time_s, usd in spent:
        needed -= usd
        if needed <= 0:
            return max(1.0, time_s + window_s - now)
    return window_s


def _is_alive(owner: str) -> bool:
    try:
        os.kill(int(owner), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True
