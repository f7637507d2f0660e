"""`open_store`: conversations in a file or a server, to continue, to search, and to delete."""

from __future__ import annotations

import os
import time
import uuid
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from llmstream.addresses import is_postgres, shown, sqlite_path
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.store import conversations
from llmstream.store.chat import StoredChat
from llmstream.store.conversations import ConversationInfo, Row
from llmstream.store.database import Connection, Database, StoreError, Writer
from llmstream.store.rows import path_to, read_message, texts_of
from llmstream.store.search import Hit, search
from llmstream.store.turns import recover
from llmstream.usage import Usage

__all__ = ["CostRow", "Store", "TreeNode", "TurnInfo", "open_store"]

Price = Callable[[str, Usage], float | None]

# The beginning of a message in a tree, in characters.
_SHOWN: Final = 200
# By names of our own: nothing that a caller writes becomes part of a statement.
_GROUPS: Final = {
    "model": "provider || ':' || t.model",
    "day": "started",
    "provider": "provider",
    "chat": "c.id",
    "state": "state",
}


class TurnInfo(msgspec.Struct, frozen=True):
    """One request of a conversation, and how it went. Times are seconds; `started` since 1970.

    state:    "done", "left", "failed", "lost" with its process, or "open"
    after:    row of the message before the answer; `head`: of its last one; as `Hit.message`
    warnings: as JSON
    asked:    the chosen settings, such as `temperature`; others were the vendor's
    log:      the id under which an event log keeps the run, or ""
    """

    model: str
    state: str
    finish: str
    usage: Usage
    cost: float | None
    started: float
    first_s: float | None
    total_s: float | None
    warnings: str
    error: str
    response: str
    run: str
    step: int
    after: int | None
    head: int | None
    asked: dict[str, Any] = {}
    log: str = ""


class TreeNode(msgspec.Struct, frozen=True):
    """A message in the tree of a conversation.

    id:      its row; of the last message of a branch, the branch's
    text:    its beginning
    current: whether it is in the current branch
    """

    id: int
    parent: int | None
    role: str
    text: str
    current: bool


class CostRow(msgspec.Struct, frozen=True):
    """Tokens and cost of some turns.

    group:  the values that were asked for, such as (model, day)
    cost:   in US dollars; None if no price of any of the turns is known
    """

    group: tuple[str, ...]
    turns: int
    input_tokens: int
    output_tokens: int
    cost: float | None


def open_store(
    address: str,
    *,
    read_only: bool = False,
    price: Price | None = None,
    owner: str = "",
    content: bool = True,
    clock: Callable[[], float] = time.time,
) -> Store:
    """Opens a store of conversations; it is created if missing.

    address:   "sqlite:PATH", where ~ is the home folder; or "postgresql://USER@HOST/DATABASE" (extra
               `postgres`), for processes of several machines
    read_only: changes nothing; also reads the file of a newer llmstream
    price:     as for `Agent`, to store what turns cost: `llmstream.prices.price`
    owner:     the owner of the conversations; those of others in the same file are not visible
    content:   False stores no texts from now on, only that there was a request, with its model, settings,
               tokens, cost, times, and the code of its error. Its chats are in memory
    clock:     seconds since 1970
    raises:    InvalidRequest for another address; Unsupported without the extra; StoreError
    """
    return Store(_database(address, read_only), price=price, owner=owner, content=content, clock=clock)


def _database(address: str, read_only: bool) -> Database:
    if path := sqlite_path(address):
        from llmstream.store.sqlite import SQLiteDatabase  # not every Python has sqlite3

        return SQLiteDatabase(Path(os.path.expanduser(path)), read_only=read_only)
    if is_postgres(address):
        try:
            from llmstream.store.postgres import PostgresDatabase
        except ImportError:
            raise Unsupported(
                "PostgreSQL needs the extra `postgres`: pip install 'llmstream-sdk[postgres]'"
            ) from None
        return PostgresDatabase(address, read_only=read_only)
    raise InvalidRequest(
        f"cannot open a store at {shown(address)!r}. Write 'sqlite:chats.db' or "
        "'sqlite:/var/lib/app/chats.db' (no slashes before the path), or 'postgresql://...'."
    )


