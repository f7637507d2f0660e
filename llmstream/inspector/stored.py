"""The requests of a store of conversations, as calls: the answer, its duration and its cost.

A store has messages, not events. So a call has one event for each part of its message, at the time of its
first content or of its end; the bytes and the pace of an answer are in traces.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from llmstream.chats.content import Reasoning, Text, ToolCall
from llmstream.chats.message import Message
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Event,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    encode,
)
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.inspector.calls import CallTrace
from llmstream.inspector.trace import CallBegan, CallEnded, EventsSeen
from llmstream.store.database import Connection
from llmstream.store.rows import read_message
from llmstream.store.sqlite import APPLICATION
from llmstream.store.store import open_store
from llmstream.usage import Usage

__all__ = ["StoredCalls", "is_store"]

_NS: Final = 1_000_000_000
# Each is a message to decode, whenever another process has written.
_MOST: Final = 500
_TURNS: Final = """
select t.n, c.id, t.provider, t.model, t.state, t.finish, t.input_tokens, t.output_tokens, t.cost, t.started,
    t.first_s, t.total_s, t.error, t.head
from turns t join conversations c on c.n = t.conversation order by t.n desc limit ?
"""
_LOST: Final = "producer-lost"


def is_store(path: Path) -> bool:
    """Whether a file is a store of conversations."""
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=2.0)
        try:
            return bool(database.execute("pragma application_id").fetchone()[0] == APPLICATION)
        finally:
            database.close()
    except sqlite3.Error:
        return False


class StoredCalls:
    """The last 500 requests of a store."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._store = open_store(f"sqlite:{path.absolute()}", read_only=True)
        self._known: dict[int, str] = {}
        self._change = -1

    def read(self, calls: dict[str, CallTrace]) -> int:
        """Reads turns that are new or have ended; returns how many."""
        count = 0
        with self._store.database.reading() as db:
            # Costs a few microseconds; the turns are read only if another process has written.
            (change,) = db.execute("pragma data_version").fetchone()
            if change == self._change:
                return 0
            self._change = change
            for row in db.execute(_TURNS, (_MOST,)).fetchall():
                if self._known.get(row[0]) != row[4]:
                    self._known[row[0]] = row[4]
                    call = self._call(db, row)
                    calls[call.id] = call
                    count += 1
        return count

    def _call(self, db: Connection, row: tuple[Any, ...]) -> CallTrace:
        n, chat, provider, model, state, finish, given, made, cost, started, first_s, total_s, error, head = (
            row
        )
        call = CallTrace(f"chat-{n}", f"{chat} ({self._name})", started)
        call.feed(CallBegan(call=call.id, ns=0, provider=provider, model=model))
        if state == "open":
            return call
        end = round((total_s or 0.0) * _NS)
        first = end if first_s is None else round(first_s * _NS)
        usage = Usage(given, made)
        events = [*_events(_message(db, head)), Finish(finish or "unknown", usage)]
        for event in events:
            ns = end if isinstance(event, Finish) else first
            raw = msgspec.Raw(encode(event))
            call.feed(EventsSeen(call=call.id, ns=ns, events=[(-1, raw)]))
        info = ErrorInfo("failed", error, False) if error else None
        if state == "lost":
            info = ErrorInfo(_LOST, "The process that sent the request ended before the answer did.", False)
        call.feed(CallEnded(call=call.id, ns=end, left=state == "left", error=info, usage=usage, cost=cost))
        return call


def _message(db: Connection, head: int | None) -> Message | None:
    row = db.execute("select n, files, body from messages where n = ?", (head,)).fetchone()
    return None if row is None else read_message(db, *row)


def _events(message: Message | None) -> Iterator[Event]:
    """Events that mean a message."""
    yield StreamStart()
    for place, part in enumerate(message.parts if message is not None else ()):
        name = str(place)
        match part:
            case Text(text=text):
                yield from (TextStart(name), TextDelta(text, name), TextEnd(name))
            case Reasoning(text=text):
                yield from (ReasoningStart(name), ReasoningDelta(text, name), ReasoningEnd(name))
            case ToolCall(id=call_id, name=tool, arguments=given):
                yield ToolInputStart(tool, call_id)
                yield ToolInputDelta(given, call_id)
                yield ToolInputEnd(call_id)
                yield ToolCallEvent(tool, given, call_id)
            case _:
                pass
