"""Assembles tool calls from the fragments servers send, whatever they leave out or repeat.

A fragment names its call by index, by id, by name, or not at all. Servers omit each of them, put all
calls at index 0, give every fragment a new id, or repeat the name. The rules below distinguish these
cases; an ambiguous fragment is an error, never a guess.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.json_text import without_lone_surrogates
from llmstream.dialects.payload_size import count_parts, text_size, utf8_size
from llmstream.errors import DecodeError, LimitExceeded
from llmstream.events import (
    Event,
    Metadata,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    merge_metadata,
)
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


# Values of a fragment, in any type that servers send, and an open call.

_STRUCTURE: Final = re.compile(r'["{}\[\]]|\\.?', re.DOTALL)

# The `type` in the metadata of a call whose input is plain text, as with OpenAI's custom tools.
CUSTOM_CALL: Final = "custom_tool_call"


def mint_call_id() -> str:
    """Returns an id for a call without one, unique across responses."""
    return f"call_{secrets.token_hex(12)}"


def is_json(text: str) -> bool:
    """Whether text is one JSON value."""
    try:
        msgspec.json.decode(text)
    # Split surrogates, which are joined later.
    except UnicodeEncodeError:
        return is_json(without_lone_surrogates(text))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


class _Nesting:
    """Tracks brackets and quotes of an incomplete JSON text; scans each piece once.

    broken: the text cannot become a JSON value
    """

    def __init__(self) -> None:
        self.broken = False
        self._seen = 0
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def is_open_after(self, pieces: list[str]) -> bool:
        """Whether a bracket or a quote is open after the last of these pieces."""
        # Scanned pieces are not read again, however often this is called.
        for piece in pieces[self._seen :]:
            self._scan(piece)
        self._seen = len(pieces)
        return self._quoted or self._depth > 0

    def _scan(self, piece: str) -> None:
        # The piece before ended in a backslash, so that the first character of this one is no bracket and no
        # quote.
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


class OpenCall(msgspec.Struct, eq=False):
    """One open call.

    wire_id: the server's first id; id: ours, set when the input starts to stream
    parts, counted, size, held: of the input so far, as in `GrowingInput`
    index:   its first index; touched: the latest chunk that named it
    placeholder: the text `null` came first; it is the input only if nothing follows
    custom:  metadata of a call whose input is plain text, not JSON; None of all others
    """

    index: int | None
    wire_id: str | None = None
    id: str | None = None
    name: str | None = None
    parts: list[str] = msgspec.field(default_factory=list)
    counted: int = 0
    size: int = 0
    held: int = 0
    nesting: _Nesting | None = None
    closed: bool = False
    placeholder: bool = False
    metadata: Metadata | None = None
    custom: Metadata | None = None
    touched: int = -1

    @property
    def input(self) -> str:
        """Input so far."""
        return "".join(self.parts)

    def has_input(self, text: str) -> bool:
        """Whether the input so far equals this text."""
        # The length first: to join the pieces for each fragment would take quadratic time.
        return utf8_size(text) == self.size and text == self.input

    def is_complete(self) -> bool:
        """Whether the input is one complete JSON value. All checks together are linear in the input."""
        if self.nesting is None:
            self.nesting = _Nesting()
        if self.nesting.broken or self.nesting.is_open_after(self.parts):
            return False
        # With all brackets closed, an invalid text cannot become valid.
        self.nesting.broken = not is_json(self.input)
        return not self.nesting.broken

    def could_be_complete(self) -> bool:
        """A cheap necessary condition: no JSON has `{` directly after `}`."""
        return bool(self.parts) and self.parts[-1].rstrip().endswith("}")


def json_text(arguments: object) -> str:
    """Converts arguments to JSON text: text unchanged, null and {} as "", any other value encoded."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None or arguments == {}:
        return ""
    try:
        return msgspec.json.encode(arguments).decode()
    # Half a character, or an integer past 64 bits, which msgspec does not write.
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(arguments)


def plain_input(text: str, metadata: Metadata | None) -> str | None:
    """Returns the input of a custom call; None for all others."""
    for own in (metadata or {}).values():
        if isinstance(own, dict) and own.get("type") == CUSTOM_CALL:
            return str(own.get("input", text))
    return None


