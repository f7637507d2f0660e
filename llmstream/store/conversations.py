"""Conversations as rows: created, read, moved and deleted in transactions of a `Database`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from llmstream.chats.message import Message, Role
from llmstream.store.database import Connection, StoreError
from llmstream.store.rows import Link, add_message, delete_messages

__all__ = [
    "NO_LIMIT",
    "Branch",
    "ConversationInfo",
    "Row",
    "add_messages",
    "answered_by",
    "delete_conversation",
    "faults",
    "find",
    "found_or_made",
    "make",
    "title_of",
]

# Names are used as arguments of commands and shown in lists.
_MAX_NAME: Final = 200
# One line of a list on a terminal.
_TITLE: Final = 80

NO_LIMIT: Final = 2**62
"""The value for no `limit` in each database."""


class ConversationInfo(msgspec.Struct, frozen=True):
    """A conversation without its messages. Times are seconds since 1970.

    id:          its name, as in `store.chat(id)`
    messages:    how many there are in the branch that is current
    model:       that answered last, "provider:model"; "" if none did
    forked_from: the conversation that it began as a copy of, or ""
    """

    id: str
    title: str
    tags: tuple[str, ...]
    created: float
    updated: float
    messages: int
    model: str
    forked_from: str = ""


class Branch(msgspec.Struct, frozen=True):
    """A branch of a conversation.

    id:      for `chat.switch`
    at:      index of the first message that is not in the current branch
    text:    the beginning of that message
    length:  how many messages the branch has
    current: whether the chat is on it
    """

    id: int
    at: int
    text: str
    length: int
    current: bool


class Row(msgspec.Struct, frozen=True):
    """The row of a conversation, with the key of its tree."""

    n: int
    id: str
    tree: int
    head: int | None
    title: str
    key: bytes


_FIND: Final = (
    "select c.n, c.id, tree, head, title, key from conversations c join trees t on t.n = tree "
    "where owner = ? and c.id = ?"
)


def find(db: Connection, owner: str, name: str) -> Row | None:
    """The row of a conversation, or None."""
    statement = _FIND + db.locked("c")
    row = db.execute(statement, (owner, name)).fetchone()
    return None if row is None else Row(*row)


def make(db: Connection, owner: str, name: str, at: float, *, fork_of: Row | None = None) -> Row:
    """Creates a conversation: with a new tree, or as a fork that shares one.

    raises: StoreError if the name cannot be one or is in use
    """
    made = _made(db, owner, name, at, fork_of)
    if made is None:
        raise StoreError(f"a conversation {name!r} already exists")
    return made


def found_or_made(db: Connection, owner: str, name: str, at: float) -> Row:
    """The conversation of that name; a new one unless another process has created it meanwhile.

    raises: StoreError if the name cannot be one
    """
    # Read again at the end: if this process did not create it, another one has.
    found = find(db, owner, name) or _made(db, owner, name, at, None) or find(db, owner, name)
    assert found is not None
    return found


def _made(db: Connection, owner: str, name: str, at: float, fork_of: Row | None) -> Row | None:
    """A new conversation, or None if the name is in use."""
    # Control characters in a name would reach terminals.
    if not name or len(name) > _MAX_NAME or not name.isprintable():
        raise StoreError(f"{name[:40]!r} cannot be the name of a conversation: 1 to {_MAX_NAME} characters")
    if fork_of is None:
        # Random bytes: ids are hashes keyed by them, so that they reveal nothing about the texts.
        key, head, title, origin = os.urandom(16), None, "", ""
        (tree,) = db.execute("insert into trees (key) values (?) returning n", (key,)).fetchone()
    else:
        key, head, title, origin, tree = fork_of.key, fork_of.head, fork_of.title, fork_of.id, fork_of.tree
    made = db.execute(
        "insert into conversations (owner, id, tree, head, title, tags, created, updated, forked_from, meta) "
        "values (?, ?, ?, ?, ?, '[]', ?, ?, ?, '{}') on conflict (owner, id) do nothing returning n",
        (owner, name, tree, head, title, at, at, origin),
    ).fetchone()
    if made is not None:
        return Row(made[0], name, tree, head, title, key)
    if fork_of is None:
        # The name is in use by now, so the tree is not needed.
        db.execute("delete from trees where n = ?", (tree,))
    return None


def add_messages(
    db: Connection,
    row: Row,
    tip: Link | None,
    messages: Sequence[Message],
    at: float,
    *,
    own_head: int | None,
) -> list[Link]:
    """Adds messages below `tip`; the conversation continues with them unless it was continued elsewhere.

    own_head: the head of the conversation that the caller expects; if it differs, these messages are another
    branch
    """
    links: list[Link] = []
    for message in messages:
        tip = add_message(db, row.tree, row.key, row.n, tip, message, at)
        links.append(tip)
    # Compared inside the transaction: two processes cannot both believe that they are at the end.
    if own_head == row.head:
        head = None if tip is None else tip.n
        db.execute(
            # An import may add messages that are older than the conversation's last change.
            "update conversations set head = ?, updated = case when updated < ? then ? else updated end "
            "where n = ?",
            (head, at, at, row.n),
        )
    else:
        db.execute("update conversations set updated = ? where n = ? and updated < ?", (at, row.n, at))
    # Only from the first prompt; a title set by a person stays.
    if not row.title and (title := title_of(messages)):
        db.execute("update conversations set title = ? where n = ? and title = ''", (title, row.n))
    return links


def title_of(messages: Sequence[Message]) -> str:
    """The first line of the first prompt, cut; "" if there is none."""
    text = next((m.text for m in messages if m.role == Role.USER and m.text.strip()), "")
    line = " ".join(text.split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


_FAULTS: Final = {
    "messages without the one before them": "select count(*) from messages m where parent is not null "
    "and not exists (select 1 from messages p where p.n = m.parent)",
    "conversations without their end": "select count(*) from conversations c where head is not null "
    "and not exists (select 1 from messages m where m.n = c.head)",
    "conversations without their tree": "select count(*) from conversations c "
    "where not exists (select 1 from trees t where t.n = c.tree)",
    "files that are missing": "select count(*) from message_files m "
    "where not exists (select 1 from files f where f.hash = m.hash)",
    "drafts of turns that are over": "select count(*) from drafts d "
    "where not exists (select 1 from turns t where t.n = d.turn and t.state = 'open')",
}


def faults(db: Connection) -> list[str]:
    """The missing targets of references, with numbers of rows; [] if none are missing."""
    counts = {name: db.execute(statement).fetchone()[0] for name, statement in _FAULTS.items()}
    return [f"{count} {name}" for name, count in counts.items() if count]


# Messages that no other conversation of the tree uses: each uses its own, its head, and all ancestors.
_UNSHARED: Final = """
with recursive shown (n) as (
    select n from messages where tree = :tree and conversation in
        (select n from conversations where tree = :tree and n <> :gone)
    union select head from conversations where tree = :tree and n <> :gone and head is not null
    union select m.parent from messages m join shown on m.n = shown.n where m.parent is not null
) select n from messages where tree = :tree and n not in (select n from shown)
"""


def delete_conversation(db: Connection, row: Row) -> None:
    """Deletes a conversation with all its branches; what forks share with it stays."""
    turns = db.execute("select n from turns where conversation = ?", (row.n,)).fetchall()
    db.executemany("delete from drafts where turn = ?", turns)
    db.execute("delete from turns where conversation = ?", (row.n,))
    # The newest first, so that no message is ever without its parent.
    gone = sorted((n for (n,) in db.execute(_UNSHARED, {"tree": row.tree, "gone": row.n})), reverse=True)
    delete_messages(db, gone)
    db.execute("delete from conversations where n = ?", (row.n,))
    # Messages shared with forks are reassigned to one of them; the conversation that added them is deleted.
    heir = db.execute("select min(n) from conversations where tree = ?", (row.tree,)).fetchone()[0]
    if heir is None:
        db.execute("delete from trees where n = ?", (row.tree,))
    else:
        db.execute(
            "update messages set conversation = ? where tree = ? and conversation = ?",
            (heir, row.tree, row.n),
        )


_LISTED: Final = """
select c.id, title, tags, created, updated, coalesce((select depth + 1 from messages where n = head), 0),
    coalesce((select t.provider || ':' || t.model from turns t where t.conversation = c.n order by t.n desc
    limit 1), ''), forked_from
