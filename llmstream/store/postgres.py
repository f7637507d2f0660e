"""Stores in PostgreSQL (extra `postgres`): for processes of any number of machines.

The tables are in a separate schema. A transaction that writes locks the rows of its conversation, so that
different conversations do not wait for each other; one that deletes is exclusive.

The index has words as tokenized by SQLite's FTS5, not by PostgreSQL's parser, which treats paths, addresses
and numbers as one word, and depends on the locale of the database for letters.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
import unicodedata
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from llmstream.addresses import shown
from llmstream.errors import InvalidRequest
from llmstream.store import database
from llmstream.store.database import Dialect, Rows, StoreError, Values, Words
from llmstream.store.rows import spaced

__all__ = ["PostgresDatabase", "PostgresWriter"]

SCHEMA: Final = "llmstream_store"
_CREATE_SCHEMA: Final = f"create schema {SCHEMA}".encode()

# A live server responds in milliseconds; libpq would wait for ever.
_CONNECT_S: Final = 10

# A process that stops inside a transaction must not block others for ever, and one whose machine is
# unreachable is considered dead after a minute, not after the two hours of TCP. A plan for any word would be
# the worst one for rare words: a search in the order of time instead of the index.
_OPTIONS: Final = (
    f"-c search_path={SCHEMA} -c lock_timeout=30s -c idle_in_transaction_session_timeout=60s "
    "-c plan_cache_mode=force_custom_plan "
    "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
)

# Of advisory locks: held by each transaction that writes, in shared form unless it is alone; and while
# creating the tables. Arbitrary numbers that no other program of the database uses.
_WRITING: Final = 7_317_042
_MIGRATING: Final = 7_317_043

# One view over several statements, as in SQLite.
_BEGIN_READING: Final = b"begin isolation level repeatable read read only"
_BEGIN_WRITING: Final = b"begin; select pg_advisory_xact_lock_shared(%d)" % _WRITING
_BEGIN_ALONE: Final = b"begin; select pg_advisory_xact_lock(%d)" % _WRITING


# Statements.

# Two colons are a cast.
_NAMED: Final = re.compile(r"(?<!:):([a-z_]+)")

# The tables, from SQLite's form: foreign keys are for readers of the tables only, as SQLite does not check
# them either.
_TYPES: Final = (
    (r"\binteger primary key\b", "bigint generated always as identity primary key"),
    (r"\binteger\b", "bigint"),
    (r"\bblob\b", "bytea"),
    (r"\breal\b", "double precision"),
    (r" references \w+", ""),
    (r"\) strict(, without rowid)?$", ")"),
)


@functools.cache
def _form(statement: str) -> bytes:
    """A statement with PostgreSQL's parameters."""
    escaped = statement.replace("%", "%%").replace("?", "%s")
    return _NAMED.sub(r"%(\1)s", escaped).encode()


def _table(statement: str) -> str:
    """A statement that creates or changes a table, in PostgreSQL's form."""
    if statement.lstrip().startswith("create virtual table search"):
        return (
            "create table search (rowid bigint primary key, words tsvector not null); "
            "create index search_by_word on search using gin (words)"
        )
    for pattern, replacement in _TYPES:
        statement = re.sub(pattern, replacement, statement)
    return statement


