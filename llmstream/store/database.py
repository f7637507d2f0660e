"""The database interface of a store: connections that run statements, in transactions; and the tables.

`sqlite.py` and `postgres.py` implement it. The statements of this package run in both; differences are in a
`Dialect`, or a method of a `Connection`. The tables are written for SQLite; `postgres.py` translates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from llmstream.errors import LLMStreamError

__all__ = [
    "MIGRATIONS",
    "Connection",
    "Database",
    "Dialect",
    "Rows",
    "StoreError",
    "Values",
    "Words",
    "Writer",
]


class StoreError(LLMStreamError, code="store-error"):
    """A store of conversations cannot be opened, read or written."""


class Words(NamedTuple):
    """The indexed words of a message."""

    words: str
    reasoning: str
    tools: str


class Dialect(NamedTuple):
    """Pieces of statements that are different in each database.

    match:   condition that a row of `search` matches, the parameter `query`
    query:   that parameter, of words and phrases, of which the last word may end in `*`
    rank:    to order rows of `search` by, the best first
    join:    joins tables, the left one first
    glob:    operator between a text and a pattern; `pattern` is its form of one such as "claude*"
    """

    match: str
    query: Callable[[Sequence[str]], str]
    rank: str
    join: str
    glob: str
    pattern: Callable[[str], str]


Values: TypeAlias = Sequence[object] | Mapping[str, object]
"""Parameters of a statement: those written `?`, or those written `:name`."""


class Rows(Protocol):
    """The result of a statement."""

    def fetchone(self) -> Any:
        """The next one; None after the last."""
        ...

    def fetchall(self) -> list[Any]:
        """All remaining rows."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """Runs statements inside a transaction of a `Database`."""

    dialect: Dialect

    def execute(self, statement: str, values: Values = (), /) -> Rows:
        """Runs one statement, with parameters as `?` or `:name`."""
        ...

    def executemany(self, statement: str, values: Iterable[Sequence[object]], /) -> object:
        """Runs a statement for each of these values."""
        ...

    def locked(self, table: str) -> str:
        """The end of a `select` that locks its rows of this table until the transaction ends.

        Empty if writing transactions are exclusive.
        """
        ...

    def add_words(self, n: int, words: Words) -> None:
        """Adds a message to the index."""
        ...

    def remove_words(self, n: int, words: Words) -> None:
        """Removes a message from the index.

        words: as they were added
        """
        ...


class Writer(Protocol):
    """This process as a writer of open turns. Other processes can check whether it is alive."""

    id: str

    def appear(self) -> None:
        """Marks this process as alive; called before each turn. Idempotent."""
        ...

    def leave(self) -> None:
        """Marks this process as no longer alive. Idempotent."""
        ...

    def is_alive(self, writer: str) -> bool:
        """Whether the writer with this id is alive."""
        ...


class Database(Protocol):
    """A database with the tables of a store, for any number of processes and threads.

    name: its address without a password, for messages
    """

    name: str
    read_only: bool

    def writer(self) -> Writer:
        """A new writer."""
        ...

    def writing(self, *, alone: bool = False) -> AbstractContextManager[Connection]:
        """A transaction; nested ones are part of the outer one.

        alone:  whether it excludes all other writers
        raises: StoreError; nothing is changed then
        """
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """A consistent view.

        raises: StoreError
        """
        ...

    def optimize(self) -> None:
        """Removes deleted data from the index and from disk, as far as the database can."""
        ...

    def copy(self, target: Path) -> None:
        """Writes a complete copy to a new file, while others may write.

        raises: StoreError if the file exists or cannot be written
        """
        ...

    def check(self) -> list[str]:
        """The problems of the stored data; [] if there are none."""
        ...

    def close(self) -> None:
        """Closes the connections of all threads. Idempotent."""
        ...


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
    ("alter table turns add column asked text not null default '{}'", False),
)
"""Statements from one version of the tables to the next, and whether they rewrite existing
rows: a file is copied before such a step. An entry is never changed once it is released."""