class Store:
    """Conversations in a database, for any number of processes and threads. See `open_store`.

    A call takes about a millisecond, more while other processes write, and may be made in an event loop.
    """

    def __init__(
        self,
        database: Database,
        *,
        price: Price | None,
        owner: str,
        content: bool,
        clock: Callable[[], float],
    ) -> None:
        self.database = database
        self.writer = database.writer()
        self.owner = owner
        self.content = content
        self.clock = clock
        self._price = price
        # Also without `close`: an application often has one store until it ends.
        self._close = weakref.finalize(self, _close, self.database, self.writer)
        if not database.read_only:
            self._recover()

    def __repr__(self) -> str:
        return f"<Store {self.database.name}>"

    def close(self) -> None:
        """Closes the store. Idempotent."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _recover(self) -> None:
        """Completes the turns of processes that died."""
        with self.database.reading() as db:
            writers = [row[0] for row in db.execute("select distinct writer from turns where state = 'open'")]
        # Outside a transaction: looking at locks of files takes time, in which others write.
        dead = [writer for writer in writers if not self.writer.is_alive(writer)]
        for writer in dead:
            with self.database.writing() as db:
                query = "select n from turns where state = 'open' and writer = ? order by n"
                for (turn,) in db.execute(query, (writer,)).fetchall():
                    recover(db, turn, self.clock())

    # Conversations.

    def chat(self, name: str | None = None) -> StoredChat:
        """A conversation, at its current end; a new one if there is none of that name.

        It is in the store from its first message on. Without a name it gets one.

        raises: StoreError
        """
        # A process may have died since the store was opened.
        if not self.database.read_only:
            self._recover()
        return StoredChat(self, name or new_name(self.clock()))

    def conversations(
        self,
        *,
        limit: int | None = None,
        before: float | None = None,
        since: float | None = None,
        model: str | None = None,
        titled: bool = False,
    ) -> list[ConversationInfo]:
        """Conversations without their messages, the one that changed last first.

        before: only those that changed last before this time, for the next page
        since:  only those that changed since this time
        model:  pattern of a model that answered in it: "claude*"
        titled: only those with a prompt
        """
        with self.database.reading() as db:
            return conversations.listed(
                db, self.owner, limit, before=before, since=since, model=model, titled=titled
            )

    def names(self, begin: str = "") -> list[str]:
        """The names of conversations that begin so, the one that changed last first."""
        with self.database.reading() as db:
            # By `substr`: in a pattern of `like` a name could have wildcards.
            rows = db.execute(
                "select id from conversations where owner = ? and substr(id, 1, ?) = ? order by updated desc",
                (self.owner, len(begin), begin),
            )
            return [name for (name,) in rows]

    def tree(self, name: str) -> list[TreeNode]:
        """All messages of a conversation and of its forks, parents first, with the beginning of their text.

        raises: StoreError
        """
        with self.database.reading() as db:
            row = self._row(db, name)
            current = {link.n for link in path_to(db, row.head)[0]}
            query = "select n, parent, files, body from messages where tree = ? order by n"
            return [_node(db, found, current) for found in db.execute(query, (row.tree,)).fetchall()]

    def last(self) -> ConversationInfo | None:
        """The conversation that changed last, or None."""
        return next(iter(self.conversations(limit=1)), None)

    def info(self, name: str) -> ConversationInfo:
        """One conversation without its messages.

        raises: StoreError if there is none of that name
        """
        with self.database.reading() as db:
            found = conversations.described(db, self.owner, name)
        if found is None:
            raise _missing(name)
        return found

    def fork(self, name: str, new: str) -> StoredChat:
        """A new conversation that begins with the current messages of another one. They share only these.

        raises: StoreError
        """
        with self.database.writing() as db:
            conversations.make(db, self.owner, new, self.clock(), fork_of=self._row(db, name))
        return self.chat(new)

    def rename(self, name: str, *, title: str | None = None, tags: Iterable[str] | None = None) -> None:
        """Changes the title or the tags of a conversation.

        raises: StoreError
        """
        with self.database.writing() as db:
            row = self._row(db, name)
            if title is not None:
                db.execute("update conversations set title = ? where n = ?", (title, row.n))
            if tags is not None:
                # In one order, so that equal tags are equal rows.
                given = msgspec.json.encode(sorted(set(tags))).decode()
                db.execute("update conversations set tags = ? where n = ?", (given, row.n))

    def notes(self, name: str) -> dict[str, str]:
        """A note of the application about a conversation.

        raises: StoreError
        """
        with self.database.reading() as db:
            return _notes(db, self._row(db, name))

    def note(self, name: str, **notes: str) -> None:
        """Notes something about a conversation, for the application; "" removes a note.

        raises: StoreError
        """
        with self.database.writing() as db:
            row = self._row(db, name)
            found = {key: value for key, value in {**_notes(db, row), **notes}.items() if value}
            db.execute(
                "update conversations set meta = ? where n = ?", (msgspec.json.encode(found).decode(), row.n)
            )

    def turns(self, name: str) -> list[TurnInfo]:
        """The requests of a conversation, of all branches, in order.

        raises: StoreError
        """
        with self.database.reading() as db:
            rows = db.execute(
                "select provider || ':' || model, state, finish, input_tokens, output_tokens, cached_tokens, "
                "cache_write_tokens, reasoning_tokens, cost, started, first_s, total_s, warnings, error, "
                "response, run, step, after, head, asked, log from turns where conversation = ? order by n",
                (self._row(db, name).n,),
            ).fetchall()
        return [_turn(row) for row in rows]

    def _row(self, db: Connection, name: str) -> Row:
        row = conversations.find(db, self.owner, name)
        if row is None:
            raise _missing(name)
        return row

    # Queries over all conversations.

    def search(
        self,
        text: str,
        *,
        model: str | None = None,
        role: str | None = None,
        since: float | None = None,
        limit: int = 20,
        all: bool = False,
    ) -> list[Hit]:
        """Messages that have all these words, the best first; "in quotes" as a phrase, `fjord*` as a
        beginning.

        Case and accents do not matter. Chinese, Japanese and other scripts without spaces are found by any
        characters in a row. Ranked are the newest 2,000 messages with the words.

        model: pattern of the models of the conversation: "claude*"
        role:  of the message
        since: seconds since 1970
        all:   ranks all messages, which may take a second
        """
        with self.database.reading() as db:
            return search(
                db, self.owner, text, model=model, role=role, since=since, limit=limit, rank_all=all
            )

    def costs(
        self, by: Iterable[str] = ("model",), *, since: float | None = None, price: Price | None = None
    ) -> list[CostRow]:
        """Tokens and cost of all turns, in groups.

        by:     of "model", "day", "provider", "chat" and "state"
        price:  for turns whose cost is not stored; default: the store's
        raises: InvalidRequest for another group
        """
        names = list(by)
        unknown = [name for name in names if name not in _GROUPS]
        if unknown or not names:
            raise InvalidRequest(
                f"costs are grouped by {', '.join(_GROUPS)}; got {', '.join(unknown) or 'nothing'}"
            )
        columns = ", ".join(_GROUPS[name] for name in names)
        statement = (
            f"select provider || ':' || t.model, input_tokens, output_tokens, cached_tokens, "  # noqa: S608  # constants
            f"cache_write_tokens, reasoning_tokens, cost, {columns} from turns t "
            "join conversations c on c.n = t.conversation "
            "where c.owner = ? and started >= ? and state <> 'open'"
        )
        with self.database.reading() as db:
            rows = db.execute(
                statement,
                (self.owner, since or 0.0),
            ).fetchall()
        totals: dict[tuple[str, ...], CostRow] = {}
        for model, given, made, cached, written, reasoned, cost, *group in rows:
            usage = Usage(given, made, None, reasoned, cached, written)
            if cost is None:
                cost = self.cost(model, usage, price)
            key = tuple(
                [_day(of) if name == "day" else str(of) for name, of in zip(names, group, strict=True)]
            )
            old = totals.get(key) or CostRow(key, 0, 0, 0, None)
            # Turns without a known price add nothing: the sum is of what is known.
            total = old.cost if cost is None else (old.cost or 0.0) + cost
            totals[key] = CostRow(
                key, old.turns + 1, old.input_tokens + (given or 0), old.output_tokens + (made or 0), total
            )
        return [totals[key] for key in sorted(totals)]

    def cost(self, model: str, usage: Usage, price: Price | None = None) -> float | None:
        """What tokens cost by the given price, or the store's; None if it is unknown."""
        found = price or self._price
        return None if found is None else found(model, usage)

    # Deleting, and copies.

    def delete(self, *names: str, optimize: bool = True) -> None:
        """Deletes conversations with all branches permanently: their rows, words and files are overwritten.

        optimize: rewrites the index, which takes seconds in a large store; without it deleted words stay in
                  the file until the next `prune`, `delete` or `optimize`
        raises:   StoreError if there is none of a name; then nothing is deleted
        """
        # Exclusive: a file being deleted with its last message could get a new message at that moment.
        with self.database.writing(alone=True) as db:
            for row in [self._row(db, name) for name in names]:
                conversations.delete_conversation(db, row)
        if optimize:
            self.database.optimize()

    def prune(self, *, before: float, keep_tagged: bool = True) -> list[str]:
        """Deletes the conversations that have not changed since a time; returns their names.

        before:      seconds since 1970
        keep_tagged: whether those with tags stay
        """
        with self.database.writing(alone=True) as db:
            found = [
                row[0]
                for row in db.execute(
                    "select id from conversations where owner = ? and updated < ? and (tags = '[]' or not ?)",
                    (self.owner, before, keep_tagged),
                )
            ]
            for name in found:
                conversations.delete_conversation(db, self._row(db, name))
        self.database.optimize()
        return found

    def optimize(self) -> None:
        """Rewrites the index and empties the file's log."""
        self.database.optimize()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Writes a complete copy to a new file, while others may write.

        raises: StoreError
        """
        self.database.copy(Path(path))

    def check(self) -> list[str]:
        """The problems of the file, by SQLite's integrity check, and of its rows; [] if there are none."""
        found = self.database.check()
        # Of a damaged file rows prove nothing.
        if not found:
            with self.database.reading() as db:
                found = conversations.faults(db)
        return found