def _clean(value: object) -> object:
    """A parameter without NUL characters, which text cannot have."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


# A set of characters, or one character.
_GLOB: Final = re.compile(r"\[\^?\]?[^]]*\]|.", re.DOTALL)


def _regex(pattern: str) -> str:
    """A pattern of `glob` as a regular expression."""

    def form(found: re.Match[str]) -> str:
        piece = found[0]
        if len(piece) > 1:
            return piece.replace("\\", "\\\\")
        return {"*": ".*", "?": "."}.get(piece) or re.escape(piece)

    return f"^{_GLOB.sub(form, pattern)}$"


# Words.

_WORD: Final = re.compile(r"[^\W_]+")
_ACCENTS: Final = re.compile("[\u0300-\u036f]")

# Bounds of a `tsvector`: a word has less than 2 KiB, all of them with their places less than 1 MiB, and
# a word less than 256 places, up to 16,383.
_MAX_CHARS: Final = 500
_MAX_BYTES: Final = 1_000_000
_MAX_PLACES: Final = 255
_LAST_PLACE: Final = 16_383


def _cut(text: str) -> list[str]:
    """The words of a text without case and accents."""
    if not text.isascii():
        # Composed again at the end, or Hangul would stay in pieces.
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))
    return [word[:_MAX_CHARS] for word in _WORD.findall(text.lower())]


def vector(words: Words) -> str:
    """The words of a message in the form of a `tsvector`, as many as it can have."""
    places: dict[str, list[str]] = {}
    place = size = 0
    for text, weight in zip(words, ("A", "", "B"), strict=True):
        for word in _cut(text):
            place += 1
            found = places.get(word)
            if found is None:
                found = places[word] = []
                size += len(word.encode()) + 4
            if len(found) < _MAX_PLACES:
                found.append(f"{min(place, _LAST_PLACE)}{weight}")
                size += 2
            if size > _MAX_BYTES:
                break
        place += 2  # no phrase is found across two columns
    return " ".join([f"{word}:{','.join(found)}" for word, found in places.items()])


def _query(words: Sequence[str]) -> str:
    """The words in the form of a `tsquery`."""
    return " & ".join(filter(None, map(_phrase, words)))


def _phrase(word: str) -> str:
    is_beginning = len(word) > 1 and word.endswith("*")
    cut = _cut(spaced(word))
    return f"({' <-> '.join(cut)}{':*' if is_beginning else ''})" if cut else ""


_DIALECT: Final = Dialect(
    match="search.words @@ cast(:query as tsquery)",
    query=_query,
    # By weights of D, C, B and A; divided by the logarithm of the length.
    rank="-ts_rank('{0.25, 0.25, 0.5, 1.0}', search.words, cast(:query as tsquery), 1)",
    join="join",
    glob="~",
    pattern=_regex,
)


class PostgresConnection:
    """The connection of one thread; see `Connection`. Closed with its thread, or with its store."""

    dialect = _DIALECT

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw
        # A forked process has the connection too, but neither uses nor closes it.
        self.process = os.getpid()
        self.is_writing = False

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Closes it, unless it belongs to the process that this one was forked from."""
        if self.process == os.getpid():
            self.raw.close()

    def execute(self, statement: str, values: Values = (), /) -> Rows:
        """As in `Connection`."""
        form = _form(statement)
        if isinstance(values, Mapping):
            return self.raw.execute(form, {name: _clean(one) for name, one in values.items()})
        return self.raw.execute(form, [_clean(one) for one in values])

    def executemany(self, statement: str, values: Iterable[Sequence[object]], /) -> object:
        """As in `Connection`."""
        form = _form(statement)
        with self.raw.cursor() as cursor:
            cursor.executemany(form, list(values))
        return None

    def locked(self, table: str) -> str:
        """As in `Connection`."""
        return f" for update of {table}" if self.is_writing else ""

    def add_words(self, n: int, words: Words) -> None:
        """As in `Connection`."""
        self.execute("insert into search values (?, cast(? as tsvector))", (n, vector(words)))

    def remove_words(self, n: int, words: Words) -> None:
        """As in `Connection`."""
        self.execute("delete from search where rowid = ?", (n,))


