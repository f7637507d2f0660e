"""The message that a stream of events makes, at any time; and the running of its tool calls."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from llmstream.accumulate.fold import Fold
from llmstream.chats.content import Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.errors import IncompleteStream, InvalidRequest, LLMStreamError
from llmstream.events import Event

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


class Accumulator(Fold):
    """The message that a stream of events makes. A pure fold: no I/O until `call_tools`.

    One accumulator is one response. A second `stream-start` begins anew; steps of a run fold
    into one message, so a loop over several responses uses one accumulator for each. Events
    are expected to be a sentence (`llmstream.grammar`); what does not concern the message,
    such as `raw` or `step-finish`, is passed over, and so is everything after `finish`.

    Parts stand in the order in which their blocks opened. A block without text leaves a part
    only if it has metadata to send back. The input of a call that never became complete is
    left out: see `tool_input`.

    tools:  what `call_tools` may run: `Tool` objects or functions; ToolSpec and ProviderTool
            only declare a name, their calls stay in `pending_calls`
    sender: of the message

    For the view of a stream as OpenAI-like chunks see `llmstream.chunks.CollectingStream.from_events`.
    """

    def __init__(self, *, tools: Iterable[AnyTool] = (), sender: str = "") -> None:
        super().__init__(sender)
        self._tools: ToolSet | None = None
        if tools != ():
            from llmstream.tools import ToolSet  # folding alone needs neither anyio nor schemas

            self._tools = ToolSet.of(tools).current()

    def _reset(self) -> None:
        super()._reset()
        self._under_way: set[str] = set()

    @property
    def partial(self) -> Message:
        """Everything so far, at any time; equal to `message` once that is there."""
        if self._message is not None:
            return self._message
        return Message(self.sender, Role.ASSISTANT, self._all_parts(), self._metadata)

    @property
    def message(self) -> Message | None:
        """The message once `finish` has come, whatever its reason; None before."""
        return self._message

    @property
    def finished(self) -> bool:
        """Whether `finish` has come."""
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
        """The complete calls so far that are ours to run, in order."""
        return [p for p in self._all_parts() if isinstance(p, ToolCall) and not p.provider_executed]

    @property
    def pending_calls(self) -> list[ToolCall]:
        """The calls of `tool_calls` that have no result yet."""
        return [call for call in self.tool_calls if call.id not in self._results]

    @property
    def tool_message(self) -> Message | None:
        """The results so far of our own calls, in call order; None where there are none."""
        results = [self._results[call.id] for call in self.tool_calls if call.id in self._results]
        return Message.tool(results) if results else None

    def tool_input(self, call_id: str) -> str:
        """The raw input of a call so far, open, cut off or complete; "" of an unknown call."""
        found = self._inputs.get(call_id)
        return "" if found is None else found.text

    def tool_value(self, call_id: str) -> Any:
        """The input of a call so far as a JSON value, the best that can be made of it; None of nothing.

        Reading it at every event costs no more than parsing the text once. Objects and arrays are
        the parser's own and go on growing: copy what is to be kept, change nothing.
        """
        found = self._inputs.get(call_id)
        if found is None:
            return None
        if not found.watched:
            found.watch()
            if call_id in self._sinks:
                self._sinks[call_id] = found.write
        return found.value

    def add_results(self, results: Iterable[ToolResult]) -> None:
        """Takes results of calls that ran elsewhere; they are pending no longer."""
        for result in results:
            self._results[result.tool_call_id] = result

    def runner(self, *, context: ContextOf | None = None, limit: int = 8) -> CallRunner:
        """What runs the calls, for a caller that starts some of them while the response still comes.

        raises: InvalidRequest where there are no tools
        """
        from llmstream.tools import ApprovalGate, CallRunner

        if self._tools is None:
            raise InvalidRequest("an Accumulator runs calls only with tools: Accumulator(tools=[...])")
        gate = ApprovalGate(self._tools, context=context)
        return CallRunner(self._tools, gate=gate, context=context, limit=limit)

    def _edit(self, call: ToolCall) -> None:
        """The message has the arguments that were approved in place of the model's."""
        message = self.partial
        parts = tuple(
            [
                msgspec.structs.replace(p, arguments=call.arguments)
                if isinstance(p, ToolCall) and p.id == call.id
                else p
                for p in message.parts
            ]
        )
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
        done get results that say so, and the cancellation goes on.

        decisions: by the id of the call; True and False for `Approve()` and `Deny()`
        begun:     a `runner`, whose calls were started while the response still came
        context:   gives the `ToolContext` of a call whose tool takes one
        returns:   one status a call that is done now, in call order
        raises:    InvalidRequest for a decision about a call that does not wait, and for approved
                   arguments that do not fit; then nothing of the decisions has run
        """
        failed = self.error is not None or self.finish_reason in (None, "error")
        if failed or not self._tools:
            return []
        from llmstream.tools import ApprovalGate, Approve, Ended, cancelled_results
        from llmstream.tools.approval import as_decision

        pending = [call for call in self.pending_calls if call.id not in self._under_way]
        ids = {call.id for call in pending}
        stray = [call_id for call_id in decisions if call_id not in ids]
        if stray:
            raise InvalidRequest(f"no call {stray[0]!r} waits for a decision")
        decided = {call_id: as_decision(decision) for call_id, decision in decisions.items()}
        for call in pending:
            if isinstance(decision := decided.get(call.id), Approve):
                self._tools.approved(call, decision)

        async def keep(event: CallEvent) -> None:
            if isinstance(event, Ended):
                self._results[event.status.tool_call_id] = event.status.result

        runner = begun or self.runner(context=context, limit=limit)
        runner.gate = ApprovalGate(self._tools, decided, approve, context)
        runner.emit = keep
        self.add_results([status.result for status in runner.statuses.values()])  # of eager calls
        self._under_way |= ids
        try:
            return await runner.run(pending)
        except BaseException:  # cancellation too: the history has to stay valid
            self.add_results(cancelled_results(pending, self._results.values()))
            raise
        finally:
            self.add_results([status.result for status in runner.lost])
            for call in pending:
                if (ran := runner.calls.get(call.id, call)).arguments != call.arguments:
                    self._edit(ran)
            self._under_way -= ids


def accumulate(events: Iterable[Event]) -> Accumulator:
    """An accumulator that has folded the events."""
    accumulator = Accumulator()
    accumulator.feed_many(events)
    return accumulator


async def collect(events: AsyncIterable[Event], *, require_terminal: bool = True) -> Accumulator:
    """Reads a stream to its end and folds it.

    raises: what the stream raises, with `.partial` and `.usage` filled in;
            IncompleteStream where no `finish` came and `require_terminal` is set
    """
    accumulator = Accumulator()
    try:
        async for event in events:
            accumulator.feed(event)
        if require_terminal and not accumulator.finished:
            raise IncompleteStream("the events ended without a finish. What came is kept in .partial.")
    except LLMStreamError as error:
        if error.partial is None:
            error.partial = accumulator.partial
        if error.usage is None:
            error.usage = accumulator.usage
        raise
    return accumulator
