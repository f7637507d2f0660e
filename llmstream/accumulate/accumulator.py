"""Accumulates a stream of events into a message, available at any time, and runs its tool calls."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from llmstream import events as ev
from llmstream.accumulate.blocks import Block, Input, file_part, result_part, source_part
from llmstream.chats.content import OWN_KEY, Custom, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.errors import ErrorInfo, IncompleteStream, InvalidRequest, LLMStreamError
from llmstream.events import DELTAS, Event
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.tools import (
        AnyTool,
        Approve,
        Approver,
        CallEvent,
        CallRunner,
        ContextOf,
        Deny,
        ToolCallStatus,
        ToolSet,
    )

__all__ = ["Accumulator", "accumulate", "collect"]


_GROWING: Final = (Block, Input)


class Accumulator:
    """The message accumulated from a stream of events. No I/O until `call_tools`.

    One accumulator is one response. A second `stream-start` starts again; steps of a run are merged
    into one message, so a loop over several responses uses one accumulator for each. Events
    are expected to follow the grammar (`llmstream.grammar`); those that do not concern the message,
    such as `raw` or `step-finish`, are ignored, and so is everything after `finish`.

    Parts are in the order in which their blocks opened. A block without text becomes a part
    only if it has metadata to send back. The input of a call that never became complete is
    left out: see `tool_input`.

    tools:  what `call_tools` may run: `Tool` objects or functions; ToolSpec and ProviderTool
            only declare a name, their calls stay in `pending_calls`
    sender: of the message

    usage:             as in `finish`; all None before
    finish_reason:     None before `finish`
    raw_finish_reason: the vendor's own value
    error:             the first one, or None
    warnings:          of `stream-start`
    response_id:       the vendor's id of the response; `model_id` is that of the model
    timestamp:         when the vendor created it



    For the view of a stream as OpenAI-like chunks see `llmstream.chunks.CollectingStream.from_events`.
    """

    # Defaults are on the class: a short answer sets few of them, and to set all twice took 2 % of a call.
    usage: Usage = Usage()
    finish_reason: ev.FinishReason | None = None
    raw_finish_reason: str | None = None
    error: ErrorInfo | None = None
    response_id: str | None = None
    model_id: str | None = None
    timestamp: datetime.datetime | None = None
    _metadata: dict[str, Any] | None = None
    _message: Message | None = None
    _parts: tuple[Part, ...] | None = None
    _begun = False
    _step = 0
    _step_begin = 0  # index in _order where the current step begins
    _step_error: ErrorInfo | None = None  # the error before the current step

    def __init__(self, *, tools: Iterable[AnyTool] = (), sender: str = "") -> None:
        self.sender = sender
        self._tools: ToolSet | None = None
        # Compared by identity: a LiveTools list may still be empty.
        if tools != ():
            from llmstream.tools import ToolSet  # accumulating alone needs neither anyio nor schemas

            self._tools = ToolSet.of(tools).current()
        self._begin()

    def _begin(self) -> None:
        self.warnings: list[ev.Warning] = []
        # Calls that a running `call_tools` executes: a concurrent one must not run them again.
        self._running: set[str] = set()
        self._forget_content()

    def _begin_again(self) -> None:
        sender, tools = self.sender, self._tools
        self.__dict__.clear()
        self.sender, self._tools = sender, tools
        self._begin()

    def _forget_content(self) -> None:
        self._order: list[Block | Input | Part] = []
        # Writers of the open blocks, so that a delta costs a lookup and a write.
        self._sinks: dict[str, Callable[[str], object]] = {}
        self._blocks: dict[str, Block] = {}
        self._inputs: dict[str, Input] = {}
        self._vendor_results: dict[str, int] = {}  # call id -> index in _order
        self._results: dict[str, ToolResult] = {}  # of client calls

    def _all_parts(self) -> tuple[Part, ...]:
        if self._parts is None:
            found = [slot.part() if isinstance(slot, _GROWING) else slot for slot in self._order]
            self._parts = tuple([part for part in found if part is not None])
        return self._parts

    def feed(self, event: Event) -> None:
        """Accumulates one event."""
        delta: Any = event  # the set lookup does not narrow the type
        # Duplicates feed_many, whose overhead for one event would exceed the write.
        if type(delta) in DELTAS and delta.provider_metadata is None:
            write = self._sinks.get(delta.id)
            if write is not None:
                self._parts = None
                write(delta.delta)
                return
        self.feed_many((event,))

    def feed_many(self, events: Iterable[Event]) -> None:
        """Accumulates events in order; for a batch, much cheaper than `feed` for each."""
        untyped: Iterable[Any] = events  # the set lookup does not narrow the type
        last: type | None = None  # the kind of the delta before, its block, and its writer
        block_id = ""
        write: Callable[[str], object] = str  # a placeholder: `last` is None until there is a writer
        try:
            for event in untyped:
                kind = type(event)
                # By identity: decoders give all deltas of a block one id object, and a comparison of text
                # would cost more than the write. An equal id in a different object takes the look-up below.
                if kind is last and event.id is block_id and event.provider_metadata is None:
                    write(event.delta)
                    continue
                last = None
                if kind in DELTAS and event.provider_metadata is None:
                    found = self._sinks.get(event.id)
                    if found is not None:
                        found(event.delta)
                        last, block_id, write = kind, event.id, found
                        continue
                handler = _HANDLERS.get(kind)
                # The message was built at `finish`. Later events would be in `text`, but not in the message.
                if handler is not None and (self.finish_reason is None or kind is ev.StreamStart):
                    handler(self, event)
        finally:
            self._parts = None

    def _on_start(self, event: ev.StreamStart) -> None:
        if self._begun:
            self._begin_again()
        self._begun = True
        self.warnings = list(event.warnings)

    def _on_open(self, event: ev.TextStart | ev.ReasoningStart) -> None:
        part_type = Text if type(event) is ev.TextStart else Reasoning
        opened = self._open(event.id, part_type)
        if event.provider_metadata is not None:
            opened.merge(event.provider_metadata)

    def _on_delta(self, event: ev.TextDelta | ev.ReasoningDelta) -> None:
        block = self._blocks.get(event.id)
        # A stream that breaks the grammar: the block was never opened, or closed too early. No text is lost.
        if block is None or block.closed:
            block = self._open(event.id, Text if type(event) is ev.TextDelta else Reasoning)
        block.write(event.delta)
        block.merge(event.provider_metadata)

    def _on_close(self, event: ev.TextEnd | ev.ReasoningEnd) -> None:
        block = self._blocks.get(event.id)
        if block is not None:
            if event.provider_metadata is not None:
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
            # An id stands for one call.
            return
        opened = self._inputs[event.id] = Input(event.provider_metadata)
        if found is None:
            self._order.append(opened)
        else:
            # At its old index: parts are in the order in which they began.
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
            # Progress of a local tool is for readers; only the last result goes to the model.
            if not event.preliminary:
                self._results[part.tool_call_id] = part
        elif part.tool_call_id in self._vendor_results:
            # A later result of the same call replaces a preliminary one, such as a sharper image.
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
        # The first error is the cause; those after it are its consequences.
        if self.error is None:
            self.error = event.error

    def _on_step(self, event: ev.StepStart) -> None:
        self._step = event.step
        self._step_begin = len(self._order)
        self._step_error = self.error

    def _on_retry(self, event: ev.RetryNotice) -> None:
        """Drops the output of the current step, which is requested again."""
        if event.discard_step == self._step:
            # Earlier steps stay: only the interrupted response is requested again.
            earlier = self._order[: self._step_begin]
            slots = {id(slot) for slot in earlier}
            inputs = {i: slot for i, slot in self._inputs.items() if id(slot) in slots}
            results = {i: result for i, result in self._results.items() if i in inputs}
            vendor = {i: at for i, at in self._vendor_results.items() if at < self._step_begin}
            self._forget_content()
            # Blocks of earlier steps are closed, and need no writer.
            self._order, self._inputs, self._results, self._vendor_results = earlier, inputs, results, vendor
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

    @property
    def partial(self) -> Message:
        """The message so far, at any time; equal to `message` once that exists."""
        if self._message is not None:
            return self._message
        return Message(self.sender, Role.ASSISTANT, self._all_parts(), self._metadata)

    @property
    def message(self) -> Message | None:
        """The message after `finish`, whatever its reason; None before."""
        return self._message

    @property
    def finished(self) -> bool:
        """Whether `finish` has arrived."""
        return self.finish_reason is not None

    @property
    def text(self) -> str:
        """All text so far, joined without a separator."""
        return "".join([part.text for part in self._all_parts() if isinstance(part, Text)])

    @property
    def reasoning(self) -> str:
        """All text of reasoning so far, joined without a separator."""
        return "".join([part.text for part in self._all_parts() if isinstance(part, Reasoning)])

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The complete calls so far for the caller to run, in order."""
        return [p for p in self._all_parts() if isinstance(p, ToolCall) and not p.provider_executed]

    @property
    def pending_calls(self) -> list[ToolCall]:
        """The calls of `tool_calls` that have no result yet."""
        return [call for call in self.tool_calls if call.id not in self._results]

    @property
    def tool_message(self) -> Message | None:
        """The results so far of the caller's calls, in call order; None if there are none."""
        results = [self._results[call.id] for call in self.tool_calls if call.id in self._results]
        return Message.tool(results) if results else None

    def tool_input(self, call_id: str) -> str:
        """Returns the raw input of a call so far, open, cut off or complete; "" for an unknown call."""
        found = self._inputs.get(call_id)
        return "" if found is None else found.text

    def tool_value(self, call_id: str) -> Any:
        """Returns the input of a call so far as a JSON value, as far as it is valid; None if there is none.

        Reading it at every event costs no more than parsing the text once. Objects and arrays are
        the parser's own and continue to grow: copy what you store, change nothing.
        """
        found = self._inputs.get(call_id)
        if found is None:
            return None
        if not found.watched:
            found.watch()
            # Replaces the writer in `_sinks`, which bypasses the parser.
            if call_id in self._sinks:
                self._sinks[call_id] = found.write
        return found.value

    def add_results(self, results: Iterable[ToolResult]) -> None:
        """Adds results of calls that ran elsewhere; they are no longer pending."""
        for result in results:
            self._results[result.tool_call_id] = result

    def runner(self, *, context: ContextOf | None = None, limit: int = 8) -> CallRunner:
        """Returns the runner of the calls, for a caller that starts some of them while the response streams.

        raises: InvalidRequest without tools
        """
        from llmstream.tools import ApprovalGate, CallRunner

        if self._tools is None:
            raise InvalidRequest("an Accumulator runs calls only with tools: Accumulator(tools=[...])")
        gate = ApprovalGate(self._tools, context=context)
        return CallRunner(self._tools, gate=gate, context=context, limit=limit)

    def _edit(self, call: ToolCall) -> None:
        """Replaces the model's arguments in the message by the approved ones."""
        # The stored message is replaced, never modified: readers may reference it.
        message = self.partial
        parts = tuple(
            [
                msgspec.structs.replace(p, arguments=call.arguments)
                if isinstance(p, ToolCall) and p.id == call.id
                else p
                for p in message.parts
            ]
        )
        # The history must show what ran: the model would otherwise read a result for other arguments.
        self._message = Message(message.sender, message.role, parts, message.metadata)

    async def call_tools(
        self,
        decisions: Mapping[str, Approve | Deny | bool] = {},
        *,
        approve: Approver | None = None,
        limit: int = 8,
        begun: CallRunner | None = None,
        context: ContextOf | None = None,
    ) -> list[ToolCallStatus]:
        """Runs the pending calls of the finished message, at most `limit` at a time.

        Each call runs once. A call that needs approval runs when it is decided about, here or by
        `approve`; until then it stays in `pending_calls`, and this may be called again. Nothing runs
        of a response that is unfinished or failed, or in an accumulator without tools.
        Results are in `tool_message`. If the caller is cancelled, the calls that were not
        done get results that report it, and the cancellation continues.

        decisions: by the id of the call; True and False for `Approve()` and `Deny()`
        begun:     a `runner`, whose calls were started while the response still came
        context:   gives the `ToolContext` of a call whose tool takes one
        returns:   one status a call that is done now, in call order
        raises:    InvalidRequest for a decision about a call that does not wait, and for approved
                   arguments that do not fit; then nothing of the decisions has run
        """
        # An interrupted response may have incomplete calls.
        failed = self.error is not None or self.finish_reason in (None, "error")
        if failed or not self._tools:
            return []
        from llmstream.tools import ApprovalGate, Approve, Ended, cancelled_results
        from llmstream.tools.approval import as_decision

        pending = [call for call in self.pending_calls if call.id not in self._running]
        ids = {call.id for call in pending}
        # A misspelt id would silently leave its call waiting.
        stray = [call_id for call_id in decisions if call_id not in ids]
        if stray:
            raise InvalidRequest(f"no call {stray[0]!r} waits for a decision")
        decided = {call_id: as_decision(decision) for call_id, decision in decisions.items()}
        for call in pending:
            # All edits are checked before the first call runs.
            if isinstance(decision := decided.get(call.id), Approve):
                self._tools.approved(call, decision)

        async def record(event: CallEvent) -> None:
            if isinstance(event, Ended):
                self._results[event.status.tool_call_id] = event.status.result

        runner = begun or self.runner(context=context, limit=limit)
        runner.gate = ApprovalGate(self._tools, decided, approve, context)
        runner.emit = record
        # Results of calls that ran while the response streamed.
        self.add_results([status.result for status in runner.statuses.values()])
        self._running |= ids
        try:
            return await runner.run(pending)
        except BaseException:  # on cancellation too: the history must stay valid
            self.add_results(cancelled_results(pending, self._results.values()))
            raise
        finally:
            self.add_results([status.result for status in runner.lost])
            for call in pending:
                if (ran := runner.calls.get(call.id, call)).arguments != call.arguments:
                    self._edit(ran)
            self._running -= ids


