"""Calls of the caller's tools in a Gemini response: in one piece, or streamed value by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.gemini.partial_args import ArgumentsText
from llmstream.dialects.gemini.wire import FunctionCall
from llmstream.errors import DecodeError
from llmstream.events import Metadata

__all__ = ["FunctionCalls"]

_encode = msgspec.json.Encoder().encode


class OpenCall(Block):
    """A call whose arguments are still streaming, until it is `over`."""

    text: ArgumentsText = msgspec.field(default_factory=ArgumentsText)
    over: bool = False


class _OpenCalls:
    """The calls whose arguments are streaming, by order and by id.

    Each call is added and removed once, so that many calls take linear time.
    """

    def __init__(self) -> None:
        self._latest: list[OpenCall] = []
        self._unnamed: list[OpenCall] = []
        self._by_wire_id: dict[str, list[OpenCall]] = {}

    def add(self, opened: OpenCall) -> None:
        """Adds a call."""
        self._latest.append(opened)
        if not opened.wire_id:
            self._unnamed.append(opened)
        else:
            self._by_wire_id.setdefault(opened.wire_id, []).append(opened)

    def latest(self, wire_id: str | None) -> OpenCall | None:
        """Returns the open call that began last, of all or with an id."""
        calls = self._latest if wire_id is None else self._by_wire_id.get(wire_id, [])
        # A call that ended stays in the list until it is the last one: removing it from the middle would
        # search.
        while calls and calls[-1].over:
            calls.pop()
        return calls[-1] if calls else None

    def end(self, opened: OpenCall) -> None:
        """Marks a call as complete."""
        opened.over = True
        for wire_id in {None, opened.wire_id or None}:
            # Drops the complete ones.
            self.latest(wire_id)

    def take(self, *, named: bool) -> list[OpenCall]:
        """Removes and returns open calls: those without an id, or all."""
        calls = self._latest if named else self._unnamed
        if not calls:
            return []
        open_calls = [opened for opened in calls if not opened.over]
        self._unnamed = []
        if named:
            self._latest, self._by_wire_id = [], {}
        for opened in open_calls:
            opened.over = True
        return open_calls


class FunctionCalls:
    """The calls of one response, as blocks.

    new_call_id: makes the ids of calls that come without one
    """

    def __init__(
        self, reader: PayloadDecoder[Any], blocks: Blocks[Block], new_call_id: Callable[[], str]
    ) -> None:
        self._reader = reader
        self._blocks = blocks
        self._new_call_id = new_call_id
        self._streaming = _OpenCalls()
        self._before: frozenset[str] = frozenset()  # ids of the responses before this one

    def read(self, call: FunctionCall, metadata: Metadata | None) -> None:
        """Reads a call, or more of one that is streaming."""
        wire_id = None if call.id is None or call.id == "" else str(call.id)
        if call.name and wire_id in self._before:
            self._repeated(call, wire_id)
            return
        if call.name:
            # Another call begins: the ones before it are complete, unless ids distinguish them.
            for opened in self._streaming.take(named=wire_id is None):
                self._complete(opened)
            self._begin(call, wire_id, metadata)
            return
        open_call = self._streaming.latest(wire_id)
        if open_call is None:
            if call.args is not None or call.partial_args:
                self._reader.defect("a function call came without a name. It was left out.")
            return
        if metadata is not None:
            known = open_call.metadata or {}
            # What came first wins: a later fragment may add metadata, but not replace any.
            open_call.metadata = {key: {**own, **known.get(key, {})} for key, own in metadata.items()}
        self._continue(open_call, call)

    def expect_repeats(self) -> None:
        """Prepares for another response, which may repeat calls of this one."""
        self._before = self._blocks.ids.names()

    def complete_all(self) -> None:
        """Completes all calls at the end of the response."""
        # Vertex AI may omit the end of the last call.
        for opened in self._streaming.take(named=True):
            self._complete(opened)

    def _begin(self, call: FunctionCall, wire_id: str | None, metadata: Metadata | None) -> None:
        self._blocks.close_prose()
        call_id, name = self._blocks.fresh_id(wire_id or self._new_call_id()), call.name or ""
        if call.partial_args is None and call.will_continue is not True:
            block = Block("tool", call_id, name, metadata=metadata)
            self._blocks.complete_call(block, _argument_text(call.args))
            return
        opened = OpenCall("tool", call_id, name, wire_id or "", metadata=metadata)
        if not self._blocks.open(call_id, opened):
            return
        self._streaming.add(opened)
        if call.partial_args is not None:
            self._continue(opened, call)

    def _continue(self, opened: OpenCall, call: FunctionCall) -> None:
        """Adds values; a fragment without any means that the call is complete."""
        continues = call.will_continue is True
        for piece in call.partial_args or ():
            if piece is None:
                continue
            continues = continues or piece.will_continue is True
            if opened.text.broken:
                continue
            try:
                text = opened.text.add(piece)
            except DecodeError as error:
                # Later pieces would be put behind a hole. The call is reported as invalid, and not run with
                # what is left.
                opened.text.broken = True
                self._reader.defect(f"the arguments of {opened.name!r} cannot be joined: {error.message}")
            else:
                if text:
                    self._blocks.input(opened, text)
            if self._reader.done:
                return
        if not continues:
            self._streaming.end(opened)
            self._complete(opened)

    def _repeated(self, call: FunctionCall, wire_id: str | None) -> None:
        """A call that was still open continues; one that was complete has been emitted."""
        opened = self._streaming.latest(wire_id)
        if opened is not None and call.args is None:
            self._continue(opened, call)

    def _complete(self, opened: OpenCall) -> None:
        rest = opened.text.close()
        if rest:
            self._blocks.input(opened, rest)
        opened.invalid = opened.text.broken
        self._blocks.close(opened.id)


def _argument_text(args: Any) -> str:
    """Returns the arguments as JSON text; a string is already JSON text."""
    if args is None:
        return ""
    return args if isinstance(args, str) else _encode(args).decode()
