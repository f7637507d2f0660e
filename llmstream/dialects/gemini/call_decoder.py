"""Calls of the caller's tools in a Gemini answer: whole, or streamed value by value."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.call_ids import mint_call_id
from llmstream.dialects.decoder import Framing
from llmstream.dialects.gemini.partial_args import ArgumentsText
from llmstream.dialects.gemini.wire import Chunk, FunctionCall, decode_chunk
from llmstream.dialects.json_text import is_json
from llmstream.dialects.lazy_blocks import LazyBlocks
from llmstream.errors import DecodeError, LimitExceeded
from llmstream.events import Metadata, ToolCall, ToolInputDelta, ToolInputEnd, ToolInputStart
from llmstream.unique_ids import UniqueIds

__all__ = ["CallDecoder"]

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
