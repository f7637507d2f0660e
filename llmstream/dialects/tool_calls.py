"""Assembles tool calls from the fragments servers send, whatever they leave out or repeat.

A fragment names its call by index, by id, by name, or by nothing. Servers omit each of them,
put all calls at index 0, give every fragment a new id, or repeat the name; the rules below
tell these apart, and what cannot be told apart is an error, never a guess.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.json_text import without_lone_surrogates
from llmstream.errors import DecodeError, LimitExceeded
from llmstream.events import Event, Metadata, ToolCall, ToolInputDelta, ToolInputEnd, ToolInputStart
from llmstream.events.types import merge_metadata
from llmstream.unique_ids import UniqueIds

__all__ = [
    "CUSTOM_CALL",
    "OpenCall",
    "ToolCallTracker",
    "as_id",
    "is_json",
    "json_input",
    "json_text",
    "mint_call_id",
    "plain_input",
]


# What a fragment of a tool call says, whatever types a server gives it, and a call as far as it has come.

_STRUCTURE: Final = re.compile(r'["{}\[\]]|\\.?', re.DOTALL)

CUSTOM_CALL: Final = "custom_tool_call"
"""The `type` that metadata gives to a call whose input is plain text, as OpenAI's custom tools have it."""


def mint_call_id() -> str:
    """An id for a call that came without one, unique across responses."""
    return f"call_{secrets.token_hex(12)}"


def is_json(text: str) -> bool:
    """Whether text is one JSON value."""
    try:
        msgspec.json.decode(text)
    except UnicodeEncodeError:  # halves of characters, which are joined before anybody sees them
        return is_json(without_lone_surrogates(text))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


class _Nesting:
    """The brackets and quotes of a JSON text that is still coming; looks at each piece once.

    broken: it will never be a JSON value
    """

    def __init__(self) -> None:
        self.broken = False
        self._seen = 0
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def is_open_after(self, pieces: list[str]) -> bool:
        """Whether a bracket or a quote is open behind the last of these pieces."""
        for piece in pieces[self._seen :]:
            self._look_at(piece)
        self._seen = len(pieces)
        return self._quoted or self._depth > 0

    def _look_at(self, piece: str) -> None:
        start = 1 if self._escaped and piece else 0
        self._escaped = self._escaped and not piece
        for found in _STRUCTURE.finditer(piece, start):
            sign = found[0]
            if sign[0] == "\\":
                self._escaped = len(sign) == 1
            elif sign == '"':
                self._quoted = not self._quoted
            elif not self._quoted:
                self._depth += 1 if sign in "{[" else -1


class OpenCall:
    """One call as far as it has come.

    wire_id: the first id the server gave; id: ours, set when the input starts to stream
    pieces:  the input so far, size: its bytes, chars: its length
    index:   where it stood first; touched: the chunk that last named it
    placeholder: the text `null` came first; it is the input only if nothing follows
    custom:  metadata of a call whose input is plain text, not JSON; None of all others
    """

    __slots__ = (
        "chars",
        "closed",
        "custom",
        "id",
        "index",
        "metadata",
        "name",
        "nesting",
        "pieces",
        "placeholder",
        "size",
        "touched",
        "wire_id",
    )

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.wire_id: str | None = None
        self.id: str | None = None
        self.name: str | None = None
        self.pieces: list[str] = []
        self.size = 0
        self.chars = 0
        self.nesting: _Nesting | None = None
        self.closed = False
        self.placeholder = False
        self.metadata: Metadata | None = None
        self.custom: Metadata | None = None
        self.touched = -1

    @property
    def input(self) -> str:
        """The input so far."""
        return "".join(self.pieces)

    def has_input(self, text: str) -> bool:
        """Whether this text is the input so far."""
        return len(text) == self.chars and text == self.input

    def is_whole(self) -> bool:
        """Whether the input is one JSON value by now; asked after every piece, it costs as much as once."""
        if self.nesting is None:
            self.nesting = _Nesting()
        if self.nesting.broken or self.nesting.is_open_after(self.pieces):
            return False
        self.nesting.broken = not is_json(self.input)  # what is no value with all closed never becomes one
        return not self.nesting.broken

    def could_be_whole(self) -> bool:
        """A cheap necessary sign: no JSON goes on with `{` right after `}`."""
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith("}")


