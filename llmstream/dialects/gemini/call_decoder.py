"""Calls of the caller's tools in a Gemini answer: whole, or streamed value by value."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import LazyBlocks
from llmstream.dialects.call_ids import mint_call_id
from llmstream.dialects.decoder import Framing
from llmstream.dialects.gemini.wire import Chunk, FunctionCall, PartialArg, decode_chunk
from llmstream.dialects.json_text import is_json, without_lone_surrogates
from llmstream.errors import DecodeError, LimitExceeded
from llmstream.events import Metadata, ToolCall, ToolInputDelta, ToolInputEnd, ToolInputStart
from llmstream.unique_ids import UniqueIds

__all__ = ["ArgumentsText", "CallDecoder", "parse_path"]


# Arguments that stream as values at JSON paths, rebuilt as the JSON text they belong to.
#
# wire    {"jsonPath": "$.stops[0].name", "stringValue": "Os", "willContinue": true}
#         {"jsonPath": "$.stops[0].name", "stringValue": "lo"}
# text    {"stops":[{"name":"Os
#         lo"
#
# The text only grows, so a path may not go back to what was closed. Vertex AI sends paths in
# document order; what comes otherwise is refused.
# source: "Streaming function call arguments" in the reference of Vertex AI

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]]+)|\[(?P<index>\d{1,9})\]|\[(?:'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\]"""
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_MAX_GAP: Final = 1000  # elements of a list that are left out become null, up to so many
_MAX_DEPTH: Final = 500


def parse_path(path: str) -> list[str | int]:
    """Names and indexes of a path such as `$.a[0]['b c']`.

    raises: DecodeError where it is no such path
    """
    at = 1 if path.startswith("$") else 0
    text = path if at else f".{path}"
    steps: list[str | int] = []
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise DecodeError(f"{path!r} is no JSON path")
        index = found["index"]
        if index is not None:
            steps.append(int(index))
        else:
            quoted = found["single"] if found["single"] is not None else found["double"]
            steps.append(found["name"] if quoted is None else _ESCAPE.sub(r"\1", quoted))
        at = found.end()
    if len(steps) > _MAX_DEPTH:
        raise DecodeError("the path of an argument is nested too deeply")
    return steps


class _Container:
    """An object or list that is still open: the step it grew by last, and all names it has."""

    __slots__ = ("is_list", "last", "names")

    def __init__(self, first: str | int) -> None:
        self.is_list = isinstance(first, int)
        self.last: str | int | None = None
        self.names: set[str] = set()

    def enter(self, step: str | int) -> str:
        """Goes on to another element; the text that stands before its value."""
        comma = "" if self.last is None else ","
        if isinstance(step, int):
            gap = step - (self.last if isinstance(self.last, int) else -1) - 1
            if not self.is_list or gap < 0 or gap > _MAX_GAP:
                raise DecodeError(f"element {step} of a list came out of order")
            self.last = step
            return comma + "null," * gap
        if self.is_list or step in self.names:
            raise DecodeError(f"the value of {step!r} came out of order")
        self.names.add(step)
        self.last = step
        return f"{comma}{_quoted(step)}:"

    @property
    def end(self) -> str:
        """What closes it."""
        return "]" if self.is_list else "}"


class ArgumentsText:
    """The text of one call's arguments, piece by piece.

    broken: something came out of order; the text says what was understood
    """

    def __init__(self) -> None:
        self.broken = False
        self._open: list[_Container] = []
        self._path: list[str | int] | None = None
        self._in_string = False
        self._half = ""  # of a character, at the end of the last piece of a string

    def add(self, piece: PartialArg) -> str:
        """The text that a piece adds.

        raises: DecodeError where it has no place; the text stays as it is
        """
        value = _literal(piece)
        if piece.string_value is None and value is None:
            return ""
        path = parse_path(piece.json_path or "$")
        if piece.string_value is None:
            return self._go_to(path) + (value or "")
        out = ""
        if not (self._in_string and path == self._path):
            out = self._go_to(path) + '"'
            self._in_string = True
        out += self._piece(piece.string_value)
        return out if piece.will_continue else out + self._end_string()

    def close(self) -> str:
        """The text that ends all that is open; `{}` where nothing came at all."""
        if self._path is None:
            return "{}"
        out = self._end_string()
        while self._open:
            out += self._open.pop().end
        return out

    def _go_to(self, path: list[str | int]) -> str:
        """Ends what is open beside the path, and opens what leads there."""
        try:
            return self._moved(path)
        except DecodeError:
            self.broken = True
            raise

    def _moved(self, path: list[str | int]) -> str:
        known = self._path
        if known is None:
            _check_gaps(path)
            self._path = path
            return "".join(self._opened(step) for step in path)
        common = 0
        while common < min(len(known), len(path)) and known[common] == path[common]:
            common += 1
        if common == len(path) or common == len(known):
            raise DecodeError(f"the value at {path} came twice, or inside another")
        _check_gaps(path[common + 1 :])
        entered = self._open[common].enter(path[common])
        out = self._end_string()
        while len(self._open) > common + 1:
            out += self._open.pop().end
        self._path = path
        return out + entered + "".join(self._opened(step) for step in path[common + 1 :])

    def _opened(self, step: str | int) -> str:
        container = _Container(step)
        self._open.append(container)
        return ("[" if container.is_list else "{") + container.enter(step)

    def _piece(self, text: str) -> str:
        text = self._half + text
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._half, text = text[-1], text[:-1]
        return _quoted(text)[1:-1]

    def _end_string(self) -> str:
        if not self._in_string:
            return ""
        self._in_string = False
        half, self._half = self._half, ""
        return '\ufffd"' if half else '"'