def json_input(text: str, metadata: Metadata | None) -> str:
    """Returns the input for a server that takes only JSON: plain text becomes `{"input": "the text"}`."""
    plain = plain_input(text, metadata)
    if plain is None:
        return text or "{}"
    return json.dumps({"input": plain}, ensure_ascii=False, separators=(",", ":"))


def as_id(value: Any) -> str | None:
    """Reads the id of a call; null, "" and "null" mean that there is none."""
    if isinstance(value, str):
        return value if value not in ("", "null") else None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def as_index(value: Any) -> int | None:
    """Reads the index of a call, also from text or 0.0."""
    if type(value) is int:  # as nearly all
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) else None


# Memory of places in a CPython set and dict.
_NAME_BYTES: Final = 200

# Memory of the call, and of its places in lists and dicts.
_CALL_BYTES: Final = 700


class ToolCallTracker:
    """Assembles the tool calls of one response from fragments.

    A call ends when the next one begins and its own input is complete JSON by then (looked at
    once, at that moment); all others end at `finish`. Each fragment costs O(1).

    ids:     used ids of the response, such as of blocks and sources; a call gets none of them

    open:    calls that have not ended
    started: number of inputs that have started to stream
    called:  number of calls emitted
    """

    def __init__(
        self,
        *,
        limits: StreamLimits = StreamLimits(),
        new_id: Callable[[], str] = mint_call_id,
        ids: UniqueIds | None = None,
    ) -> None:
        self.started = 0
        self.called = 0
        self.ids = UniqueIds() if ids is None else ids
        self._limits = limits
        self._new_id = new_id
        self._calls: list[OpenCall] = []
        self.open: dict[OpenCall, None] = {}
        self._by_index: dict[int, OpenCall] = {}
        self._by_id: dict[str, OpenCall] = {}
        self._batch = 0
        self._held = 0

    def next_chunk(self) -> None:
        """Begins a chunk: complete calls within one chunk are not repetitions of each other."""
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
        """Adds a fragment; returns its events.

        index, id: as on the wire; null, "" and "null" mean that there is none
        arguments: a piece of JSON text, or a complete JSON value; null and {} add nothing
        custom:    marks a call whose input is plain text: metadata of its start and of the call

        raises: DecodeError if no rule assigns it to a call, LimitExceeded
        """
        if (
            not id
            and not name
            and metadata is None
            and (delta := self.continued(index, arguments)) is not None
        ):
            return [delta]
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
                self._hold(text_size(wire_id) + _NAME_BYTES)
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

    def continued(self, index: object, arguments: object) -> ToolInputDelta | None:
        """Adds another piece of a call that streams, the common case; None for any other fragment.

        raises: LimitExceeded
        """
        if type(index) is not int or type(arguments) is not str or not arguments:
            return None
        call = self._by_index.get(index)
        if call is None or not call.parts or call.id is None or call.closed:
            return None
        self._grow(call, arguments)
        return ToolInputDelta(arguments, call.id)

    # A hot loop adds the fragments of a call itself, and counts them a run at a time; see `PayloadDecoder`.

    def growing(self, index: int, piece: str, before: OpenCall | None, most: int) -> OpenCall | None:
        """Begins a run of fragments of an open call, after that of another; None for any other call.

        piece: the first of them
        most:  the possible growth, from `most_held`; if that may exceed a limit, `add` counts each fragment
        """
        if before is not None:
            self.count(before)
        call = self._by_index.get(index)
        # An input may have white space or `null` in front, see `_take`.
        if call is None or call.id is None or call.closed or not (call.parts or piece[0] == "{"):
            return None
        limits = self._limits
        fits = self._held + most <= limits.max_held_bytes
        return call if fits and call.size + most <= limits.max_tool_input_bytes else None

    def count(self, call: OpenCall) -> None:
        """Counts the fragments of a call that were added since the last time.

        raises: LimitExceeded
        """
        self._hold(count_parts(call))

    def finish(
        self, *, truncated: bool = False, in_one_piece: bool = False, keep_cut: bool = False
    ) -> list[Event]:
        """Closes the open calls, in index order, at the end of the response.

        truncated:    the response was cut off (by length or a filter). Open calls are dropped, even if
                      their input happens to be complete JSON
        in_one_piece: the wire never sends a call in fragments, so a complete input is not dropped
        keep_cut:     emits invalid calls instead of dropping them
        """
        out: list[Event] = []
        for call in sorted(self.open, key=lambda call: -1 if call.index is None else call.index):
            self._end(call, out, truncated=truncated, in_one_piece=in_one_piece, keep_cut=keep_cut)
        return out

    def nameless(self) -> bool:
        """Whether a call has no name."""
        if not self._calls:  # the usual case, without a generator
            return False
        return any(call.name is None and (call.parts or call.wire_id) for call in self._calls)

    def _find(
        self, index: int | None, wire_id: str | None, name: str | None, text: str, out: list[Event]
    ) -> OpenCall | None:
        """Returns the call of a fragment, which may be new; None to ignore the fragment."""
        # Gemini's server of Chat Completions sends no index (openai/openai-python#3246): the id decides, else
        # the fragment belongs to the latest call.
        if index is None:
            last = self._calls[-1] if self._calls else None
            call = self._by_id.get(wire_id) if wire_id else None
            if call is None and wire_id and name and (last is None or last.wire_id is not None):
                return self._begin(None, out)
            call = call or last
        else:
            call = self._by_index.get(index)
            if call is None:
                if name is None:
                    return self._at_new_index(index, wire_id, text, out)
                return self._begin(index, out)
        if call is None:
            return self._begin(index, out) if name or wire_id or text.strip() else None
        if name and self._is_another(call, index, wire_id, name, text):
            return self._begin(index, out)
        # Some servers send the complete call again after its fragments.
        if name and text and call.could_be_complete() and call.has_input(text):
            return None
        if call.closed:
            return self._after_end(call, index, wire_id, text, out)
        return call

    def _at_new_index(self, index: int, wire_id: str | None, text: str, out: list[Event]) -> OpenCall | None:
        """Handles a new index without a name: the head of a call, or a stray tail."""
        # The tail of a call may come at the index of another (agno#8880, dirac#215). It is assigned only if
        # one call is open: a guess could run a tool with wrong arguments.
        call = self._by_id.get(wire_id) if wire_id else None
        if call is None and wire_id is None:
            if not self._calls and text.strip():
                return self._begin(index, out)
            if not text.strip():
                return None
            call = self._only_unfinished(f"index {index}, which belongs to no call")
        if call is None:
            return self._begin(index, out)
        self._by_index[index] = call
        return None if call.closed and not text.strip() else call

    def _is_another(
        self, call: OpenCall, index: int | None, wire_id: str | None, name: str, text: str
    ) -> bool:
        """Whether a named fragment at a known index starts a new call."""
        # A new id and a name: two calls at index 0 (dyedd/lens#49). Without a name it is the same call: GLM
        # gives each fragment a new id (zai-org/GLM-4#194).
        if wire_id is not None and call.wire_id is not None and wire_id != call.wire_id:
            return True
        if call.name is None:
            return False
        if name != call.name and (wire_id is None or call.wire_id is None):
            return True
        # Older Ollama puts parallel calls at index 0 without ids, all in one chunk (maka#1995).
        if call.touched == self._batch and (index is None or wire_id is None):
            return True
        # Servers repeat the name on every fragment; only the start of an object can begin another call.
        if name == call.name and not text.lstrip().startswith("{"):
            return False
        return call.could_be_complete() and not call.has_input(text) and call.is_complete()

    def _after_end(
        self, call: OpenCall, index: int | None, wire_id: str | None, text: str, out: list[Event]
    ) -> OpenCall | None:
        """Handles a nameless fragment of a completed call: a late head, or a stray tail."""
        if wire_id is not None and wire_id not in self._by_id:
            return self._begin(index, out)
        if not text.strip():
            return None
        stray = self._only_unfinished("a completed call")
        if index is not None:
            self._by_index[index] = stray
        return stray

    def _only_unfinished(self, where: str) -> OpenCall:
        """Returns the one open call; with none or several, the fragment is ambiguous."""
        if len(self.open) != 1:
            raise DecodeError(
                f"a fragment of a tool call is for {where} and has no id or name, while {len(self.open)} "
                "calls are open. It was ignored."
            )
        return next(iter(self.open))

    def _begin(self, index: int | None, out: list[Event]) -> OpenCall:
        if len(self._calls) >= self._limits.max_blocks:
            raise LimitExceeded(f"the response has more than {self._limits.max_blocks} tool calls")
        # Only now the last call is known to be complete: valid JSON alone does not end one (vercel/ai#13137).
        if self._calls:
            last = self._calls[-1]
            if not last.closed and last.name is not None and last.custom is None and is_json(last.input):
                self._end(last, out, is_known_json=True)
        call = OpenCall(index)
        self._calls.append(call)
        self._hold(_CALL_BYTES)
        self.open[call] = None
        if index is not None:
            self._by_index[index] = call
        return call

    def _take(self, call: OpenCall, text: str, out: list[Event]) -> None:
        """Adds a piece of input; emits its events once the name is known."""
        # White space before the input, or `null`: Groq sends it for a call without parameters, others before
        # the real input.
        if not call.parts and call.custom is None and (text == "null" or not text.strip()):
            call.placeholder |= text == "null"
            text = ""
        if text:
            self._grow(call, text)
        if call.id is not None:
            if text:
                out.append(ToolInputDelta(text, call.id))
        elif call.name is not None and (call.wire_id is not None or call.parts):
            self._start(call, out)

    def _grow(self, call: OpenCall, text: str) -> None:
        if call.size + utf8_size(text) > self._limits.max_tool_input_bytes:
            raise LimitExceeded(
                f"the input of the tool call {call.name!r} grew past "
                f"{self._limits.max_tool_input_bytes} bytes"
            )
        call.parts.append(text)
        self.count(call)

    def _hold(self, size: int) -> None:
        """Counts memory held until the end: pieces of all inputs, ids."""
        self._held += size
        if self._held > self._limits.max_held_bytes:
            raise LimitExceeded(
                f"the inputs of the tool calls take more than {self._limits.max_held_bytes} bytes of memory"
            )

    def _start(self, call: OpenCall, out: list[Event]) -> str:
        # Some servers repeat ids within a response, and events are merged by id.
        wanted = call.wire_id and without_lone_surrogates(call.wire_id)
        if wanted is None or wanted in self.ids:
            wanted = self._new_id()
        self.ids.add(wanted)
        self.started += 1
        call.id = wanted
        out.append(ToolInputStart(call.name or "", wanted, provider_metadata=call.custom))
        for piece in call.parts:
            out.append(ToolInputDelta(piece, wanted))
        return wanted

    def _end(
        self,
        call: OpenCall,
        out: list[Event],
        *,
        truncated: bool = False,
        in_one_piece: bool = False,
        keep_cut: bool = False,
        is_known_json: bool = False,
    ) -> None:
        call.closed = True
        del self.open[call]
        if call.name is None:
            return
        call_id = call.id or self._start(call, out)
        if call.placeholder and not call.parts and not truncated:
            # At the end the placeholder is the input.
            call.parts.append("null")
            out.append(ToolInputDelta("null", call_id))
        text, custom = "".join(call.parts), call.custom
        complete = is_known_json or custom is not None or is_json(text)
        # A cut input may be valid JSON by chance: a call without the end of its arguments must not run.
        if truncated and not (complete and in_one_piece) and not keep_cut:
            out.append(ToolInputEnd(call_id, incomplete=True))
            return
        out.append(ToolInputEnd(call_id))
        invalid = not complete and (bool(text) or truncated)
        metadata = call.metadata
        if custom is not None:
            metadata = merge_metadata(metadata, custom)
            if not text:
                metadata = merge_metadata(metadata, {key: {"input": ""} for key in custom})
        out.append(ToolCall(call.name, text or "{}", call_id, False, False, invalid, metadata))
        self.called += 1
