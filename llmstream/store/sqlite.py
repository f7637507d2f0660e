"""Stores in SQLite: the file, how it is migrated, and how several processes write to it.

Every write is one `begin immediate` transaction, so that a writer is alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from llmstream.errors import LLMStreamError
from llmstream.files import connect_sqlite, lock, transaction
from llmstream.store import database
from llmstream.store.database import Dialect, StoreError, Values, Words
from llmstream.store.rows import spaced

__all__ = ["FileWriter", "SQLiteDatabase"]

APPLICATION: Final = 0x6C6C6D73
"""In `pragma application_id`: "llms", so that another program's file is not mistaken for a store."""
_SET_APPLICATION: Final = f"pragma application_id = {APPLICATION}"

# How long a write waits for those of other processes. Each takes about a millisecond; SQLite's waiting is not
# fair, so that one of several may wait for seconds.
_BUSY_S: Final = 30.0


def _query(words: Sequence[str]) -> str:
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """A word quoted for FTS5; one that ends in `*` also finds longer words."""
    prefix = "*" if len(word) > 1 and word.endswith("*") else ""
    inner = spaced(word.removesuffix("*") if prefix else word).replace('"', '""')
    return f'"{inner.strip()}"{prefix}'


_DIALECT: Final = Dialect(
    match="search match :query",
    query=_query,
    rank="bm25(search, 4.0, 1.0, 2.0)",
    join="cross join",  # SQLite keeps the order of such tables
    glob="glob",
    pattern=str,
)


# Connections of the process that this one was forked from: closing them would release that process's locks.
_inherited: Final[list[sqlite3.Connection]] = []


class SQLiteConnection:
    """The connection of one thread; see `Connection`. Closed with its thread, or with its store."""

    dialect = _DIALECT

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw
        self.process = os.getpid()

    # The end of a thread drops its connection, and nothing else closes it.
    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Closes it, unless it belongs to the process that this one was forked from."""
        if self.process == os.getpid():
            self.raw.close()
        else:
            _inherited.append(self.raw)

    def execute(self, statement: str, values: Values = (), /) -> sqlite3.Cursor:
        """As in `Connection`."""
        return self.raw.execute(statement, values)

    def executemany(self, statement: str, values: Iterable[Sequence[object]], /) -> object:
        """As in `Connection`."""
        return self.raw.executemany(statement, values)

    def locked(self, table: str) -> str:
        """As in `Connection`."""
        return ""

    def add_words(self, n: int, words: Words) -> None:
        """As in `Connection`."""
        self.execute("insert into search (rowid, words, reasoning, tools) values (?, ?, ?, ?)", (n, *words))

    def remove_words(self, n: int, words: Words) -> None:
        """As in `Connection`. A contentless index deletes by the words that it was given."""
        self.execute(
            "insert into search (search, rowid, words, reasoning, tools) values ('delete', ?, ?, ?, ?)",
            (n, *words),
        )


class FileWriter:
    """A writer of open turns; see `Writer`. It is alive as long as it holds the lock of its file."""

    def __init__(self, path: Path) -> None:
        self._folder = path.with_name(f"{path.name}-writers")
        self._file: int | None = None
        self._process = os.getpid()
        self.id = uuid.uuid4().hex

    def appear(self) -> None:
        """As in `Writer`."""
        if self._process != os.getpid():  # a fork is a separate writer
            # Its copy of the file would hold the lock of its parent after the parent's death.
            self.leave()
            self._process, self.id = os.getpid(), uuid.uuid4().hex
        if self._file is None:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            # Exclusive creation: the process with this file is this writer.
            file = os.open(self._folder / self.id, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            lock(file)
            self._file = file

    def leave(self) -> None:
        """As in `Writer`."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            if self._process == os.getpid():
                with contextlib.suppress(OSError):
                    (self._folder / self.id).unlink()

    def is_alive(self, writer: str) -> bool:
        """As in `Writer`."""
        if writer == self.id:
            return True
        try:
            file = os.open(self._folder / writer, os.O_RDWR)
        except OSError:
            return False
        try:
            lock(file)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        # A writer without a file is dead, so the lock file is not needed.
        with contextlib.suppress(OSError):
            (self._folder / writer).unlink()
        return False


