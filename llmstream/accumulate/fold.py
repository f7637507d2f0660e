"""The pure fold: what each event does to the message that a response becomes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any, Final

from llmstream import events as ev
from llmstream.accumulate.blocks import OWN_KEY, Block, Input, file_part, result_part, source_part
from llmstream.chats.content import Custom, Part, Reasoning, Text, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.errors import ErrorInfo
from llmstream.usage import Usage

__all__ = ["Fold"]

_DELTAS: Final = frozenset({ev.TextDelta, ev.ReasoningDelta, ev.ToolInputDelta})


class Fold:
    """State of one response, and `feed`. `Accumulator` is this with its public views.

    usage:             as in `finish`; all None before
    finish_reason:     None before `finish`
    raw_finish_reason: the vendor's own word
    error:             the first one, or None
    warnings:          of `stream-start`
    response_id:       what the vendor calls the response, and the model in `model_id`
    timestamp:         when the vendor made it

    Blocks that are open have a writer in `_sinks`, so a delta costs a lookup and a write.
    """

    def __init__(self, sender: str) -> None:
        self.sender = sender
        self._reset()

    def _reset(self) -> None:
        self.usage = Usage()
        self.finish_reason: ev.FinishReason | None = None
        self.raw_finish_reason: str | None = None
        self.error: ErrorInfo | None = None
        self.warnings: list[ev.Warning] = []
        self.response_id: str | None = None
        self.model_id: str | None = None
        self.timestamp: datetime.datetime | None = None
        self._metadata: dict[str, Any] | None = None
        self._message: Message | None = None
        self._parts: tuple[Part, ...] | None = None
        self._step = 0
        self._step_begin = 0  # where in _order the current step begins
        self._step_error: ErrorInfo | None = None  # what had failed before it
        self._forget_content()

    def _forget_content(self) -> None:
        self._order: list[Block | Input | Part] = []
        self._sinks: dict[str, Callable[[str], object]] = {}  # writers of the open blocks
        self._blocks: dict[str, Block] = {}
        self._inputs: dict[str, Input] = {}
        self._vendor_results: dict[str, int] = {}  # call id -> place in _order
        self._results: dict[str, ToolResult] = {}  # of client calls

    def _all_parts(self) -> tuple[Part, ...]:
        if self._parts is None:
            found = (slot.part() if isinstance(slot, Block | Input) else slot for slot in self._order)
            self._parts = tuple([part for part in found if part is not None])
        return self._parts

    def feed(self, event: ev.Event) -> None:
        """Folds one event."""
        delta: Any = event  # a set lookup narrows no type
        if type(delta) in _DELTAS and delta.provider_metadata is None:
            write = self._sinks.get(delta.id)
            if write is not None:
                self._parts = None
                write(delta.delta)
                return
        self.feed_many((event,))

    def feed_many(self, events: Iterable[ev.Event]) -> None:
        """Folds events in order; for a batch, much cheaper than `feed` for each."""
        deltas = _DELTAS
        untyped: Iterable[Any] = events  # a set lookup narrows no type
        last: type | None = None  # the kind of the delta before, its block, and where it went
        block_id = ""
        write: Any = None
        try:
            for event in untyped:
                kind = type(event)
                if kind is last and event.id is block_id and event.provider_metadata is None:
                    write(event.delta)
                    continue
                last = None
                if kind in deltas and event.provider_metadata is None:
                    write = self._sinks.get(event.id)
                    if write is not None:
                        write(event.delta)
                        last, block_id = kind, event.id
                        continue
                fold = _FOLDS.get(kind)
                if fold is not None and (self.finish_reason is None or kind is ev.StreamStart):
                    fold(self, event)
        finally:
            self._parts = None

    def _on_start(self, event: ev.StreamStart) -> None:
        self._reset()
        self.warnings = list(event.warnings)

    def _on_open(self, event: ev.TextStart | ev.ReasoningStart) -> None:
        part_type = Text if type(event) is ev.TextStart else Reasoning
        self._open(event.id, part_type).merge(event.provider_metadata)

    def _on_delta(self, event: ev.TextDelta | ev.ReasoningDelta) -> None:
        block = self._blocks.get(event.id)
        if block is None or block.closed:  # never opened, or closed too early
            block = self._open(event.id, Text if type(event) is ev.TextDelta else Reasoning)
        block.write(event.delta)
        block.merge(event.provider_metadata)

    def _on_close(self, event: ev.TextEnd | ev.ReasoningEnd) -> None:
        block = self._blocks.get(event.id)
        if block is not None:
            block.merge(event.provider_metadata)
            block.closed = True
            self._sinks.pop(event.id, None)

    def _open(self, block_id: str, part_type: type[Text] | type[Reasoning]) -> Block:
        block = Block(part_type, None)
        self._order.append(block)
        self._blocks[block_id] = block
        self._sinks[block_id] = block.write
        return block

    def _on_input_start(self, event: ev.ToolInputStart) -> None:
        found = self._inputs.get(event.id)
        if found is not None and found.part() is not None:
            return  # an id stands for one call
        opened = self._inputs[event.id] = Input(event.provider_metadata)
        if found is None:
            self._order.append(opened)
        else:
            self._order[self._order.index(found)] = opened
        self._sinks[event.id] = opened.write

    def _on_input_delta(self, event: ev.ToolInputDelta) -> None:
        if event.id in self._sinks and event.id in self._inputs:
            self._sinks[event.id](event.delta)
            self._inputs[event.id].merge(event.provider_metadata)

    def _on_input_end(self, event: ev.ToolInputEnd) -> None:
        if event.id in self._inputs:
            self._inputs[event.id].merge(event.provider_metadata)
            self._sinks.pop(event.id, None)

    def _on_call(self, event: ev.ToolCall) -> None:
        found = self._inputs.get(event.tool_call_id)
        if found is None:
            found = self._inputs[event.tool_call_id] = Input(None)
            self._order.append(found)
        self._sinks.pop(event.tool_call_id, None)
        found.complete(event)

    def _on_result(self, event: ev.ToolResult) -> None:
        part = result_part(event)
        if not event.provider_executed:
            if not event.preliminary:
                self._results[part.tool_call_id] = part
        elif part.tool_call_id in self._vendor_results:
            self._order[self._vendor_results[part.tool_call_id]] = part
        else:
            self._vendor_results[part.tool_call_id] = len(self._order)
            self._order.append(part)

    def _on_file(self, event: ev.File | ev.ReasoningFile) -> None:
        self._order.append(file_part(event))

    def _on_source(self, event: ev.Source) -> None:
        self._order.append(source_part(event))

    def _on_custom(self, event: ev.Custom) -> None:
        self._order.append(Custom(event.kind, event.provider_metadata))

    def _on_response(self, event: ev.ResponseMetadata) -> None:
        self.response_id = event.id or self.response_id
        self.model_id = event.model_id or self.model_id
        self.timestamp = event.timestamp or self.timestamp

    def _on_error(self, event: ev.ErrorEvent) -> None:
        if self.error is None:
            self.error = event.error

    def _on_step(self, event: ev.StepStart) -> None:
        self._step = event.step
        self._step_begin = len(self._order)
        self._step_error = self.error

    def _on_retry(self, event: ev.RetryNotice) -> None:
        """The current step is asked again: what it has given so far is void."""
        if event.discard_step == self._step:
            kept = self._order[: self._step_begin]
            slots = {id(slot) for slot in kept}
            inputs = {i: slot for i, slot in self._inputs.items() if id(slot) in slots}
            results = {i: result for i, result in self._results.items() if i in inputs}
            vendor = {i: at for i, at in self._vendor_results.items() if at < self._step_begin}
            self._forget_content()
            self._order, self._inputs, self._results, self._vendor_results = kept, inputs, results, vendor
            self.error = self._step_error

    def _on_finish(self, event: ev.Finish) -> None:
        self.finish_reason = event.finish_reason
        self.raw_finish_reason = event.raw_finish_reason
        self.usage = event.usage
        if event.provider_metadata:
            self._metadata = {OWN_KEY: dict(event.provider_metadata)}
        for block in self._blocks.values():
            block.closed = True
        self._sinks.clear()
        self._parts = None
        self._message = Message(self.sender, Role.ASSISTANT, self._all_parts(), self._metadata)


_FOLDS: Final[dict[type, Callable[[Fold, Any], None]]] = {
    ev.StreamStart: Fold._on_start,
    ev.TextStart: Fold._on_open,
    ev.TextDelta: Fold._on_delta,
    ev.TextEnd: Fold._on_close,
    ev.ReasoningStart: Fold._on_open,
    ev.ReasoningDelta: Fold._on_delta,
    ev.ReasoningEnd: Fold._on_close,
    ev.ToolInputStart: Fold._on_input_start,
    ev.ToolInputDelta: Fold._on_input_delta,
    ev.ToolInputEnd: Fold._on_input_end,
    ev.ToolCall: Fold._on_call,
    ev.ToolResult: Fold._on_result,
    ev.File: Fold._on_file,
    ev.ReasoningFile: Fold._on_file,
    ev.Source: Fold._on_source,
    ev.Custom: Fold._on_custom,
    ev.ResponseMetadata: Fold._on_response,
    ev.ErrorEvent: Fold._on_error,
    ev.StepStart: Fold._on_step,
    ev.RetryNotice: Fold._on_retry,
    ev.Finish: Fold._on_finish,
}
"""How each event is folded; those not named here say nothing about the message."""
