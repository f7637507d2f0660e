"""A chat that is stored as it grows: each message is stored before any reader gets it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from llmstream.chats.chat import Chat
from llmstream.chats.message import Message, copy_messages, unchanged
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.store import conversations
from llmstream.store.conversations import Branch, Row, add_messages
from llmstream.store.database import Connection, StoreError
from llmstream.store.rows import Link, path_to, read_message
from llmstream.store.turns import StoredTurn

if TYPE_CHECKING:
    from llmstream.store.store import Store

__all__ = ["StoredChat"]

_Within: TypeAlias = Callable[[Connection, int | None], None]

# Length that fits a line of a terminal.
_SHOWN: Final = 60

# All branches that begin at a message's position: the newest end of each.
_ENDS: Final = """
with recursive below (n, first) as (
    select n, n from messages where {parent} and tree = :tree
    union all select m.n, below.first from messages m join below on m.parent = below.n
) select first, max(n) from below where n not in (select parent from messages where parent is not null and
tree = :tree) group by first order by first
"""

_BRANCH_ENDS: Final = """
select n from messages m where conversation = ?
and not exists (select 1 from messages where parent = m.n) order by n
"""


class StoredChat(Chat):
    """A conversation of a store, as a `Chat`. Made by `Store.chat`.

    `append` and `replace` also write it; stored messages are never overwritten: a difference becomes another
    branch. If another process has continued the same conversation, messages appended here become a separate
    branch, and `is_branch` is True. An object is for one task at a time; several may have the same
    conversation.

    store:   where it is stored
    name:    in the store
    failure: why the end of the conversation is only in this process, or None; the next write retries
    """

    def __init__(self, store: Store, name: str) -> None:
        super().__init__()
        self.store = store
        self.name = name
        self.failure: LLMStreamError | None = None
        # Reentrant: storing a turn calls `changing` within `add`.
        self._writing = threading.RLock()
        self._row: Row | None = None
        self._links: list[Link] = []  # rows of the stored messages, from the first one on
        self._late: list[_Within] = []  # data to be stored with the messages after these
        self._load()

    def _load(self) -> None:
        with self.store.database.reading() as db:
            self._row = conversations.find(db, self.store.owner, self.name)
            if self._row is not None:
                # A new conversation is created with its first message.
                self._links, messages = path_to(db, self._row.head)
                self._history.swap(messages)

    @property
    def is_branch(self) -> bool:
        """Whether the conversation continues elsewhere: from another process, or after `branch`."""
        with self.store.database.reading() as db:
            row = conversations.find(db, self.store.owner, self.name)
        return row is not None and row.head != self._head

    @property
    def _head(self) -> int | None:
        return self._links[-1].n if self._links else None

    def reload(self) -> None:
        """Reads the conversation again, at its current end, with the messages added by other processes."""
        with self._writing:
            self._load()

    def append(self, *messages: Message) -> None:
        """As in `Chat`, and stores them.

        raises: StoreError if they cannot be stored; then none is added
        """
        self.add(copy_messages(messages), lambda db, head: None, keep=False)

    def replace(self, *messages: Message) -> None:
        """As in `Chat`; the messages that differ from the current ones on are a new branch.

        raises: StoreError
        """
        given = copy_messages(messages)
        with self._writing:
            # Equal messages keep their rows; only later ones are new.
            same = unchanged(self._history.snapshot(), given)
            self._move(min(same, len(self._links)), given[min(same, len(self._links)) :])
            self._history.swap(given)

    def branch(self, at: int) -> None:
        """Goes back to the first `at` messages; messages appended then are a new branch.

        raises: InvalidRequest if there are fewer messages
        """
        with self._writing:
            if not 0 <= at <= len(self):
                raise InvalidRequest(f"cannot branch at message {at}: the chat has {len(self)}")
            remaining = self._history.snapshot()[:at]
            self._move(min(at, len(self._links)), [])
            self._history.swap(remaining)

    def branches(self, at: int | None = None) -> list[Branch]:
        """The branches of the conversation, in the order in which they began.

        at: index of a message: only those that differ from that message on; default: all
        """
        with self._writing, self.store.database.reading() as db:
            if self._row is None:
                return []
            if at is None:
                ends = [n for (n,) in db.execute(_BRANCH_ENDS, (self._row.n,))]
                # The head of a fork belongs to the conversation that it was forked from, until something is
                # appended.
                if self._head is not None and self._head not in ends and not self._has_child(db, self._head):
                    ends.append(self._head)
            else:
                if not 0 <= at <= len(self._links):
                    raise InvalidRequest(
                        f"there is no message {at}: the chat has {len(self)}, counted from 0"
                    )
                above = self._links[at - 1].n if at else None
                query = _ENDS.format(parent="parent = :above" if at else "parent is null")
                ends = [end for _, end in db.execute(query, {"above": above, "tree": self._row.tree})]
            return [self._described(db, end, at) for end in ends]

    def _has_child(self, db: Connection, n: int) -> bool:
        return db.execute("select 1 from messages where parent = ?", (n,)).fetchone() is not None

    def _described(self, db: Connection, end: int, at: int | None) -> Branch:
        """A branch by its end. It begins at the message `at`, else where it leaves the current path."""
        # Where a branch begins is seen from the branch that is current.
        own = {link.n for link in self._links}
        first, (parent, depth, files, body) = end, _place(db, end)
        length = depth + 1
        while parent is not None and (parent not in own if at is None else depth > at):
            first = parent
            parent, depth, files, body = _place(db, first)
        text = " ".join(read_message(db, first, files, body).text.split())[:_SHOWN]
        return Branch(end, depth, text, length, end == self._head)

    def messages_of(self, branch: Branch | int) -> list[Message]:
        """The messages of a branch, without switching to it.

        branch: or the `id` of one, or of any node of `Store.tree`
        raises: InvalidRequest if it is none of this conversation
        """
        end = branch.id if isinstance(branch, Branch) else branch
        with self._writing, self.store.database.reading() as db:
            if self._row is None or not _is_in(db, end, self._row.tree):
                raise self._no_branch(end)
            return path_to(db, end)[1]

    def switch(self, branch: Branch | int) -> None:
        """Switches to another branch, in every process that loads the conversation from now on.

        raises: InvalidRequest if it is no branch of this conversation
        """
        end = branch.id if isinstance(branch, Branch) else branch
        with self.changing() as db:
            row = self._current(db)
            if not _is_in(db, end, row.tree):
                raise self._no_branch(end)
            db.execute(
                "update conversations set head = ?, updated = ? where n = ?", (end, self.store.clock(), row.n)
            )
            self._links, messages = path_to(db, end)
            self._history.swap(messages)

    def _no_branch(self, end: int) -> InvalidRequest:
        return InvalidRequest(f"the conversation {self.name!r} has no branch {end}; see branches()")

    def fork(self, name: str | None = None) -> Chat:
        """As in `Chat`, a chat in memory; with a name, a conversation of its own in the store.

        The messages are shared, so that a fork of any length takes a millisecond.
        """
        if name is None:
            return super().fork()
        return self.store.fork(self.name, name)

    def turn(self, model: str, asked: Mapping[str, object] = {}) -> StoredTurn:
        """As in `Chat`: stores the prompt, the answer as it arrives, and its cost."""
        return StoredTurn(self, model, asked)

    # For turns.

    def add(
        self,
        messages: Sequence[Message],
        within: _Within,
        *,
        keep: bool = True,
    ) -> None:
        """Stores messages and related data in one transaction.

        within: called in the transaction with the last message's row
        keep:   whether the chat keeps the messages even if they cannot be stored
        """
        with self._writing:
            given = list(messages)
            # Messages that an earlier write failed to store go first: a message needs its parent's row.
            # Without content the messages are only in this process, and none is pending.
            unstored = self._history.snapshot(len(self._links)) if self.store.content else []
            try:
                with self.changing() as db:
                    links = self._write(db, [*unstored, *given])
                    # In one transaction: a message without its turn would have no cost, and a turn without it
                    # no answer.
                    for complete in (*self._late, within):
                        complete(db, links[-1].n if links else self._head)
            except LLMStreamError:
                if keep:
                    self._late.append(within)
                    self._history.extend(given)
                raise
            self._links += links
            self._late.clear()
            self.failure = None
            if given:
                self._history.extend(given)

    @contextlib.contextmanager
    def changing(self) -> Iterator[Connection]:
        """A transaction. A new conversation becomes visible only once it is complete."""
        with self._writing:
            before = self._row
            try:
                with self.store.database.writing() as db:
                    yield db
            except BaseException:
                self._row = before
                raise

    def place(self, db: Connection) -> tuple[int, int | None]:
        """The conversation's row, and that of its last message here; inside a transaction."""
        row = self._current(db)
        return row.n, self._head

    def failed(self, error: LLMStreamError) -> None:
        """Records that a part of a turn is not stored."""
        self.failure = error

    def _write(self, db: Connection, messages: list[Message]) -> list[Link]:
        if not messages:
            return []
        row, tip = self._current(db), self._links[-1] if self._links else None
        stored = messages if self.store.content else []
        return add_messages(db, row, tip, stored, self.store.clock(), own_head=self._head)

    def _move(self, length: int, messages: list[Message]) -> None:
        """Goes back to the first `length` messages and continues with others."""
        with self.changing() as db:
            row, links, now = self._current(db), self._links[:length], self.store.clock()
            head = links[-1].n if links else None
            is_current = row.head == self._head
            # If another process has moved the conversation, its head stays unchanged.
            if is_current and row.head != head:
                db.execute("update conversations set head = ? where n = ?", (head, row.n))
                row = Row(row.n, row.id, row.tree, head, row.title, row.key)
            tip = links[-1] if links else None
            # No row has this number: the conversation stays where another process has moved it.
            own_head = head if is_current else -1
            stored = messages if self.store.content else []
            links += add_messages(db, row, tip, stored, now, own_head=own_head)
        self._links = links

    def _current(self, db: Connection) -> Row:
        """The current row; created if the conversation is new.

        raises: StoreError if it was deleted
        """
        if self._row is None:
            # At the first write, so that only reading a chat stores nothing.
            self._row = conversations.found_or_made(db, self.store.owner, self.name, self.store.clock())
            return self._row
        row = conversations.find(db, self.store.owner, self.name)
        if row is None:
            raise StoreError(
                f"the conversation {self.name!r} was deleted from the store while it was open here. Its "
                "messages are in this chat; append them to another one to keep them."
            )
        # Its messages would become part of an unrelated conversation.
        if row.n != self._row.n:
            raise StoreError(f"the conversation {self.name!r} was deleted and another one has its name")
        return row

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickle goes to another process or machine, where the store's connection is of no use.
        return Chat, tuple(self.messages())


def _is_in(db: Connection, n: int, tree: int) -> bool:
    query = "select 1 from messages where n = ? and tree = ?"
    return db.execute(query, (n, tree)).fetchone() is not None


def _place(db: Connection, n: int) -> tuple[int | None, int, int, bytes]:
    found: tuple[int | None, int, int, bytes] = db.execute(
        "select parent, depth, files, body from messages where n = ?", (n,)
    ).fetchone()
    return found
