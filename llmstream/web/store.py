"""What is stored of a conversation, in SQLite, and what a page gets to see of it.

A conversation is a row, changed in transactions, by any number of processes.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable
from typing import Any

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.files import IN_MEMORY, connect_sqlite, transaction
from llmstream.first_use import make_decoder

__all__ = ["Conversation", "ConversationStore", "Decision", "Summary", "Turn", "TurnView", "View"]

# What is stored of a conversation, and what a page gets to see of it.


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a person decided about one call.

    note:      why it is denied, for the model; or a note for the tool that runs
    arguments: instead of those that were shown; None changes nothing
    """

    approve: bool
    note: str = ""
    arguments: dict[str, Any] | None = None


class Turn(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One run, and what began it: a prompt, or decisions about the calls that the turn before waits for.

    run:       id of the run in the event log
    decisions: by approval id
    waited:    the suspension that the decisions continue, until the run begins: no tool has run with them
    before:    the saved messages before the prompt, to ask again from; only of the last prompt
    events:    the events of the run, as JSON, deltas joined; None until it has ended
    recorded:  whether the run itself reported its messages; False if its process died before
    cost:      estimated, in US dollars
    """

    run: str
    prompt: str = ""
    decisions: dict[str, Decision] = {}
    waited: str = ""
    before: str = ""
    events: list[msgspec.Raw] | None = None
    recorded: bool = False
    cost: float | None = None


class Conversation(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A conversation as it is stored.

    version:    how often it was changed
    messages:   the saved form of the conversation, for the model; "" before the first run has ended
    suspension: the run that waits for decisions, as JSON; "" if none does
    """

    id: str
    title: str = ""
    created_at_s: float = 0.0
    updated_at_s: float = 0.0
    version: int = 0
    turns: list[Turn] = []
    messages: str = ""
    suspension: str = ""

    @property
    def open_run(self) -> str | None:
        """Id of the run that has not ended, as far as is recorded."""
        return self.turns[-1].run if self.turns and self.turns[-1].events is None else None


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """A line of the list of conversations. Times are seconds since 1970."""

    id: str
    title: str
    updated_at_s: float


class TurnView(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A turn as a page sees it; `events` is left out while its run is open, which is then to be followed."""

    run: str
    prompt: str = ""
    decisions: dict[str, Decision] = {}
    events: list[msgspec.Raw] | None = None
    cost: float | None = None


class View(msgspec.Struct, frozen=True, rename="camel"):
    """A conversation as a page sees it.

    version:  views that were requested at the same time may arrive in any order; the highest is the latest
    open_run: id of the run to follow, or None
    waiting:  whether the last run waits for decisions
    """

    id: str
    version: int
    title: str
    updated_at_s: float
    open_run: str | None
    waiting: bool
    turns: list[TurnView]


_SCHEMA = """
create table if not exists conversations (
    id text primary key, title text not null, updated_at_s real not null, data blob not null
) strict
"""


class ConversationStore:
    """Conversations in a file of SQLite, which only its owner can read; in memory without a path.

    A call takes well below a millisecond, so that it may be made in an event loop.

    raises: InvalidRequest if the file cannot be opened
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        try:
            self._db = _opened(path)
        except (OSError, sqlite3.Error) as error:
            raise InvalidRequest(f"cannot open the conversations in {path}: {error}") from None
        # Also without `close`: an application often has one store until it ends.
        self._close = weakref.finalize(self, self._db.close)
        self._decode = make_decoder(Conversation).decode

    def close(self) -> None:
        """Closes the file. Idempotent."""
        self._close()

    def summaries(self) -> list[Summary]:
        """All conversations, the one that changed last first."""
        rows = self._db.execute(
            "select id, title, updated_at_s from conversations order by updated_at_s desc"
        )
        return [Summary(*row) for row in rows]

    def get(self, conversation_id: str) -> Conversation:
        """One conversation.

        raises: InvalidRequest, with the status 404, if there is none of that id
        """
        row = self._db.execute("select data from conversations where id = ?", (conversation_id,)).fetchone()
        if row is None:
            raise InvalidRequest("there is no such conversation; it may have been deleted", status=404)
        return self._decode(row[0])

    def add(self, conversation: Conversation) -> None:
        """Adds a conversation."""
        self._db.execute("insert into conversations values (?, ?, ?, ?)", _row(conversation))

    def update(self, conversation_id: str, change: Callable[[Conversation], None]) -> Conversation:
        """Changes a conversation in one transaction; nothing is stored if `change` raises.

        raises: InvalidRequest as `get`; what `change` raises
        """
        # Read and written in one transaction: two pages change the same conversation one after the other.
        with transaction(self._db):
            conversation = self.get(conversation_id)
            change(conversation)
            conversation.version += 1
            self._db.execute("insert or replace into conversations values (?, ?, ?, ?)", _row(conversation))
        return conversation

    def delete(self, conversation_id: str) -> None:
        """Deletes a conversation, if it is there."""
        self._db.execute("delete from conversations where id = ?", (conversation_id,))


def _opened(path: str | os.PathLike[str] | None) -> sqlite3.Connection:
    database = connect_sqlite(IN_MEMORY if path is None else path, busy_s=5.0)
    try:
        # In WAL mode a power failure may undo the last commits, and damages nothing.
        database.execute("pragma synchronous = normal")
        database.execute(_SCHEMA)
    except BaseException:
        database.close()
        raise
    return database


def _row(conversation: Conversation) -> tuple[str, str, float, bytes]:
    data = msgspec.json.encode(conversation)
    return conversation.id, conversation.title, conversation.updated_at_s, data