class PostgresWriter:
    """A writer of open turns; see `Writer`. It is alive as long as its connection holds an advisory lock."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._link: PostgresConnection | None = None
        self.id = uuid.uuid4().hex

    def appear(self) -> None:
        """As in `Writer`. With a new id in a forked process, and if the connection and its lock were lost."""
        with self._database.errors():
            if self._link is not None:
                if self._link.process == os.getpid():
                    # A lost connection is noticed by using it.
                    with contextlib.suppress(psycopg.OperationalError):
                        self._link.execute("select 1")
                        return
                self.id = uuid.uuid4().hex
            self._link = PostgresConnection(self._database.connect())
            self._link.execute("select pg_advisory_lock(?)", (_lock_of(self.id),))

    def leave(self) -> None:
        """As in `Writer`."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def is_alive(self, writer: str) -> bool:
        """As in `Writer`."""
        if writer == self.id:
            return True
        with self._database.reading() as db:
            # Getting the lock means that its owner is dead; this lock ends with the transaction.
            query = "select pg_try_advisory_xact_lock_shared(?)"
            return not db.execute(query, (_lock_of(writer),)).fetchone()[0]


def _lock_of(writer: str) -> int:
    # 60 bits, since the number of a lock is a signed bigint.
    return int(writer[:15], 16)