def _check_gaps(path: list[str | int]) -> None:
    if any(isinstance(step, int) and step > _MAX_GAP for step in path):
        raise DecodeError(f"a list begins with more than {_MAX_GAP} elements left out")


def _quoted(text: str) -> str:
    return json.dumps(without_lone_surrogates(text), ensure_ascii=False)


def _literal(piece: PartialArg) -> str | None:
    """The JSON text of a value that is no string; None where there is none."""
    if piece.number_value is not None:
        if isinstance(piece.number_value, str):  # NaN and Infinity, which JSON has no numbers for
            return _quoted(piece.number_value)
        return msgspec.json.encode(piece.number_value).decode()
    if piece.bool_value is not None:
        return "true" if piece.bool_value else "false"
    return None if piece.null_value is msgspec.UNSET else "null"


_SLOT_BYTES: Final = 8
_encode = msgspec.json.Encoder().encode


class _OpenCall(msgspec.Struct):
    """A call whose arguments are still streaming, until it is `over`."""

    id: str
    wire_id: str | None
    name: str
    metadata: Metadata | None
    text: ArgumentsText = msgspec.field(default_factory=ArgumentsText)
    parts: list[str] = msgspec.field(default_factory=list)
    size: int = 0
    held: int = 0
    over: bool = False


class _OpenCalls:
    """The calls whose arguments stream: in the order of their beginning, and the latest of each id.

    Each call is put in and taken out once, whichever of them the next values are for.
    """

    def __init__(self) -> None:
        self._latest: list[_OpenCall] = []
        self._unnamed: list[_OpenCall] = []
        self._by_wire_id: dict[str, list[_OpenCall]] = {}

    def add(self, opened: _OpenCall) -> None:
        """A call begins."""
        self._latest.append(opened)
        if opened.wire_id is None:
            self._unnamed.append(opened)
        else:
            self._by_wire_id.setdefault(opened.wire_id, []).append(opened)

    def latest(self, wire_id: str | None) -> _OpenCall | None:
        """The one that began last, of all or of an id."""
        calls = self._latest if wire_id is None else self._by_wire_id.get(wire_id, [])
        while calls and calls[-1].over:
            calls.pop()
        return calls[-1] if calls else None

    def end(self, opened: _OpenCall) -> None:
        """A call is over."""
        opened.over = True
        for wire_id in {None, opened.wire_id}:
            self.latest(wire_id)  # which lets go of those that are over

    def take(self, *, named: bool) -> list[_OpenCall]:
        """Those that are over now: the ones without an id, or all."""
        calls = self._latest if named else self._unnamed
        open_calls = [opened for opened in calls if not opened.over]
        self._unnamed = []
        if named:
            self._latest, self._by_wire_id = [], {}
        for opened in open_calls:
            opened.over = True
        return open_calls


