"""The SQLite file of a store: how it is made, opened, migrated and written to by several processes.

A new file is made beside its place and linked there when it is complete, so that no process sees half of one
and two that start at once use the same. Every write is one `begin immediate` transaction.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from llmstream.errors import LLMStreamError

__all__ = ["MIGRATIONS", "Database", "StoreError"]


class StoreError(LLMStreamError, code="store-error"):
    """A store of conversations cannot be opened, read or written."""


APPLICATION: Final = 0x6C6C6D73
"""In `pragma application_id`: "llms", so that another program's file is not taken for a store."""

MIGRATIONS: Final[tuple[tuple[str, bool], ...]] = (
    (
        """
create table trees (n integer primary key, key blob not null) strict;
create table conversations (
    n integer primary key, owner text not null, id text not null, tree integer not null references trees,
    head integer references messages, title text not null, tags text not null, created real not null,
    updated real not null, forked_from text not null, meta text not null, unique (owner, id)
) strict;
create index conversations_by_time on conversations (owner, updated);
create index conversations_by_tree on conversations (tree);
create table messages (
    n integer primary key, tree integer not null references trees, id blob not null,
    parent integer references messages, depth integer not null, conversation integer not null,
    role text not null, sender text not null, created real not null, files integer not null,
    body blob not null, unique (tree, id)
) strict;
create index messages_by_parent on messages (parent);
create index messages_by_conversation on messages (conversation);
create table turns (
    n integer primary key, conversation integer not null references conversations, after integer, head
    integer, run text not null, step integer not null, provider text not null, model text not null,
    state text not null, finish text not null, input_tokens integer, output_tokens integer,
    cached_tokens integer, cache_write_tokens integer, reasoning_tokens integer, cost real,
    started real not null, first_s real, total_s real, warnings text not null, error text not null,
    response text not null, log text not null, writer text not null
) strict;
create index turns_by_conversation on turns (conversation);
create index turns_by_time on turns (started);
create index turns_open on turns (writer) where state = 'open';
create table drafts (
    turn integer not null, seq integer not null, events blob not null, primary key (turn, seq)
) strict, without rowid;
create table files (hash blob primary key, size integer not null, bytes blob not null) strict;
create table message_files (
    message integer not null, place text not null, hash blob not null, primary key (message, place)
) strict, without rowid;
create index message_files_by_hash on message_files (hash);
create virtual table search using fts5(
    words, reasoning, tools, content='', tokenize="unicode61 remove_diacritics 2"
);
create table meta (name text primary key, value text not null) strict, without rowid;
""",
        False,
    ),
)
"""Statements from one version of the tables to the next, and whether they rewrite what is there: a file is
copied before such a step. The version is in `pragma user_version`. An entry is never changed once it is
released."""

# Pragmas take no parameters.
_SET_APPLICATION: Final = f"pragma application_id = {APPLICATION}"
_SET_VERSION: Final = f"pragma user_version = {len(MIGRATIONS)}"

# How long a write waits for those of other processes. Each takes about a millisecond; SQLite's waiting is not
# fair, so that one of several may wait for seconds.
_BUSY_S: Final = 30.0


class _Connection(sqlite3.Connection):
    """Is closed when its thread has ended, or its store was dropped."""

    def __del__(self) -> None:
        self.close()