from conversations c where owner = :owner
"""

_NAMED: Final = f"{_LISTED} and c.id = :name"


def answered_by(db: Connection, conversation: str) -> str:
    """A condition: a model that fits the parameter `model` answered in a conversation.

    conversation: the column with its row
    """
    glob = db.dialect.glob
    return (
        f" and exists (select 1 from turns t where t.conversation = {conversation} "  # noqa: S608  # constants
        f"and (t.model {glob} :model or (t.provider || ':' || t.model) {glob} :model))"
    )


def listed(
    db: Connection,
    owner: str,
    limit: int | None,
    *,
    before: float | None,
    since: float | None,
    model: str | None,
    titled: bool,
) -> list[ConversationInfo]:
    """Conversations, the one that changed last first."""
    filters = (answered_by(db, "c.n") if model is not None else "") + (" and title <> ''" if titled else "")
    statement = (
        f"{_LISTED} and updated < :before and updated >= :since {filters} order by updated desc, c.n desc "
        "limit :limit"
    )
    rows = db.execute(
        statement,
        {
            "owner": owner,
            # A time after all others: one statement works with and without the limit.
            "before": float("inf") if before is None else before,
            "since": since or 0.0,
            "model": None if model is None else db.dialect.pattern(model),
            "limit": NO_LIMIT if limit is None else limit,
        },
    )
    return [_info(row) for row in rows]


def described(db: Connection, owner: str, name: str) -> ConversationInfo | None:
    """One conversation, or None."""
    row = db.execute(_NAMED, {"owner": owner, "name": name}).fetchone()
    return None if row is None else _info(row)


def _info(row: tuple[object, ...]) -> ConversationInfo:
    tags = tuple(msgspec.json.decode(str(row[2]), type=list[str]))
    return ConversationInfo(row[0], row[1], tags, *row[3:])  # type: ignore[arg-type]  # columns of SQLite