class SQLiteDatabase:
    """A file; see `Database`.

    path:      created if missing, readable by its owner only; its folder too
    read_only: changes nothing, and also opens the file of a newer llmstream
    raises:    StoreError if it cannot be opened
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.name = f"sqlite:{path}"
        self.read_only = read_only
        self._threads = threading.local()
        self._all = weakref.WeakSet[SQLiteConnection]()
        self._closed = False
        with self._errors():
            if read_only and not path.is_file():
                raise StoreError(f"there is no store {path}")
            if not read_only:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists():  # before WAL mode is set in the file of another program
                with contextlib.closing(self._plain()) as raw:
                    self._version(raw)
            try:
                self._check()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """As in `Database`."""
        self._closed = True
        for connection in list(self._all):
            connection.close()
        self._threads = threading.local()

    def writer(self) -> FileWriter:
        """As in `Database`."""
        return FileWriter(self.path)

    @property
    def connection(self) -> SQLiteConnection:
        """The connection of this thread."""
        found: SQLiteConnection | None = getattr(self._threads, "connection", None)
        if found is None or found.process != os.getpid():
            if self._closed:
                raise StoreError(f"the store {self.path} is closed")
            found = self._threads.connection = SQLiteConnection(self._connect())
            self._all.add(found)
        return found

    @contextlib.contextmanager
    def writing(self, *, alone: bool = False) -> Iterator[SQLiteConnection]:
        """As in `Database`. A writer is exclusive in any case."""
        with self._errors():
            connection = self.connection
            # Nested in another transaction, which will end it.
            if connection.raw.in_transaction:
                yield connection
                return
            if self.read_only:
                raise StoreError(f"the store {self.path} is open for reading only")
            with transaction(connection.raw):
                yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[SQLiteConnection]:
        """As in `Database`."""
        with self._errors():
            connection = self.connection
            if connection.raw.in_transaction:
                yield connection
                return
            with transaction(connection.raw, "begin"):
                yield connection

    def optimize(self) -> None:
        """Removes deleted words from the index, and deleted pages from the file's log.

        Deleted rows are overwritten at once (`secure_delete`); FTS5 keeps their words until it merges.
        """
        with self.writing() as connection:
            connection.execute("insert into search (search) values ('optimize')")
        with self._errors():
            self.connection.execute("pragma wal_checkpoint(truncate)").fetchall()

    def copy(self, target: Path) -> None:
        """As in `Database`."""
        if target.exists():
            raise StoreError(f"{target} already exists. Name a new file.")
        with self._errors():
            # Created before SQLite writes it, which would create it readable by everyone.
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            try:
                # A consistent copy of one moment, without the pages of deleted rows.
                self.connection.execute("vacuum into ?", (str(target),))
            except BaseException:
                target.unlink(missing_ok=True)
                raise

    def check(self) -> list[str]:
        """The problems that SQLite finds in the file; [] if there are none."""
        try:
            found = [row[0] for row in self.connection.execute("pragma integrity_check")]
        except sqlite3.DatabaseError as error:  # too damaged to be checked to its end
            found = [str(error)]
        return [] if found == ["ok"] else found

    def _plain(self) -> sqlite3.Connection:
        """A connection that changes nothing by itself."""
        uri = f"{self.path.absolute().as_uri()}?mode={'ro' if self.read_only else 'rw'}"
        return sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)

    def _connect(self) -> sqlite3.Connection:
        raw = self._plain() if self.read_only else connect_sqlite(self.path, busy_s=_BUSY_S)
        try:
            # Deleted conversations are overwritten, and not only unlinked: see `Store.delete`.
            raw.execute("pragma secure_delete = on")
            raw.execute("pragma foreign_keys = off")  # rows are deleted in our own order
            raw.execute("pragma synchronous = normal")
            raw.execute("pragma temp_store = memory")
            # 16 MB, so that a search does not read the same pages of the index again.
            raw.execute("pragma cache_size = -16000")
        except BaseException:
            raw.close()
            raise
        return raw

    def _check(self) -> None:
        """Whether it is a store of a version that is known; creates the tables, or migrates older ones."""
        raw, known = self.connection.raw, len(database.MIGRATIONS)
        version = self._version(raw)
        if version > known and not self.read_only:
            raise StoreError(
                f"{self.path} was written by a newer llmstream (tables {version}, known {known}). "
                "Update llmstream, or open it with read_only=True."
            )
        if version < known:
            if self.read_only:
                raise StoreError(f"{self.path} has older tables. Open it once for writing to update them.")
            self._migrate(raw, version)

    def _version(self, raw: sqlite3.Connection) -> int:
        """That of the tables; 0 of a file that has none.

        raises: StoreError if they are another program's
        """
        # One snapshot: another process may create the tables between two reads.
        with contextlib.nullcontext() if raw.in_transaction else transaction(raw, "begin"):
            (application,) = raw.execute("pragma application_id").fetchone()
            (version,) = raw.execute("pragma user_version").fetchone()
            (count,) = raw.execute("select count(*) from sqlite_master").fetchone()
        is_new = not (application or version or count) and not self.read_only
        if application != APPLICATION and not is_new:
            raise StoreError(f"{self.path} is not a store of conversations. Name another file.")
        return int(version)

    def _migrate(self, raw: sqlite3.Connection, version: int) -> None:
        known = len(database.MIGRATIONS)
        # Rows that a step changes cannot be changed back.
        if version and any(rewrites for _, rewrites in database.MIGRATIONS[version:]):
            self.copy(self.path.with_name(f"{self.path.name}.before-{known}-{int(time.time())}"))
        with transaction(raw):
            version = self._version(raw)  # another process may have migrated first
            for statements, _ in database.MIGRATIONS[version:]:
                for statement in statements.split(";\n"):
                    raw.execute(statement)
            raw.execute(_SET_APPLICATION)
            numbered = f"pragma user_version = {max(version, known)}"
            raw.execute(numbered)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            # Errors of the package have their remedy already, and some are an OSError too.
            if isinstance(error, LLMStreamError):
                raise
            raise StoreError(
                f"the store {self.path} cannot be used: {error}. {self._remedy(error)}"
            ) from error

    def _remedy(self, error: Exception) -> str:
        text = str(error)
        if "malformed" in text or "not a database" in text:
            return (
                "The file is damaged. Move it away, with the files beside it whose names begin like its own, "
                f"and save what can be read: sqlite3 {self.path} .recover | sqlite3 recovered.db; "
                "or use a backup."
            )
        # EFBIG and ENOSPC.
        if "full" in text or getattr(error, "errno", None) in (27, 28):
            free = ""
            with contextlib.suppress(OSError):
                free = f" ({shutil.disk_usage(self.path.parent).free // 1_000_000:,} MB are free)"
            return f"Free some space on its disk{free}; what was stored before is unharmed."
        if "readonly" in text or "read-only" in text or isinstance(error, PermissionError):
            return "Make the file and its folder writable, or use another: LLMSTREAM_LOG=off stores nothing."
        if "locked" in text:
            return "Another program holds it open for writing; close it."
        return "Check that its folder exists and can be written, and that the disk is not full."