def _close(database: Database, writer: Writer) -> None:
    writer.leave()
    database.close()


def _notes(db: Connection, row: Row) -> dict[str, str]:
    (meta,) = db.execute("select meta from conversations where n = ?", (row.n,)).fetchone()
    return msgspec.json.decode(meta, type=dict[str, str])


def _node(db: Connection, row: tuple[int, int | None, int, bytes], current: set[int]) -> TreeNode:
    n, parent, files, body = row
    message = read_message(db, n, files, body)
    text = " ".join(next((text for text in texts_of(message) if text.strip()), "")[:_SHOWN].split())
    return TreeNode(n, parent, str(message.role), text, n in current)


def _turn(row: tuple[Any, ...]) -> TurnInfo:
    model, state, finish, given, made, cached, written, reasoned, *rest, asked, log = row
    usage = Usage(given, made, None, reasoned, cached, written)
    fields = (model, state, finish, usage, *rest, msgspec.json.decode(asked), log)
    return TurnInfo(*fields)


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))


def _missing(name: str) -> StoreError:
    return StoreError(f"there is no conversation {name!r} in the store")


def new_name(at: float) -> str:
    """A name for a conversation without one: its day, and six characters."""
    return f"{_day(at)}-{uuid.uuid4().hex[:6]}"