class CallDecoder(LazyBlocks[Chunk]):
    """The part of the decoder that knows calls, and the ids of everything.

    client_called: whether the caller has calls to run
    new_call_id:   names calls that come without an id
    """

    def __init__(
        self,
        framing: Framing,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        new_call_id: Callable[[], str] = mint_call_id,
    ) -> None:
        super().__init__(framing, decode_chunk, provider=provider, include_raw=include_raw, limits=limits)
        self.client_called = False
        self.new_call_id = new_call_id
        self._streaming = _OpenCalls()
        self._used = UniqueIds(hold=self.hold)
        self._before: frozenset[str] = frozenset()  # ids of the responses before this one

    def next_id(self) -> str:
        """The next block id."""
        return self.fresh(super().next_id())

    def end_prose(self) -> None:
        """Closes the open text or reasoning."""
        self.end_reasoning()
        self.end_text()

    def fresh(self, wish: str) -> str:
        """An id that nothing else in the answer has, as near to the wish as can be."""
        name = self._used.fresh(wish)
        if len(self._used) > self.limits.max_blocks:
            self.fail(LimitExceeded(f"the answer has more than {self.limits.max_blocks} blocks and calls"))
        return name

    def function_call(self, call: FunctionCall, metadata: Metadata | None) -> None:
        """A call, or more of the one that streams."""
        wire_id = None if call.id is None or call.id == "" else str(call.id)
        if call.name and wire_id in self._before:
            self._repeated(call, wire_id)
            return
        if call.name:
            self._end_streaming(beside=wire_id)
            self._begin_call(call, wire_id, metadata)
            return
        open_call = self._streaming.latest(wire_id)
        if open_call is None:
            if call.args is not None or call.partial_args:
                self.defect("a function call came without a name. It was left out.")
            return
        if metadata is not None:
            known = open_call.metadata or {}
            open_call.metadata = {key: {**told, **known.get(key, {})} for key, told in metadata.items()}
        self._continue_call(open_call, call)

    def _begin_call(self, call: FunctionCall, wire_id: str | None, metadata: Metadata | None) -> None:
        self.end_prose()
        opened = _OpenCall(self.fresh(wire_id or self.new_call_id()), wire_id, call.name or "", metadata)
        self.out.append(ToolInputStart(opened.name, opened.id, provider_metadata=metadata))
        if call.partial_args is None and call.will_continue is not True:
            self._add_input(opened, _argument_text(call.args))
            if not self.done:
                self._complete(opened)
            return
        self._streaming.add(opened)
        if call.partial_args is not None:
            self._continue_call(opened, call)

    def _continue_call(self, opened: _OpenCall, call: FunctionCall) -> None:
        """More values, or nothing at all, which says that the call is complete."""
        goes_on = call.will_continue is True
        for piece in call.partial_args or ():
            if piece is None:
                continue
            goes_on = goes_on or piece.will_continue is True
            if opened.text.broken:
                continue
            try:
                self._add_input(opened, opened.text.add(piece))
            except DecodeError as error:
                opened.text.broken = True
                self.defect(f"the arguments of {opened.name!r} cannot be put together: {error.message}")
            if self.done:
                return
        if not goes_on:
            self._streaming.end(opened)
            self._complete_streamed(opened)

    def expect_repeats(self) -> None:
        """Another response continues the answer; a call that is repeated there is no second one."""
        self._before = self._used.names()

    def _repeated(self, call: FunctionCall, wire_id: str | None) -> None:
        """A call that was still open continues; one that was complete has been emitted."""
        opened = self._streaming.latest(wire_id)
        if opened is not None and call.args is None:
            self._continue_call(opened, call)

    def _end_streaming(self, *, beside: str | None) -> None:
        """Another call begins: those before it are over, unless ids keep them apart."""
        for opened in self._streaming.take(named=beside is None):
            self._complete_streamed(opened)

    def end_calls(self, *, truncated: bool) -> None:
        """The answer is over. Vertex AI may leave out the end of the last call."""
        for opened in self._streaming.take(named=True):
            if truncated:
                self.out.append(ToolInputEnd(opened.id, incomplete=True))
            else:
                self._complete_streamed(opened)

    def _complete_streamed(self, opened: _OpenCall) -> None:
        self._add_input(opened, opened.text.close())
        if not self.done:
            self._complete(opened)

    def _add_input(self, opened: _OpenCall, delta: str) -> None:
        if not delta:
            return
        opened.parts.append(delta)
        opened.held += sys.getsizeof(delta) + _SLOT_BYTES
        self.hold(sys.getsizeof(delta) + _SLOT_BYTES)
        opened.size += len(delta)
        self.out.append(ToolInputDelta(delta, opened.id))
        limit = self.limits.max_tool_input_bytes
        if opened.size > limit:
            self.fail(LimitExceeded(f"the input of {opened.name!r} is longer than {limit} bytes"))

    def _complete(self, opened: _OpenCall) -> None:
        self.client_called = True
        self.let_go(opened.held)
        text = "".join(opened.parts) or "{}"
        self.out.append(ToolInputEnd(opened.id))
        self.out.append(
            ToolCall(
                opened.name,
                text,
                opened.id,
                invalid=opened.text.broken or not is_json(text),
                provider_metadata=opened.metadata,
            )
        )


def _argument_text(args: Any) -> str:
    """The arguments as JSON text; a string is the text itself."""
    if args is None:
        return ""
    return args if isinstance(args, str) else _encode(args).decode()
