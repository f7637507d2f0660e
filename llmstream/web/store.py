"""Stores conversations in SQLite: a row each, changed in transactions, by any number of processes."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable

import msgspec

from llmstream import private_sqlite
from llmstream.errors import InvalidRequest
from llmstream.web.records import Conversation, Summary

__all__ = ["ConversationStore"]

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
        self._decode = msgspec.json.Decoder(Conversation).decode

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
        with private_sqlite.transaction(self._db):
            conversation = self.get(conversation_id)
            change(conversation)
            conversation.version += 1
            self._db.execute("insert or replace into conversations values (?, ?, ?, ?)", _row(conversation))
        return conversation

    def delete(self, conversation_id: str) -> None:
        """Deletes a conversation, if it is there."""
        self._db.execute("delete from conversations where id = ?", (conversation_id,))


def _opened(path: str | os.PathLike[str] | None) -> sqlite3.Connection:
    database = private_sqlite.connect(private_sqlite.IN_MEMORY if path is None else path, busy_s=5.0)
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
