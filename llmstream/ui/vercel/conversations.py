"""Where the conversations of pages are stored: in memory or SQLite, or in a store of the application."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec

from llmstream.addresses import sqlite_path
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import ToolResult
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.errors import DecodeError, InvalidRequest
from llmstream.events import Finish
from llmstream.files import connect_sqlite
from llmstream.first_use import prepared
from llmstream.tools.approval import Approve, Deny, PendingCall

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "Conversation",
    "Conversations",
    "Decided",
    "MemoryConversations",
    "SQLiteConversations",
    "open_conversations",
]

T = TypeVar("T")


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions and results of a page that were accepted, and whose run has not begun.

    decisions: by approval id
    results:   of calls that the page ran
    complete:  whether the run needs nothing else: deps and options are not stored
    """

    decisions: Mapping[str, Approve | Deny] = msgspec.field(default_factory=dict)
    results: tuple[ToolResult, ...] = ()
    complete: bool = True


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as it is stored.

    messages:   with "id" in the metadata of the first message of each UI message
    suspension: of the last run, if it waits for decisions or results
    decided:    with which the last run continues `suspension`, until it begins: no tool has run with them
    run:        id of the last run; None before the first
    message_id: of the assistant message that the last run writes
    continued:  number of messages before the last run, if it continues an assistant message; else 0
    waited:     the calls that waited when it began
    begun:      when the last run began, in seconds since 1970
    stored:     whether the content of the last run is in `messages`
    finish:     how the last run ended; None while it runs, if it failed, and if its process died before
    version:    how often it was stored; 0 for one that never was
    """

    messages: tuple[Message, ...] = ()
    suspension: Suspension | None = None
    decided: Decided | None = None
    run: str | None = None
    message_id: str | None = None
    continued: int = 0
    waited: tuple[PendingCall, ...] = ()
    begun: float = 0.0
    stored: bool = False
    finish: Finish | None = None
    version: int = 0


class Conversations(Protocol):
    """A store. `save` stores nothing if another process saved first, so that no message is overwritten."""

    async def load(self, key: str) -> Conversation | None:
        """Returns a conversation; None for one that was never stored."""
        ...

    async def save(self, key: str, conversation: Conversation) -> bool:
        """Stores a conversation under the next version, in one atomic step.

        returns: False if the stored version is not `conversation.version`; then nothing is stored
        """
        ...

    async def delete(self, key: str) -> None:
        """Deletes a conversation, if there is one."""
        ...

    async def aclose(self) -> None:
        """Closes the store. Idempotent."""
        ...


def open_conversations(where: str) -> Conversations:
    """Opens the store at "memory:" or "sqlite:PATH".

    raises: InvalidRequest for any other address
    """
    if where in ("memory", "memory:"):
        return MemoryConversations()
    if path := sqlite_path(where):
        return SQLiteConversations(path)
    raise InvalidRequest(
        f"cannot open conversations at {where!r}. Write 'sqlite:chats.db' or 'sqlite:/var/lib/app/chats.db' "
        "(no slashes before the path), or 'memory:'."
    )


class MemoryConversations:
    """Conversations that last as long as the process: for tests and trials."""

    def __init__(self) -> None:
        # Encoded, as in a file: messages are mutable, and a caller's changes must not affect the store.
        self._stored: dict[str, tuple[int, bytes]] = {}

    async def load(self, key: str) -> Conversation | None:
        """Returns a copy of a conversation."""
        found = self._stored.get(key)
        return None if found is None else _decode(*found)

    async def save(self, key: str, conversation: Conversation) -> bool:
        """Stores a copy of a conversation; see `Conversations.save`."""
        version = self._stored.get(key, (0, b""))[0]
        if version != conversation.version:
            return False
        self._stored[key] = version + 1, _encode(conversation)
        return True

    async def delete(self, key: str) -> None:
        """Deletes a conversation, if there is one."""
        self._stored.pop(key, None)

    async def aclose(self) -> None:
        """Does nothing: a store in memory may be opened again by its object."""


_TABLE: Final = """
create table if not exists conversations (
    key text primary key, version integer not null, changed real not null, data blob not null
) without rowid
"""

# How long a process waits for another one's write.
_BUSY_S: Final = 10.0


class SQLiteConversations:
    """Conversations in a file that only its owner can read, for any number of processes of one machine."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        # A dedicated thread, which owns the connection: a commit takes milliseconds.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="llmstream-conversations")
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    async def load(self, key: str) -> Conversation | None:
        """Returns a conversation.

        raises: DecodeError if it is damaged, or was stored by a newer version; sqlite3.Error;
            OSError if the file cannot be made
        """
        query = "select version, data from conversations where key = ?"
        found = await self._run(lambda connection: connection.execute(query, (key,)).fetchone())
        return None if found is None else _decode(*found)

    async def save(self, key: str, conversation: Conversation) -> bool:
        """Stores a conversation; see `Conversations.save`."""
        old, data = conversation.version, _encode(conversation)

        def save(connection: sqlite3.Connection) -> bool:
            # A new conversation has no row to update; `or ignore` refuses it if another process has just made
            # one.
            if old == 0:
                statement = "insert or ignore into conversations values (?, 1, ?, ?)"
                return connection.execute(statement, (key, time.time(), data)).rowcount == 1
            statement = (
                "update conversations set version = version + 1, changed = ?, data = ? "
                "where key = ? and version = ?"
            )
            return connection.execute(statement, (time.time(), data, key, old)).rowcount == 1

        return await self._run(save)

    async def delete(self, key: str) -> None:
        """Deletes a conversation, if there is one."""
        statement = "delete from conversations where key = ?"
        await self._run(lambda connection: connection.execute(statement, (key,)))

    async def aclose(self) -> None:
        """Closes the file. Idempotent."""
        if not self._closed:
            self._closed = True
            # In the connection's thread, after its pending work.
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            self._thread.shutdown()

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise InvalidRequest("the store of conversations is closed")
        loop = asyncio.get_running_loop()
        # Opened by the only thread that uses it.
        return await loop.run_in_executor(self._thread, lambda: work(self._opened()))

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = _connection(self._path)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _connection(path: str) -> sqlite3.Connection:
    connection = connect_sqlite(path, busy_s=_BUSY_S)
    try:
        connection.execute(_TABLE)
    except BaseException:
        connection.close()
        raise
    return connection


