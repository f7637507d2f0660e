"""The grammar of a stream: one table, a checker that reads it and a guard that enforces it.

A valid stream is: `stream-start`, then blocks (open, deltas, close) and single parts,
`error` where one is required, and always one `finish` at the end. `_TABLE` states for each event which
family of blocks it belongs to and what it does there; everything below reads that table.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from operator import length_hint
from typing import Final, Literal, TypeAlias

import msgspec

from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
    Event,
    File,
    Finish,
    Metadata,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ReasoningStart,
    ResponseMetadata,
    RetryNotice,
    Source,
    StepFinish,
    StepStart,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    Usage,
    Warning,
)
from llmstream.unique_ids import UniqueIds

__all__ = ["TRUNCATING", "Guard", "check"]

Family: TypeAlias = Literal["text", "reasoning", "tool-input"]
Move: TypeAlias = Literal["begin", "open", "delta", "close", "call", "part", "end"]

_TABLE: Final[dict[type, tuple[Move, Family | None]]] = {
    StreamStart: ("begin", None),
    TextStart: ("open", "text"),
    TextDelta: ("delta", "text"),
    TextEnd: ("close", "text"),
    ReasoningStart: ("open", "reasoning"),
    ReasoningDelta: ("delta", "reasoning"),
    ReasoningEnd: ("close", "reasoning"),
    ToolInputStart: ("open", "tool-input"),
    ToolInputDelta: ("delta", "tool-input"),
    ToolInputEnd: ("close", "tool-input"),
    ToolCall: ("call", None),
    ToolResult: ("part", None),
    ToolApprovalRequest: ("part", None),
    ResponseMetadata: ("part", None),
    Source: ("part", None),
    File: ("part", None),
    ReasoningFile: ("part", None),
    Custom: ("part", None),
    ErrorEvent: ("part", None),
    Raw: ("part", None),
    StepStart: ("part", None),
    StepFinish: ("part", None),
    RetryNotice: ("part", None),
    Finish: ("end", None),
}

_DELTAS: Final = {kind: family for kind, (move, family) in _TABLE.items() if move == "delta"}
# Events without state in the guard.
_PARTS: Final = frozenset(
    kind for kind, (move, _) in _TABLE.items() if move == "part" and kind not in (ErrorEvent, RetryNotice)
)

# One for all: each open stream has a guard, and an empty set takes 216 bytes.
_NONE_BROKEN: Final[frozenset[Family]] = frozenset()

TRUNCATING: Final = frozenset({"length", "content-filter", "error"})
"""Finish reasons after which a tool input may have stayed incomplete."""


def _close(family: Family, block_id: str, *, incomplete: bool) -> Event:
    if family == "text":
        return TextEnd(block_id, incomplete)
    if family == "reasoning":
        return ReasoningEnd(block_id, incomplete)
    return ToolInputEnd(block_id, incomplete)


def check(events: Iterable[Event]) -> list[str]:
    """Returns a description of every rule that the events break; [] if the stream is valid.

    events: one complete stream, or a complete run of several steps
    """
    checker = _Checker()
    for position, event in enumerate(events):
        checker.read(position, event)
    return checker.finish()


class _Checker:
    """Reads a stream event by event and collects its violations."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.count = 0
        self.open: dict[str, Family] = {}
        self.open_texts: dict[str, None] = {}
        self.closed: dict[str, Family] = {}
        self.incomplete: dict[str, Family] = {}
        self.discarded: set[str] = set()
        self.inputs: dict[str, list[str]] = {}
        self.called: set[str] = set()
        self.settled: set[str] = set()
        self.errors = 0
        self.ended: Finish | None = None

    def read(self, position: int, event: Event) -> None:
        self.count += 1
        entry = _TABLE.get(type(event))
        if entry is None:
            self.note(position, f"{type(event).__name__} is not an event of the union")
            return
        move, family = entry
        if self.ended is not None:
            self.note(position, f"{type(event).__name__} after finish")
        if (position == 0) != (move == "begin"):
            self.note(position, "stream-start has to be the first event and the only one of its kind")
        if family is not None:
            self.block(position, event, move, family)
        elif isinstance(event, ToolCall):
            self.call(position, event)
        elif isinstance(event, ToolResult):
            self.result(position, event)
        elif isinstance(event, ErrorEvent):
            self.errors += 1
        elif isinstance(event, RetryNotice):
            # Blocks interrupted before a retry are requested again, so their end needs no error.
            self.discarded |= self.incomplete.keys()
        elif isinstance(event, Finish):
            self.end(position, event)

    def block(self, position: int, event: Event, move: Move, family: Family) -> None:
        block_id: str = event.id  # type: ignore[union-attr, assignment]  # every block event has one
        if move == "open":
            if block_id in self.open or block_id in self.closed:
                self.note(position, f"id {block_id!r} opens a second time")
            if family == "tool-input":
                for text_id in islice(self.open_texts, 1):
                    self.note(position, f"tool input {block_id!r} opens while text {text_id!r} is open")
                self.inputs[block_id] = []
            self.open[block_id] = family
            if family == "text":
                self.open_texts[block_id] = None
            return
        if self.open.get(block_id) != family:
            state = "already closed" if block_id in self.closed else "not open"
            self.note(position, f"{type(event).__name__} for {family} {block_id!r}, which is {state}")
            return
        if isinstance(event, ToolInputDelta):
            self.inputs[block_id].append(event.delta)
        elif move == "close":
            del self.open[block_id]
            self.open_texts.pop(block_id, None)
            self.closed[block_id] = family
            if event.incomplete:  # type: ignore[union-attr]  # every closing event has it
                self.incomplete[block_id] = family

    def call(self, position: int, event: ToolCall) -> None:
        call_id = event.tool_call_id
        if call_id in self.called:
            self.note(position, f"tool call {call_id!r} is sent twice")
        self.called.add(call_id)
        if call_id in self.open:
            self.note(position, f"tool call {call_id!r} comes before the end of its input")
        elif call_id in self.incomplete:
            self.note(position, f"tool call {call_id!r} is made of an incomplete input")
        # A reader that shows deltas and one that takes calls must see the same input.
        elif call_id in self.inputs and event.input != ("".join(self.inputs[call_id]) or "{}"):
            self.note(position, f"the input of tool call {call_id!r} differs from its deltas")

    def result(self, position: int, event: ToolResult) -> None:
        if event.tool_call_id in self.settled:
            self.note(position, f"tool call {event.tool_call_id!r} has a second result")
        # A tool reports progress in any number of preliminary results.
        if not event.preliminary:
            self.settled.add(event.tool_call_id)

    def end(self, position: int, event: Finish) -> None:
        self.ended = event
        for block_id, family in self.open.items():
            self.note(position, f"{family} {block_id!r} is still open at finish")
        for block_id, family in self.incomplete.items():
            if block_id in self.discarded:
                # The retry explains it.
                continue
            if family == "tool-input" and event.finish_reason in TRUNCATING:
                continue
            if not self.errors:
                self.note(position, f"{family} {block_id!r} is incomplete and no error gives the reason")
            elif event.finish_reason != "error":
                self.note(
                    position,
                    f"{family} {block_id!r} broke off but the finish reason is {event.finish_reason}",
                )

    def finish(self) -> list[str]:
        if not self.count:
            self.broken.append("no events at all: a stream has at least stream-start and finish")
        elif self.ended is None:
            self.broken.append("no finish at the end")
        return self.broken

    def note(self, position: int, words: str) -> None:
        self.broken.append(f"event {position}: {words}")


