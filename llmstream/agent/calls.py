"""The calls of one step: the hooks that an agent gives to the `CallRunner`, and the step's events.

How calls run, and what happens to them when the run is cancelled, is in `tools/runner.py`. Here is
what an agent adds: its verdict on each call, the journal, the observer, sub-agents that wait, the
hook after a call, and a queue of events whose reader may be slower than the tools.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

import msgspec

from llmstream.agent.answer import Answer
from llmstream.agent.approvals import CallGate
from llmstream.agent.config import AgentConfig
from llmstream.agent.hooks import AfterTool, Proceed, Rewrite, Stop, answered
from llmstream.agent.journal import RunJournal
from llmstream.agent.nested import Nested, Spent, Waits, as_result
from llmstream.agent.observing import RunWatch
from llmstream.agent.resumption import Continuation
from llmstream.agent.state import RunState
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import File, Reasoning, Source, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.errors import DeadlineExceeded, IncompleteStream, InvalidRequest, LLMStreamError
from llmstream.events import Event, ToolApprovalRequest
from llmstream.events import ToolResult as ToolResultEvent
from llmstream.tools import (
    CallEvent,
    CallRunner,
    ContextOf,
    PendingCall,
    Progress,
    Run,
    Settled,
    Tool,
    ToolCallStatus,
    ToolOutcome,
    ToolSet,
    Verdict,
)
from llmstream.tools.runner import Execution

__all__ = [
    "StepCalls",
    "in_call_order",
    "is_empty",
    "result_event",
    "results_of",
    "said_nothing",
    "shown_as_run",
    "suspension_of",
]


_MAX_UNREAD = 256
"""Events that tools may be ahead of the reader; then they wait."""


class StepCalls:
    """Runs calls from `start` on; `events` gives what they report, until all are done or wait.

    inner: the suspended runs of sub-agents that calls wait for, by the id of the call
    stop:  why the run has to end, or None
    """

    def __init__(
        self,
        tools: ToolSet,
        judge: CallGate,
        state: RunState,
        *,
        after: AfterTool | None,
        limit: int,
        timeout_s: float | None,
        context: ContextOf,
        journal: RunJournal,
        watch: RunWatch | None,
    ) -> None:
        self.inner: dict[str, Suspension] = {}
        self.stop: str | None = None
        self._runner = CallRunner(
            tools,
            gate=self._gate,
            around=self._around,
            emit=self._emit,
            context=context,
            limit=limit,
            timeout_s=timeout_s,
        )
        self._judge = judge
        self._state = state
        self._after = after
        self._journal = journal
        self._watch = watch
        self._step = state.step
        self._continued: dict[str, Continuation] = {}
        self._suspended: dict[str, Suspension] = {}
        self._unread: deque[Event] = deque()
        self._room = asyncio.Event()

    @property
    def calls(self) -> dict[str, ToolCall]:
        """The calls as they run, repaired and rewritten, in the order of starting, by id."""
        return self._runner.calls

    @property
    def statuses(self) -> dict[str, ToolCallStatus]:
        """Those of the calls that are done, by id."""
        return self._runner.statuses

    @property
    def waiting(self) -> dict[str, PendingCall]:
        """The calls that wait for a decision or a result from elsewhere, by id."""
        return self._runner.waiting

    @property
    def results(self) -> dict[str, ToolResult]:
        """The results so far, by the id of the call."""
        return {call_id: status.result for call_id, status in self.statuses.items()}

    def start(self, call: ToolCall, continued: Continuation | None = None) -> None:
        """Starts a call, unless it was started before.

        continued: where the sub-agent that it asks continues; the call was judged before
        """
        if continued is not None:
            self._continued[call.id] = continued
        self._runner.start(call)

    def start_eager(self, event: Event) -> None:
        """Starts the call that an event completes, where its tool is eager."""
        self._runner.start_eager(event)

    def settle(self, call: ToolCall, status: ToolCallStatus) -> None:
        """Takes the status of a call that does not run."""
        self.calls[call.id], self.statuses[call.id] = call, status

    async def events(self, deadline: float | None) -> AsyncGenerator[Event]:
        """What the calls report, as they report it; over when none is left that runs.

        deadline: in loop time
        raises:   DeadlineExceeded; what a hook raised, and BaseExceptions of tools
        """
        runner = self._runner
        while True:
            runner.changed.clear()
            while self._unread:
                event = self._unread.popleft()
                self._room.set()
                yield event
            if runner.failure is not None:
                raise runner.failure
            if not runner.busy and not self._unread:
                break
            try:
                async with asyncio.timeout_at(deadline):
                    await runner.changed.wait()
            except TimeoutError:
                raise DeadlineExceeded(
                    "the run took longer than its total deadline", reason="total"
                ) from None
        for lost in runner.lost:
            yield result_event(lost)

    async def aclose(self) -> None:
        """Cancels what still runs, and waits for its cleanup, however often the waiter is cancelled."""
        await self._runner.aclose()

    async def superseded(self) -> list[Event]:
        """Stops calls that began before their response failed; an error result for each."""
        calls = list(self.calls.values())
        self._runner.discard()
        await self._runner.aclose()
        if calls:
            await self._journal.discard(self._step)
        self.inner.clear()
        self._unread.clear()
        text = "The response that asked for this call failed; what it gave was discarded."
        return [result_event(_failed(call, text)) for call in calls]

    async def _gate(self, call: ToolCall) -> Verdict:
        """The agent's verdict; a call that continues a sub-agent has had its own."""
        if call.id in self._continued:
            return Run(call)
        verdict = await self._judge.judge(call, self._runner.tools, self._ask)
        if isinstance(verdict, Settled):
            self.stop = self.stop or verdict.stop
        elif isinstance(verdict, Run) and self.stop is not None:
            return Settled(verdict.call, _failed(verdict.call, f"The call was not run: {self.stop}."))
        return verdict

    async def _around(self, call: ToolCall, run: Execution) -> ToolCallStatus | None:
        """Runs a call; None where it asked a sub-agent that waits."""
        found = self._runner.tools.find(call.name)
        if found is not None:
            await self._journal.call(self._step, call, repeatable=found.idempotent)
        continued = self._continued.pop(call.id, None)
        while True:
            running = run(continued)
            if self._watch is not None:
                running = self._watch.tool(call, self._step, found, running)
            status = await running
            inner = self._suspended.pop(call.id, None)
            if inner is None:
                return await self._reviewed(call, status, found)
            continued = Continuation(inner, await self._judge.asked(inner.pending))
            if not continued.decisions:
                self.inner[call.id] = inner
                return None

    async def _reviewed(self, call: ToolCall, status: ToolCallStatus, found: Tool | None) -> ToolCallStatus:
        """The status as the hook after the call wants it."""
        if status.stop:
            self.stop = self.stop or f"the tool {call.name} ended the run"
        match decision := await answered(self._after, self._state, call, status):
            case None | Proceed():
                pass
            case Rewrite(value):
                return ToolCallStatus.of(call, _fitted(ToolOutcome.of(value), found))
            case Stop(reason):
                self.stop = self.stop or reason or "a hook stopped the run"
            case _:
                raise InvalidRequest(f"after_tool gave {decision!r}, which is no decision about a result")
        return status

    async def _emit(self, event: CallEvent) -> None:
        if isinstance(event, Progress):
            await self._progress(event.call, event.value)
        else:
            await self._journal.result(self._step, event.call, event.status.result)
            await self._say(result_event(event.status))

    async def _ask(self, pending: PendingCall) -> None:
        await self._say(ToolApprovalRequest(pending.call_id, pending.approval_id))

    async def _progress(self, call: ToolCall, value: Any) -> None:
        if isinstance(value, Spent):
            for model, usage in value.answers:
                self._state.spend(model, usage)
        elif isinstance(value, Waits):
            self._suspended[call.id] = value.suspension
        elif isinstance(value, Nested):
            await self._say(as_result(value, call))
        else:
            shown = _fitted(ToolOutcome.of(value), self._runner.tools.find(call.name))
            result = shown.content if shown.output is None else shown.output
            await self._say(ToolResultEvent(result, call.id, call.name, preliminary=True))

    async def _say(self, event: Event) -> None:
        self._unread.append(event)
        self._runner.changed.set()
        while len(self._unread) > _MAX_UNREAD:
            self._room.clear()
            await self._room.wait()