def json_text(arguments: object) -> str:
    """Arguments as JSON text: text as it is, null and {} as nothing, any other value written out."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None or arguments == {}:
        return ""
    try:
        return msgspec.json.encode(arguments).decode()
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(arguments)


def plain_input(text: str, metadata: Metadata | None) -> str | None:
    """The input of a call that some vendor marks as custom; None of all others."""
    for own in (metadata or {}).values():
        if isinstance(own, dict) and own.get("type") == CUSTOM_CALL:
            return str(own.get("input", text))
    return None


def json_input(text: str, metadata: Metadata | None) -> str:
    """The input of a call for a server that takes JSON only: plain text becomes `{"input": "the text"}`."""
    plain = plain_input(text, metadata)
    if plain is None:
        return text or "{}"
    return json.dumps({"input": plain}, ensure_ascii=False, separators=(",", ":"))


def as_id(value: Any) -> str | None:
    """The id of a call; null, "" and "null" mean that there is none."""
    if isinstance(value, str):
        return value if value not in ("", "null") else None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def as_index(value: Any) -> int | None:
    """The index of a call, also where it came as text or as 0.0."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) else None


_SLOT_BYTES: Final = 8
_NAME_BYTES: Final = 200  # places in a set and a dict
_CALL_BYTES: Final = 700  # the call itself and its places in lists and dicts


