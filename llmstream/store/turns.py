"""Turns: the cost and outcome of each request, and its answer while it arrives.

The events of an answer are drafts until it is complete: each batch is stored before its reader gets it. The
complete message replaces them. A process that dies leaves a turn open; the next process that opens the store
builds messages from its drafts; see `Writer`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from llmstream.accumulate import Accumulator
from llmstream.chats.chat import logged_run
from llmstream.chats.content import OWN_KEY, Reasoning, Text, own_values
from llmstream.chats.message import Message
from llmstream.errors import LLMStreamError
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    Raw,
    ReasoningDelta,
    ResponseMetadata,
    StepFinish,
    StepStart,
    StreamStart,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    Warning,
    decode,
    encode,
)
from llmstream.store.conversations import Row, add_messages
from llmstream.store.database import Connection, StoreError
from llmstream.store.rows import Link
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.store.chat import StoredChat

__all__ = ["Facts", "StoredTurn", "close", "recover"]

# Settings that may contain prompt text.
_TEXTS: Final = frozenset({"stop"})

# The first visible events: `first_s` is the time to them.
_CONTENT: Final = (TextDelta, ReasoningDelta, ToolInputDelta, ToolCall)


class Facts(msgspec.Struct):
    """Data of one response besides its content. Times are seconds since its request."""

    step: int = 0
    finish: str = ""
    usage: Usage = Usage()
    warnings: list[Warning] = []
    error: str = ""
    response: str = ""
    model: str = ""
    first_s: float | None = None
    total_s: float | None = None

    def feed(self, event: Event, at_s: float) -> None:
        """Records one event."""
        match event:
            case StreamStart(warnings):
                self.warnings = warnings
            case StepStart(step, warnings):
                self.step, self.warnings = step, warnings
            case ResponseMetadata():
                self.response = event.id or self.response
                self.model = event.model_id or self.model
            case StepFinish() | Finish():
                self.finish, self.usage, self.total_s = event.finish_reason, event.usage, at_s
            case ErrorEvent(error):
                self.error, self.total_s = f"{error.code}: {error.message}", at_s
            case _ if self.first_s is None and isinstance(event, _CONTENT):
                self.first_s = at_s
            case _:
                pass


_DRAFT: Final = "insert into drafts select n, ?, ? from turns where n = ? and state = 'open'"


class StoredTurn:
    """A turn of a chat in a store; see `ChatTurn`.

    A failure of the store does not affect the reader: it is in `chat.failure`, and the next write retries.
    """

    def __init__(self, chat: StoredChat, model: str, asked: Mapping[str, object]) -> None:
        self._chat = chat
        stored = {name: value for name, value in asked.items() if chat.store.content or name not in _TEXTS}
        self._asked = msgspec.json.encode(stored).decode()
        self._provider, _, self._model = model.partition(":")
        self._run = uuid.uuid4().hex
        self._row: int | None = None
        self._seq = 0
        self._began = time.monotonic()
        self._facts = Facts()
        self._begun = False

    def begin(self, prompt: Sequence[Message]) -> None:
        """As in `ChatTurn`.

        raises: StoreError; then nothing is sent
        """
        self._chat.append(*prompt)
        self._began = time.monotonic()

    def feed(self, events: Sequence[msgspec.Struct]) -> None:
        """As in `ChatTurn`."""
        # Raw events are large, and not part of the message built from drafts.
        given: list[Any] = [event for event in events if not isinstance(event, Raw)]
        if not self._begun:
            # Without visible content, there is no answer to store.
            if all(isinstance(event, Finish | ErrorEvent | StepFinish) for event in given):
                return  # the end of a run whose steps are complete
            self._begun, self._facts = True, Facts()
        at_s = time.monotonic() - self._began
        for event in given:
            # Nearly all events are such deltas, without further data of the response.
            if type(event) is not TextDelta or self._facts.first_s is None:
                self._facts.feed(event, at_s)
        try:
            self._draft(b"\n".join(map(encode, given)))
        except LLMStreamError as error:
            self._chat.failed(error)
        except (TypeError, ValueError) as error:  # an application's metadata that JSON cannot hold
            self._chat.failed(StoreError(f"events of {self._model} cannot be stored: {error}"))

    def _draft(self, events: bytes) -> None:
        store = self._chat.store
        # Without content a turn has nothing but its beginning and its end.
        if self._row is not None and not store.content:
            return
        with self._chat.changing() as db:
            if self._row is None:
                # First: a turn whose writer is not alive counts as lost.
                store.writer.appear()
                conversation, after = self._chat.place(db)
                self._row, self._seq = self._open(db, conversation, after), 0
            if store.content:
                # Not into a turn that another process has marked as lost.
                statement = _DRAFT + db.locked("turns")
                db.execute(statement, (self._seq, events, self._row))
        self._seq += 1

    def _open(self, db: Connection, conversation: int, after: int | None) -> int:
        (row,) = db.execute(
            "insert into turns (conversation, after, run, step, provider, model, state, finish, started, "
            "warnings, error, response, log, writer, asked) "
            "values (?, ?, ?, 0, ?, ?, 'open', '', ?, '[]', '', '', ?, ?, ?) returning n",
            (
                conversation,
                after,
                self._run,
                self._provider,
                self._model,
                self._chat.store.clock(),
                logged_run.get(),
                self._chat.store.writer.id,
                self._asked,
            ),
        ).fetchone()
        return int(row)

    def add(self, messages: Sequence[Message]) -> None:
        """As in `ChatTurn`."""
        row, facts = self._row, self._facts
        self._row, self._begun = None, False
        began, self._began = self._began, time.monotonic()  # the next request follows at once
        if not messages and row is None:
            return
        if facts.total_s is None:
            facts.total_s = self._began - began
        state = "failed" if facts.error else "done" if facts.finish else "left"
        try:
            self._chat.add(messages, lambda db, head: self._close(db, row, state, facts, head))
        except LLMStreamError as error:
            self._chat.failed(error)

    def _close(self, db: Connection, row: int | None, state: str, facts: Facts, head: int | None) -> None:
        if row is not None:
            if not self._chat.store.content:  # a vendor's errors and warnings may quote the prompt
                facts.error, facts.warnings = facts.error.partition(":")[0], []
            cost = self._chat.store.cost(f"{self._provider}:{self._model}", facts.usage)
            close(db, row, state, facts, head, cost)


def close(
    db: Connection, row: int, state: str, facts: Facts, head: int | None, cost: float | None = None
) -> None:
    """Ends a turn: its facts replace its drafts.

    state: "done", "left" (closed by its reader), "failed", or "lost" with its process
    """
    usage = facts.usage
    db.execute(
        "update turns set state = ?, finish = ?, step = ?, head = ?, input_tokens = ?, output_tokens = ?, "
        "cached_tokens = ?, cache_write_tokens = ?, reasoning_tokens = ?, cost = ?, first_s = ?, "
        "total_s = ?, warnings = ?, error = ?, response = ?, writer = '' where n = ? and state = 'open'",
        (
            state,
            facts.finish,
            facts.step,
            head,
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_input_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
            cost,
            facts.first_s,
            facts.total_s,
            msgspec.json.encode(facts.warnings).decode(),
            facts.error,
            facts.response,
            row,
        ),
    )
    db.execute("delete from drafts where turn = ?", (row,))


_LOST: Final = (
    "select c.n, c.id, c.tree, c.head, c.title, k.key, t.after from turns t join conversations c "
    "on c.n = t.conversation join trees k on k.n = c.tree where t.n = ? and t.state = 'open'"
)


def recover(db: Connection, turn: int, at: float) -> None:
    """Builds messages from the drafts of a turn whose process died; inside a transaction."""
    statement = _LOST + db.locked("c, t")
    found = db.execute(statement, (turn,)).fetchone()
    if found is None:  # another process did it first
        return
    *fields, after = found
    drafts = db.execute("select events from drafts where turn = ? order by seq", (turn,))
    events = [decode(line) for (batch,) in drafts for line in batch.split(b"\n") if line]
    facts = Facts()
    for event in events:
        facts.feed(event, 0.0)
    facts.first_s = facts.total_s = None  # unknown
    row = Row(*fields)
    tip = None
    if after is not None:
        tip = Link(after, *db.execute("select id, depth from messages where n = ?", (after,)).fetchone())
    # After the messages present when the turn began: a conversation continued elsewhere is not moved.
    links = add_messages(db, row, tip, folded(events), at, own_head=after)
    close(db, turn, "lost", facts, links[-1].n if links else None)


def folded(events: Sequence[Event]) -> list[Message]:
    """The messages of a response so far, and of the results of its calls.

    For an interrupted one, the visible content stays: text and reasoning, no calls.
    """
    fold = Accumulator()
    fold.feed_many(events)
    message = fold.partial
    if not any(isinstance(event, StepFinish | Finish) for event in events):
        shown = tuple([part for part in message.parts if isinstance(part, Text | Reasoning) and part.text])
        message = msgspec.structs.replace(message, parts=shown)
    if not message.parts:
        return []
    own = own_values(message.metadata)
    # For displays of the conversation: otherwise the answer looks like any other.
    message.set_meta(OWN_KEY, {**own, "incomplete": True})
    results = fold.tool_message if message.tool_calls else None
    return [message] if results is None else [message, results]