class Database:
    """Connections to one file, one for each thread.

    path:      made if it is missing, readable by its owner only; its folder too
    read_only: changes nothing, and also opens the file of a newer llmstream
    raises:    StoreError if it cannot be opened
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._threads = threading.local()
        self._all = weakref.WeakSet[_Connection]()
        self._closed = False
        with self._errors():
            if read_only and not path.is_file():
                raise StoreError(f"there is no store {path}")
            if not read_only:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not path.exists():
                    self._make()
            self._check()

    def close(self) -> None:
        """Closes the connections of all threads. Idempotent."""
        self._closed = True
        for connection in list(self._all):
            connection.close()
        self._threads = threading.local()

    @property
    def connection(self) -> sqlite3.Connection:
        """That of this thread."""
        found: _Connection | None = getattr(self._threads, "connection", None)
        if found is None:
            if self._closed:
                raise StoreError(f"the store {self.path} is closed")
            found = self._threads.connection = self._connect(self.path)
            self._all.add(found)
        return found

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which holds up writers of other processes; within another one it is part of that.

        raises: StoreError; nothing is changed then
        """
        with self._errors():
            connection = self.connection
            if connection.in_transaction:
                yield connection
                return
            if self.read_only:
                raise StoreError(f"the store {self.path} is open for reading only")
            connection.execute("begin immediate")
            try:
                yield connection
                connection.execute("commit")
            finally:
                if connection.in_transaction:  # also after a commit that failed: the disk may be full
                    connection.execute("rollback")

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A consistent view.

        raises: StoreError
        """
        with self._errors():
            connection = self.connection
            if connection.in_transaction:
                yield connection
                return
            connection.execute("begin")
            try:
                yield connection
            finally:
                connection.execute("rollback")

    def optimize(self) -> None:
        """Removes deleted words from the index, and deleted pages from the file's log.

        Deleted rows are overwritten at once (`secure_delete`); FTS5 keeps their words until it merges.
        """
        with self.writing() as connection:
            connection.execute("insert into search (search) values ('optimize')")
        with self._errors():
            self.connection.execute("pragma wal_checkpoint(truncate)").fetchall()

    def copy(self, target: Path) -> None:
        """Writes a complete copy to a new file, while others may write.

        raises: StoreError if the file exists or cannot be written
        """
        if target.exists():
            raise StoreError(f"{target} already exists. Name a new file.")
        with self._errors():
            # Made before SQLite writes it: that would create it readable by everyone.
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            try:
                # A consistent copy of one moment, without the pages of deleted rows.
                self.connection.execute("vacuum into ?", (str(target),))
            except BaseException:
                target.unlink(missing_ok=True)
                raise

    def check(self) -> list[str]:
        """What SQLite finds wrong with the file; [] if it is sound."""
        try:
            found = [row[0] for row in self.connection.execute("pragma integrity_check")]
        except sqlite3.DatabaseError as error:  # too damaged to be checked to its end
            found = [str(error)]
        return [] if found == ["ok"] else found

    def _make(self) -> None:
        new = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            connection = self._connect(new)
            try:
                # Journal mode cannot change while others have the file open; it is part of the file.
                connection.execute("pragma journal_mode = wal")
                connection.execute(_SET_APPLICATION)
                self._migrate(connection, 0)
            finally:
                connection.close()
            _place(new, self.path)
        finally:
            for suffix in ("", "-wal", "-shm"):
                new.with_name(new.name + suffix).unlink(missing_ok=True)

    def _connect(self, path: Path) -> _Connection:
        mode = "ro" if self.read_only else "rw"
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_BUSY_S,
            isolation_level=None,
            check_same_thread=False,
            factory=_Connection,
        )
        try:
            # Deleted conversations are overwritten, and not only unlinked: see `Store.delete`.
            connection.execute("pragma secure_delete = on")
            connection.execute("pragma foreign_keys = off")  # rows are deleted in an order of ours
            connection.execute("pragma synchronous = normal")
            connection.execute("pragma temp_store = memory")
            # 16 MB, so that a search does not read the same pages of the index again.
            connection.execute("pragma cache_size = -16000")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self) -> None:
        """Whether it is a store of a version that is known; migrates an older one."""
        connection = self.connection
        (application,) = connection.execute("pragma application_id").fetchone()
        if application != APPLICATION:
            raise StoreError(f"{self.path} is no store of conversations. Name another file.")
        (version,) = connection.execute("pragma user_version").fetchone()
        if version > len(MIGRATIONS) and not self.read_only:
            raise StoreError(
                f"{self.path} was written by a newer llmstream (tables {version}, known {len(MIGRATIONS)}). "
                "Update llmstream, or open it with read_only=True."
            )
        if version < len(MIGRATIONS):
            if self.read_only:
                raise StoreError(f"{self.path} has older tables. Open it once for writing to update them.")
            self._migrate(connection, version)

    def _migrate(self, connection: sqlite3.Connection, version: int) -> None:
        if any(rewrites for _, rewrites in MIGRATIONS[version:]):
            backup = self.path.with_name(f"{self.path.name}.before-{len(MIGRATIONS)}-{int(time.time())}")
            self.copy(backup)
        connection.execute("begin immediate")
        try:
            # Another process may have been first.
            (version,) = connection.execute("pragma user_version").fetchone()
            for statements, _ in MIGRATIONS[version:]:
                for statement in statements.split(";\n"):
                    connection.execute(statement)
            connection.execute(_SET_VERSION)
            connection.execute("commit")
        finally:
            if connection.in_transaction:
                connection.execute("rollback")

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


def _place(new: Path, path: Path) -> None:
    """Moves a complete file to its place, unless another process has been first."""
    try:
        os.link(new, path)
    except FileExistsError:
        pass
    except OSError:  # no hard links on this file system
        if not path.exists():
            os.rename(new, path)