class Guard:
    """Enforces the grammar on a provider's events, and completes a stream that stops early.

    Valid events pass unchanged; a batch of deltas passes as the same list. An event that does not
    fit is repaired: a delta without a block opens one, a block that is opened again gets another id,
    text closes before a tool input opens, and nothing passes after finish. A retry closes what is
    open as incomplete, and the errors before it are void.

    reasonings: how many blocks of reasoning have opened
    """

    def __init__(self) -> None:
        self.finished = False
        self.errors: list[ErrorInfo] = []
        self.reasonings = 0
        self._open: dict[str, Family] = {}
        self._open_texts: dict[str, None] = {}
        self._used = UniqueIds()
        self._alias: dict[tuple[Family, str], str] = {}
        self._broken = _NONE_BROKEN  # families of blocks that ended as incomplete
        # Ids of calls and of incomplete inputs: no other call may have them. A dict, since an empty set takes
        # 216 bytes and each open stream has a guard.
        self._settled: dict[str, None] = {}

    def start(self, warnings: Iterable[Warning] = ()) -> list[Event]:
        """Returns the first event."""
        return [StreamStart(list(warnings))]

    def feed(self, events: list[Event]) -> list[Event]:
        """Returns the events, repaired where they break a rule."""
        if self.finished:
            return []
        # Nearly all events are deltas of an open block, and nearly all others are valid as they are. A
        # measured hot loop: a batch of these passes as the list that it is. From the first that is not,
        # events are copied at once up to the next of these.
        opened = self._open
        out: list[Event] | None = None
        passed = 0  # how many of the events were copied to `out`
        kind: type | None = None
        block_id = ""
        rest = iter(events)
        for event in rest:
            # Deltas have an id, which the type checker cannot see in a look-up by type.
            # Decoders use one string object for all deltas of a block, so identity suffices, and is the
            # cheaper test.
            if type(event) is kind and event.id is block_id:  # type: ignore[union-attr]
                # It continues the same block as the previous delta.
                continue
            kind = type(event)
            if (family := _DELTAS.get(kind)) is not None:
                block_id = getattr(event, "id", "")
                if opened.get(block_id) is family and not self._alias:
                    continue
            elif self._accept(event):
                kind = None
                continue
            kind = None  # also a delta, whose block has to be opened or renamed
            here = len(events) - length_hint(rest) - 1
            if out is None:
                out = events[:here]
            elif here > passed:
                out += events[passed:here]
            passed = here + 1
            self._pass(event, out)
        if out is None:
            return events
        out += events[passed:]
        return out

    def close(
        self, usage: Usage, error: ErrorInfo | None = None, metadata: Metadata | None = None
    ) -> list[Event]:
        """Ends a stream without a finish: closes open blocks, emits the error and finish(error)."""
        if self.finished:
            return []
        out: list[Event] = []
        self._close_all(out, incomplete=True)
        if error is not None:
            self.errors.append(error)
            out.append(ErrorEvent(error))
        self.finished = True
        out.append(Finish("error", usage, provider_metadata=metadata))
        return out

    def _accept(self, event: Event) -> bool:
        """Records an event that is valid unchanged; False for events that `_pass` must check or repair."""
        if self.finished or self._alias:
            return False
        # By type: a failing `isinstance` check takes a thousand instructions for a Struct. With few calls of
        # functions: a tool call alone is four events, of which the guard takes a quarter of the instructions.
        kind = type(event)
        move, family = _TABLE[kind]
        if move == "close":
            block_id: str = event.id  # type: ignore[union-attr, assignment]  # every block event has one
            if self._open.get(block_id) != family or event.incomplete:  # type: ignore[union-attr]
                return False
            del self._open[block_id]
            if family == "text":
                del self._open_texts[block_id]
        elif move == "open" and family is not None:
            block_id = event.id  # type: ignore[union-attr, assignment]
            taken = self._used.taken
            if block_id in taken or (self._open_texts and family == "tool-input"):
                return False
            taken[block_id] = None
            self._open[block_id] = family
            if family == "text":
                self._open_texts[block_id] = None
            elif family == "reasoning":
                self.reasonings += 1
        elif kind is ToolCall:
            call_id: str = event.tool_call_id  # type: ignore[union-attr]
            if call_id in self._settled or call_id in self._open:
                return False
            self._settled[call_id] = None
        elif kind is Finish:
            if self._open or self._broken:
                return False
            self.finished = True
        else:
            return kind in _PARTS
        return True

    def _pass(self, event: Event, out: list[Event]) -> None:
        if self.finished:
            return
        move, family = _TABLE[type(event)]
        if family is not None:
            self._block(event, move, family, out)
            return
        if type(event) is ToolCall:
            call_id = event.tool_call_id
            if self._alias:
                call_id = self._alias.get(("tool-input", call_id), call_id)
            # A second call of this id would run twice; one of a cut input would run with wrong arguments.
            if call_id in self._settled:
                return
            self._settled[call_id] = None
            # The decoder sent the call before the end of its input; a reader expects the end first.
            if self._open.get(call_id) == "tool-input":
                self._shut(call_id, out)
            # The block was opened under another id, because the vendor had used this one twice.
            if call_id != event.tool_call_id:
                event = msgspec.structs.replace(event, tool_call_id=call_id)
        elif type(event) is ErrorEvent:
            self.errors.append(event.error)
        elif type(event) is RetryNotice:
            self._close_all(out, incomplete=True)
            # They belong to the void response, and iteration would raise the first of them at the
            # end.
            self.errors.clear()
            self._broken = _NONE_BROKEN
        elif type(event) is Finish:
            # Prose without its end is still readable; an input without its end is not.
            if "tool-input" in self._open.values():
                self._broken |= {"tool-input"}
            self._close_all(out, incomplete=False)
            self.finished = True
            event = self._justified(event, out)
        elif move == "begin":
            return
        out.append(event)

    def _block(self, event: Event, move: Move, family: Family, out: list[Event]) -> None:
        block_id: str = event.id  # type: ignore[union-attr, assignment]  # every block event has one
        if move == "open":
            if family == "tool-input":
                for text_id in list(self._open_texts):
                    self._shut(text_id, out)
            out.append(self._renamed(event, self._open_as(block_id, family)))
            return
        if self._alias:
            block_id = self._alias.get((family, block_id), block_id)
        if self._open.get(block_id) == family:
            if move == "close":
                self._forget(block_id)
                if event.incomplete:  # type: ignore[union-attr]  # every closing event has it
                    self._broken |= {family}
                    if family == "tool-input":
                        self._settled[block_id] = None
            out.append(self._renamed(event, block_id))
        # An input needs a name, which a delta does not have; text and reasoning can be shown without a start.
        elif move == "delta" and family != "tool-input":
            block_id = self._open_as(block_id, family)
            out.append(TextStart(block_id) if family == "text" else ReasoningStart(block_id))
            out.append(self._renamed(event, block_id))

    def _justified(self, finish: Finish, out: list[Event]) -> Finish:
        """Returns the finish; an error if the finish reason does not explain an interrupted block."""
        # These reasons already explain why an input stopped.
        broken = self._broken - ({"tool-input"} if finish.finish_reason in TRUNCATING else set())
        if broken and not self.errors:
            words = f"the answer ended though its {min(broken)} was not complete"
            self.errors.append(ErrorInfo("incomplete-stream", words, retryable=True))
            out.append(ErrorEvent(self.errors[0]))
        return msgspec.structs.replace(finish, finish_reason="error") if broken else finish

    def _open_as(self, block_id: str, family: Family) -> str:
        """Opens a block, with another id if this one is in use."""
        name = self._used.fresh(block_id)
        if name != block_id:
            self._alias[family, block_id] = name
        self._add_open(name, family)
        return name

    def _add_open(self, block_id: str, family: Family) -> None:
        self._open[block_id] = family
        if family == "text":
            self._open_texts[block_id] = None
        elif family == "reasoning":
            self.reasonings += 1

    def _forget(self, block_id: str) -> Family:
        """Removes an open block; returns its kind."""
        self._open_texts.pop(block_id, None)
        return self._open.pop(block_id)

    def _renamed(self, event: Event, block_id: str) -> Event:
        if event.id == block_id:  # type: ignore[union-attr]  # every block event has one
            return event
        return msgspec.structs.replace(event, id=block_id)

    def _shut(self, block_id: str, out: list[Event]) -> None:
        out.append(_close(self._forget(block_id), block_id, incomplete=False))

    def _close_all(self, out: list[Event], *, incomplete: bool) -> None:
        for block_id, family in list(self._open.items()):
            broken = incomplete or family == "tool-input"
            out.append(_close(family, block_id, incomplete=broken))
        self._open.clear()
        self._open_texts.clear()