def result_event(status: ToolCallStatus) -> ToolResultEvent:
    """The end of a call as an event: the JSON value that the model sees, or its text."""
    result = status.result
    return ToolResultEvent(status.output, result.tool_call_id, status.name, is_error=result.is_error)


def _fitted(outcome: ToolOutcome, found: Tool | None) -> ToolOutcome:
    """The outcome within the limits of its tool."""
    return (
        outcome.fitted() if found is None else outcome.fitted(found.max_result_chars, found.max_result_bytes)
    )


def _failed(call: ToolCall, error: str) -> ToolCallStatus:
    return ToolCallStatus.of(call, ToolOutcome.failed(error))


# What a step leaves: its calls as they ran, their results, and the run as a value where it waits.

_NO_ANSWER: Final = (Reasoning, ToolCall, ToolResult, Source)

_WAITS = "The call waits for a decision and has not run."
_WAITS_WITHIN = "The agent that this call asked waits for a decision about a call of its own."


def shown_as_run(message: Message, calls: StepCalls) -> Message:
    """The message with its calls as they ran: mended, and with the arguments that were approved."""
    parts = list(message.parts)
    for at, part in enumerate(parts):
        ran = calls.calls.get(part.id) if isinstance(part, ToolCall) else None
        if isinstance(part, ToolCall) and ran is not None:
            parts[at] = msgspec.structs.replace(part, name=ran.name, arguments=ran.arguments)
    return msgspec.structs.replace(message, parts=tuple(parts))