class _SavedDecision(msgspec.Struct, omit_defaults=True):
    """The stored form of Approve and Deny, which have no tag."""

    approved: bool
    arguments: dict[str, Any] | None = None
    text: str = ""


class _SavedDecided(msgspec.Struct, omit_defaults=True):
    decisions: dict[str, _SavedDecision]
    results: tuple[ToolResult, ...] = ()
    complete: bool = True


class _Saved(msgspec.Struct, omit_defaults=True):
    """The stored form: messages and suspension have forms of their own, with versions."""

    chat: str
    suspension: str = ""
    run: str | None = None
    message_id: str | None = None
    continued: int = 0
    waited: tuple[PendingCall, ...] = ()
    begun: float = 0.0
    stored: bool = False
    decided: _SavedDecided | None = None
    finish: Finish | None = None


def _encode(conversation: Conversation) -> bytes:
    waiting = conversation.suspension
    return msgspec.json.encode(
        _Saved(
            dump_messages(conversation.messages).decode(),
            "" if waiting is None else waiting.to_json().decode(),
            conversation.run,
            conversation.message_id,
            conversation.continued,
            conversation.waited,
            conversation.begun,
            conversation.stored,
            None if conversation.decided is None else _saved_decided(conversation.decided),
            conversation.finish,
        )
    )


def _saved_decided(decided: Decided) -> _SavedDecided:
    saved = {
        name: _SavedDecision(False, None, made.reason)
        if isinstance(made, Deny)
        else _SavedDecision(True, None if made.arguments is None else dict(made.arguments), made.note)
        for name, made in decided.decisions.items()
    }
    return _SavedDecided(saved, decided.results, decided.complete)


def _loaded_decided(saved: _SavedDecided) -> Decided:
    decisions: dict[str, Approve | Deny] = {
        name: Approve(made.arguments, made.text) if made.approved else Deny(made.text)
        for name, made in saved.decisions.items()
    }
    return Decided(decisions=decisions, results=saved.results, complete=saved.complete)


def _decode(version: int, data: Any) -> Conversation:
    try:
        saved = msgspec.json.decode(data, type=prepared(_Saved))
    except msgspec.MsgspecError as error:
        raise DecodeError(f"not a stored conversation: {error}") from None
    return Conversation(
        messages=tuple(load_messages(saved.chat)),
        suspension=Suspension.from_json(saved.suspension) if saved.suspension else None,
        run=saved.run,
        message_id=saved.message_id,
        continued=saved.continued,
        waited=saved.waited,
        begun=saved.begun,
        stored=saved.stored,
        decided=None if saved.decided is None else _loaded_decided(saved.decided),
        finish=saved.finish,
        version=version,
    )