class ToolCallTracker:
    """Fragments in, events of tool calls out.

    A call ends when the next one begins and its own input is complete JSON by then (looked at
    once, at that moment); all others end at `finish`. Each fragment costs O(1).

    ids:     those of the answer, where blocks and sources have some; a call takes none of them

    started: how many inputs have begun to stream
    called:  how many calls have been given out
    """

    def __init__(
        self,
        *,
        limits: StreamLimits = StreamLimits(),
        new_id: Callable[[], str] = mint_call_id,
        reserved: Callable[[str], bool] = lambda call_id: False,
        ids: UniqueIds | None = None,
    ) -> None:
        self.started = 0
        self.called = 0
        self.ids = UniqueIds() if ids is None else ids
        self._limits = limits
        self._new_id = new_id
        self._reserved = reserved
        self._calls: list[OpenCall] = []
        self._open: dict[OpenCall, None] = {}
        self._by_index: dict[int, OpenCall] = {}
        self._by_id: dict[str, OpenCall] = {}
        self._batch = 0
        self._held = 0

    def next_chunk(self) -> None:
        """The fragments that follow came in one chunk: whole calls among them are not repetitions."""
        self._batch += 1

    def add(
        self,
        *,
        index: object = None,
        id: object = None,
        name: str | None = None,
        arguments: object = None,
        metadata: Metadata | None = None,
        custom: Metadata | None = None,
    ) -> list[Event]:
        """The events that one fragment gives.

        index, id: as on the wire; null, "" and "null" mean that there is none
        arguments: a piece of JSON text, or a whole JSON value; null and {} say nothing
        custom:    marks a call whose input is plain text: metadata of its start and of the call

        raises: DecodeError where no rule says which call it belongs to, LimitExceeded
        """
        if not id and not name and metadata is None and type(index) is int and type(arguments) is str:
            known = self._by_index.get(index)  # the common case: another piece of a call that streams
            if known is not None and known.pieces and known.id is not None and not known.closed:
                if not arguments:
                    return []
                self._grow(known, arguments)
                return [ToolInputDelta(arguments, known.id)]
        out: list[Event] = []
        text = json_text(arguments)
        wire_id = as_id(id)
        call = self._find(as_index(index), wire_id, name or None, text, out)
        if call is None:
            return out
        if wire_id and call.wire_id is None:
            call.wire_id = wire_id
        if wire_id:
            if wire_id not in self._by_id:
                self._hold(sys.getsizeof(wire_id) + _NAME_BYTES)
            self._by_id[wire_id] = call
        if name and call.name is None:
            call.name = without_lone_surrogates(name)
        if metadata is not None:
            call.metadata = metadata
        if custom is not None:
            call.custom = custom
        if name:
            call.touched = self._batch
        self._take(call, text, out)
        return out

    def finish(
        self, *, truncated: bool = False, in_one_piece: bool = False, keep_cut: bool = False
    ) -> list[Event]:
        """The vendor has said that the answer is over: ends what is open, in index order.

        truncated:    the answer was cut (by length or a filter): nothing says that what is open was meant
                      to end here, so it is dropped, also where its input happens to be whole JSON
        in_one_piece: the wire never sends a call in fragments, so one whose input is whole is kept
        keep_cut:     what would be dropped is given as an invalid call instead
        """
        out: list[Event] = []
        for call in sorted(self._open, key=lambda call: -1 if call.index is None else call.index):
            self._end(call, out, truncated=truncated, in_one_piece=in_one_piece, keep_cut=keep_cut)
        return out

    def nameless(self) -> bool:
        """Whether a call came whose name never did."""
        return any(call.name is None and (call.pieces or call.wire_id) for call in self._calls)

    def _find(
        self, index: int | None, wire_id: str | None, name: str | None, text: str, out: list[Event]
    ) -> OpenCall | None:
        """The call that a fragment belongs to; a new one where it starts one; None to leave it out."""
        if index is None:
            last = self._calls[-1] if self._calls else None
            call = self._by_id.get(wire_id) if wire_id else None
            if call is None and wire_id and name and (last is None or last.wire_id is not None):
                return self._begin(None, out)
            call = call or last
        else:
            call = self._by_index.get(index)
            if call is None:
                return self._at_new_index(index, wire_id, name, text, out)
        if call is None:
            return self._begin(index, out) if name or wire_id or text.strip() else None
        if name and self._is_another(call, index, wire_id, name, text):
            return self._begin(index, out)
        if name and text and call.could_be_whole() and call.has_input(text):
            return None  # the whole call once more
        if call.closed:
            return self._after_end(call, index, wire_id, text, out)
        return call

    def _at_new_index(
        self, index: int, wire_id: str | None, name: str | None, text: str, out: list[Event]
    ) -> OpenCall | None:
        """A first sight of an index: a call's head, or a stray tail (agno #8880, dirac #215)."""
        if name is None:
            call = self._by_id.get(wire_id) if wire_id else None
            if call is None and wire_id is None:
                if not self._calls and text.strip():
                    return self._begin(index, out)
                if not text.strip():
                    return None
                call = self._only_unfinished(f"index {index}, which no call has")
            if call is not None:
                self._by_index[index] = call
                return None if call.closed and not text.strip() else call
        return self._begin(index, out)

    def _is_another(
        self, call: OpenCall, index: int | None, wire_id: str | None, name: str, text: str
    ) -> bool:
        """Whether a named fragment at a known place starts a call of its own."""
        if wire_id is not None and call.wire_id is not None and wire_id != call.wire_id:
            return True
        if call.name is None:
            return False
        if name != call.name and (wire_id is None or call.wire_id is None):
            return True
        if call.touched == self._batch and (index is None or wire_id is None):
            return True
        if name == call.name and not text.lstrip().startswith("{"):
            return False
        return call.could_be_whole() and not call.has_input(text) and call.is_whole()

    def _after_end(
        self, call: OpenCall, index: int | None, wire_id: str | None, text: str, out: list[Event]
    ) -> OpenCall | None:
        """A nameless fragment for a call that is over: nothing, a late head, or a stray tail."""
        if wire_id is not None and wire_id not in self._by_id:
            return self._begin(index, out)
        if not text.strip():
            return None
        stray = self._only_unfinished("a call that is over")
        if index is not None:
            self._by_index[index] = stray
        return stray

    def _only_unfinished(self, where: str) -> OpenCall:
        """The one open call; with none or several, nobody can say whose the fragment is."""
        if len(self._open) != 1:
            raise DecodeError(
                f"a fragment of a tool call belongs to {where}, without an id or a name; "
                f"{len(self._open)} calls are open. It was left out."
            )
        return next(iter(self._open))

    def _begin(self, index: int | None, out: list[Event]) -> OpenCall:
        if len(self._calls) >= self._limits.max_blocks:
            raise LimitExceeded(f"the response holds more than {self._limits.max_blocks} tool calls")
        if self._calls:
            last = self._calls[-1]
            if not last.closed and last.name is not None and last.custom is None and is_json(last.input):
                self._end(last, out)
        call = OpenCall(index)
        self._calls.append(call)
        self._hold(_CALL_BYTES)
        self._open[call] = None
        if index is not None:
            self._by_index[index] = call
        return call

    def _take(self, call: OpenCall, text: str, out: list[Event]) -> None:
        """Adds a piece of input, and starts the input's events once the name is known."""
        if not call.pieces and call.custom is None and (text == "null" or not text.strip()):
            call.placeholder |= text == "null"
            text = ""  # white space before the input, or a placeholder for what comes
        if text:
            self._grow(call, text)
        if call.id is not None:
            if text:
                out.append(ToolInputDelta(text, call.id))
        elif call.name is not None and (call.wire_id is not None or call.pieces):
            self._start(call, out)

    def _grow(self, call: OpenCall, text: str) -> None:
        call.size += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if call.size > self._limits.max_tool_input_bytes:
            raise LimitExceeded(
                f"the input of the tool call {call.name!r} grew past "
                f"{self._limits.max_tool_input_bytes} bytes"
            )
        call.pieces.append(text)
        call.chars += len(text)
        self._hold(sys.getsizeof(text) + _SLOT_BYTES)

    def _hold(self, size: int) -> None:
        """Counts what is kept until the end: pieces of all inputs, ids."""
        self._held += size
        if self._held > self._limits.max_held_bytes:
            raise LimitExceeded(
                f"the inputs of the tool calls take more than {self._limits.max_held_bytes} bytes of memory"
            )

    def _start(self, call: OpenCall, out: list[Event]) -> str:
        wanted = call.wire_id and without_lone_surrogates(call.wire_id)
        if wanted is None or wanted in self.ids or self._reserved(wanted):
            wanted = self._new_id()
        self.ids.add(wanted)
        self.started += 1
        call.id = wanted
        out.append(ToolInputStart(call.name or "", wanted, provider_metadata=call.custom))
        out.extend(ToolInputDelta(piece, wanted) for piece in call.pieces)
        return wanted

    def _end(
        self,
        call: OpenCall,
        out: list[Event],
        *,
        truncated: bool = False,
        in_one_piece: bool = False,
        keep_cut: bool = False,
    ) -> None:
        call.closed = True
        del self._open[call]
        if call.name is None:
            return
        call_id = call.id or self._start(call, out)
        if call.placeholder and not call.pieces and not truncated:
            call.pieces.append("null")  # at the end nothing is refused any more
            out.append(ToolInputDelta("null", call_id))
        text = call.input
        whole = call.custom is not None or is_json(text)
        if truncated and not (whole and in_one_piece) and not keep_cut:
            out.append(ToolInputEnd(call_id, incomplete=True))
            return
        out.append(ToolInputEnd(call_id))
        invalid = not whole and (bool(text) or truncated)
        metadata = merge_metadata(call.metadata, call.custom)
        if call.custom is not None and not text:
            metadata = merge_metadata(metadata, {key: {"input": ""} for key in call.custom})
        out.append(ToolCall(call.name, text or "{}", call_id, invalid=invalid, provider_metadata=metadata))
        self.called += 1