class PostgresDatabase:
    """A schema of a PostgreSQL database; see `Database`.

    address: "postgresql://user@host/database", as for psql
    raises:  InvalidRequest for an address that is none; StoreError
    """

    def __init__(self, address: str, *, read_only: bool = False) -> None:
        self._address = address
        self._given = _parsed(address)
        self.name = f"postgresql://{self._given.get('host', '')}/{self._given.get('dbname', '')}"
        self.read_only = read_only
        self._threads = threading.local()
        # Weakly: a connection is closed with its thread.
        self._all = weakref.WeakSet[PostgresConnection]()
        self._closed = False
        with self.errors():
            self._check()

    def close(self) -> None:
        """As in `Database`."""
        self._closed = True
        for connection in list(self._all):
            connection.close()
        self._threads = threading.local()

    def writer(self) -> PostgresWriter:
        """As in `Database`."""
        return PostgresWriter(self)

    def connect(self) -> psycopg.Connection[Any]:
        """A new connection.

        raises: psycopg.Error
        """
        options = f"{self._given.get('options') or ''} {_OPTIONS}"
        return psycopg.connect(
            self._address,
            # Transactions are begun here, by their kind.
            autocommit=True,
            connect_timeout=_CONNECT_S,
            options=options.strip(),
            client_encoding="utf8",
            fallback_application_name="llmstream",
        )

    @property
    def connection(self) -> PostgresConnection:
        """The connection of this thread; a new one if it was lost."""
        found: PostgresConnection | None = getattr(self._threads, "connection", None)
        if found is None or found.raw.closed or found.process != os.getpid():
            if self._closed:
                raise StoreError(f"the store {self.name} is closed")
            found = self._threads.connection = PostgresConnection(self.connect())
            self._all.add(found)
        return found

    @contextlib.contextmanager
    def writing(self, *, alone: bool = False) -> Iterator[PostgresConnection]:
        """As in `Database`."""
        if self.read_only:
            raise StoreError(f"the store {self.name} is open for reading only")
        with self._transaction(_BEGIN_ALONE if alone else _BEGIN_WRITING) as connection:
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresConnection]:
        """As in `Database`."""
        with self._transaction(_BEGIN_READING) as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(self, begin: bytes) -> Iterator[PostgresConnection]:
        with self.errors():
            connection = self.connection
            if connection.raw.info.transaction_status != TransactionStatus.IDLE:
                yield connection
                return
            connection = self._begun(begin)
            connection.is_writing = begin is not _BEGIN_READING
            try:
                yield connection
                # To the commit of a transaction that failed the server answers ROLLBACK, without an error.
                if connection.raw.execute("commit").statusmessage != "COMMIT":
                    raise StoreError(f"a change of the store {self.name} failed, and was undone")
            finally:
                connection.is_writing = False
                _undo(connection.raw)

    def _begun(self, begin: bytes) -> PostgresConnection:
        """A connection in a transaction; a new one if the server was restarted meanwhile."""
        connection = self.connection
        try:
            connection.raw.execute(begin)
        except psycopg.OperationalError:
            if not connection.raw.closed:
                # Such as a lock that was not free in time: another connection would wait as long.
                _undo(connection.raw)
                raise
            connection = self.connection
            connection.raw.execute(begin)
        return connection

    def optimize(self) -> None:
        """Lets the server reuse the space of deleted rows. They are overwritten when the space is needed."""
        names = "conversations, trees, messages, turns, drafts, files, message_files, search"
        with self.errors():
            # Tables that others lock are for the next time.
            statement = f"vacuum (skip_locked, analyze) {names}".encode()
            self.connection.raw.execute(statement)

    def copy(self, target: Path) -> None:
        """Refuses: the server has a program for it.

        raises: StoreError
        """
        raise StoreError(
            f"the store {self.name} is in PostgreSQL. Copy it with: pg_dump --schema={SCHEMA} --file={target}"
        )

    def check(self) -> list[str]:
        """Does nothing: the server maintains its files."""
        return []

    def _check(self) -> None:
        """Whether its tables are of a version that is known; creates them, or migrates older ones."""
        known, version = len(database.MIGRATIONS), self._version()
        if version > known and not self.read_only:
            raise StoreError(
                f"{self.name} was written by a newer llmstream (tables {version}, known {known}). "
                "Update llmstream, or open it with read_only=True."
            )
        if version < known:
            if self.read_only:
                found = "older tables" if version else "no tables of a store"
                raise StoreError(f"{self.name} has {found}. Open it once for writing to make them.")
            self._migrate()

    def _version(self) -> int:
        """That of the tables; 0 if there are none."""
        raw = self.connection.raw
        # None, where the name itself would be an error that ends the transaction.
        (found,) = raw.execute("select to_regclass('meta')").fetchone() or (None,)
        if found is None:
            return 0
        row = raw.execute("select value from meta where name = 'version'").fetchone()
        return 0 if row is None else int(row[0])

    def _migrate(self) -> None:
        known = len(database.MIGRATIONS)
        with self._transaction(b"begin; select pg_advisory_xact_lock(%d)" % _MIGRATING) as db:
            # `if not exists` needs the right to make it even where it exists.
            if db.execute("select to_regnamespace(?)", (SCHEMA,)).fetchone()[0] is None:
                db.raw.execute(_CREATE_SCHEMA)
            version = self._version()  # another process may have created it first
            for statements, _ in database.MIGRATIONS[version:]:
                for statement in statements.rstrip(";\n").split(";\n"):
                    form = _table(statement).encode()
                    db.raw.execute(form)
            db.execute(
                "insert into meta values ('version', ?) "
                "on conflict (name) do update set value = excluded.value",
                (str(max(version, known)),),
            )

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Converts the driver's exceptions to StoreErrors."""
        try:
            yield
        except psycopg.Error as error:
            text = " ".join(str(error).split())
            raise StoreError(f"the store {self.name} cannot be used: {text}. {_remedy(error)}") from error


def _parsed(address: str) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(address))
    except psycopg.ProgrammingError:
        raise InvalidRequest(
            f"{shown(address)!r} is not an address of PostgreSQL. Write 'postgresql://USER@HOST/DATABASE'."
        ) from None


def _undo(raw: psycopg.Connection[Any]) -> None:
    """Ends a transaction that is still open, on a connection that may be lost."""
    if not raw.closed and raw.info.transaction_status != TransactionStatus.IDLE:
        try:
            raw.execute("rollback")
        except psycopg.Error:
            raw.close()


def _remedy(error: psycopg.Error) -> str:
    match error:
        case psycopg.errors.InsufficientPrivilege():
            return f"Give its user the right to make tables: create schema {SCHEMA} authorization USER."
        case psycopg.errors.LockNotAvailable() | psycopg.errors.DeadlockDetected():
            return "Another process writes the same conversation for a long time; try again."
        case psycopg.errors.DiskFull():
            return "Free some space on the server's disk; what was stored before is unharmed."
        case psycopg.errors.ReadOnlySqlTransaction():
            return "The server takes no changes; is it a standby? Use the address of the primary server."
        case psycopg.OperationalError():
            return "Check that the server runs, and the address."
        case _:
            return "Nothing was changed."