# The handler of each event type; other types do not affect the message.
_HANDLERS: Final[dict[type, Callable[[Accumulator, Any], None]]] = {
    ev.StreamStart: Accumulator._on_start,
    ev.TextStart: Accumulator._on_open,
    ev.TextDelta: Accumulator._on_delta,
    ev.TextEnd: Accumulator._on_close,
    ev.ReasoningStart: Accumulator._on_open,
    ev.ReasoningDelta: Accumulator._on_delta,
    ev.ReasoningEnd: Accumulator._on_close,
    ev.ToolInputStart: Accumulator._on_input_start,
    ev.ToolInputDelta: Accumulator._on_input_delta,
    ev.ToolInputEnd: Accumulator._on_input_end,
    ev.ToolCall: Accumulator._on_call,
    ev.ToolResult: Accumulator._on_result,
    ev.File: Accumulator._on_file,
    ev.ReasoningFile: Accumulator._on_file,
    ev.Source: Accumulator._on_source,
    ev.Custom: Accumulator._on_custom,
    ev.ResponseMetadata: Accumulator._on_response,
    ev.ErrorEvent: Accumulator._on_error,
    ev.StepStart: Accumulator._on_step,
    ev.RetryNotice: Accumulator._on_retry,
    ev.Finish: Accumulator._on_finish,
}


def accumulate(events: Iterable[Event]) -> Accumulator:
    """Returns an accumulator fed with the events."""
    accumulator = Accumulator()
    accumulator.feed_many(events)
    return accumulator


async def collect(events: AsyncIterable[Event], *, require_terminal: bool = True) -> Accumulator:
    """Reads a stream to its end and accumulates it.

    raises: exceptions of the stream, with `.partial` and `.usage` filled in; IncompleteStream without a
            `finish`, if `require_terminal` is set
    """
    accumulator = Accumulator()
    try:
        async for event in events:
            accumulator.feed(event)
        if require_terminal and not accumulator.finished:
            raise IncompleteStream("the events ended without a finish. What arrived is in .partial.")
    except LLMStreamError as error:
        if error.partial is None:
            error.partial = accumulator.partial
        if error.usage is None:
            error.usage = accumulator.usage
        raise
    return accumulator