def in_call_order(calls: StepCalls, message: Message) -> tuple[ToolCallStatus, ...]:
    """The statuses of the calls that are done, as the message has them."""
    order = {call.id: at for at, call in enumerate(message.tool_calls)}
    done = calls.statuses.values()
    return tuple(sorted(done, key=lambda status: order.get(status.tool_call_id, math.inf)))


def results_of(calls: StepCalls | None, earlier: Mapping[str, ToolResult]) -> dict[str, ToolResult]:
    """The results of the step so far; of a call that waits, one that says so.

    earlier: those from before a suspension
    """
    if calls is None:
        return dict(earlier)
    waiting = {p.call_id: ToolResult(p.call_id, _WAITS, True, p.name) for p in calls.waiting.values()}
    within = {i: ToolResult(i, _WAITS_WITHIN, True, calls.calls[i].name) for i in calls.inner}
    return {**earlier, **waiting, **within, **calls.results}


def suspension_of(
    config: AgentConfig,
    state: RunState,
    calls: StepCalls,
    earlier: Mapping[str, ToolResult],
    inbox: Sequence[Message],
) -> Suspension:
    """The run as a value, with the calls that wait and the results of those that are done."""
    done = {**earlier, **calls.results}
    return Suspension.sealed(
        state.conversation,
        calls.waiting.values(),
        done.values(),
        inner=calls.inner,
        inbox=inbox,
        agent=config.name,
        step=state.step,
        usage_by_model=state.usage_by_model,
        cost_estimate=state.cost_estimate,
        key=config.approval_key,
        ttl_s=config.approval_ttl_s,
    )


def is_empty(message: Message) -> bool:
    """Whether a message gives its reader nothing: thoughts, calls and sources are no answer."""
    return all(
        not part.text.strip() if isinstance(part, Text) else isinstance(part, _NO_ANSWER)
        for part in message.parts
    )


def said_nothing(answer: Answer, message: Message) -> LLMStreamError | None:
    """An answer of which the limit of tokens left nothing is no answer, nor is one cut in its only call."""
    if answer.finish.finish_reason != "length":
        return None
    if answer.cut_call and not any(isinstance(part, ToolCall) for part in message.parts):
        words = "the answer reached its limit of tokens amid a tool call. Raise max_output_tokens."
    elif not any(isinstance(part, Text | ToolCall | File) for part in message.parts):
        words = "the answer reached its limit of tokens before it said anything. Raise max_output_tokens."
    else:
        return None
    error = IncompleteStream(words, provider=answer.stream.model.provider.name, retryable=False)
    error.partial, error.usage = message, answer.usage
    return error
