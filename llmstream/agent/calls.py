"""The calls of one step and their results.

How calls run and are cancelled is in `tools/runner.py`. An agent adds to it: the verdict on each call,
the journal, the observer, suspended sub-agents, the hook after a call, and an event queue between the
tools and a slower reader.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import msgspec

from llmstream.agent.hooks import AfterTool, CallGate, Proceed, Rewrite, Stop, call_hook
from llmstream.agent.journal import RunJournal
from llmstream.agent.nested import Nested, Spent, Waits, as_result
from llmstream.agent.observing import RunWatch
from llmstream.agent.recorder import INTERRUPTED, EndedCall, Recorder, WhenInterrupted
from llmstream.agent.state import Expense, RunState
from llmstream.agent.suspension import Continuation, Continues, Suspension
from llmstream.chats.content import OWN_KEY, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.errors import DeadlineExceeded, Interrupted, InvalidRequest
from llmstream.events import Event, ToolApprovalRequest
from llmstream.events import ToolResult as ToolResultEvent
from llmstream.tools.approval import PendingCall, Run, Settled, Verdict
from llmstream.tools.outcome import ToolCallStatus, ToolOutcome
from llmstream.tools.runner import CallEvent, CallRunner, Execution, Progress
from llmstream.tools.tool import ContextOf, Tool
from llmstream.tools.toolset import ToolSet

__all__ = [
    "StepCalls",
    "in_call_order",
    "result_event",
    "results_of",
    "shown_as_run",
]


# Maximum of unread events, after which tools wait for the reader: bounds memory, but rarely blocks a tool.
_MAX_UNREAD = 256


class StepCalls:
    """Runs the calls that are passed to `start`; `events` yields their events until all have ended or wait.

    inner: the suspended runs of sub-agents that calls wait for, by the id of the call
    stop:  why the run has to end, or None
    """

    def __init__(
        self,
        tools: ToolSet,
        gate: CallGate,
        state: RunState,
        *,
        after: AfterTool | None,
        limit: int,
        timeout_s: float | None,
        context: ContextOf,
        journal: RunJournal,
        watch: RunWatch | None,
        recorder: Recorder | None = None,
        interrupted: WhenInterrupted = "report",
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
        self._call_gate = gate
        self._state = state
        self._after = after
        self._journal = journal
        self._watch = watch
        self._recorder = recorder
        self._interrupted = interrupted
        self._spent: dict[str, list[Expense]] = {}
        self._step = state.step
        self._continued: dict[str, Continuation] = {}
        self._suspended: dict[str, Suspension] = {}
        self._unread: deque[Event] = deque()
        self._room = asyncio.Event()

    @property
    def calls(self) -> dict[str, ToolCall]:
        """The calls as they run, repaired and rewritten, by id, in the order they were started."""
        return self._runner.calls

    @property
    def statuses(self) -> dict[str, ToolCallStatus]:
        """The statuses of finished calls, by id."""
        return self._runner.statuses

    @property
    def waiting(self) -> dict[str, PendingCall]:
        """The calls that wait for a decision or an external result, by id."""
        return self._runner.waiting

    @property
    def results(self) -> dict[str, ToolResult]:
        """The results so far, by the id of the call."""
        return {call_id: status.result for call_id, status in self.statuses.items()}

    def start(self, call: ToolCall, continued: Continuation | None = None) -> None:
        """Starts a call, unless it was started before.

        continued: the suspended run of its sub-agent; such a call has passed the gate already
        """
        if continued is not None:
            self._continued[call.id] = continued
        self._runner.start(call)

    def start_eager(self, event: Event) -> None:
        """Starts the call completed by the event, if its tool is eager."""
        self._runner.start_eager(event)

    def settle(self, call: ToolCall, status: ToolCallStatus) -> None:
        """Records the status of a call that does not run."""
        self.calls[call.id], self.statuses[call.id] = call, status

    def suspend(self, call: ToolCall, inner: Suspension) -> None:
        """Notes a call whose sub-agent continues to wait."""
        self.calls[call.id], self.inner[call.id] = call, inner

    async def events(self, deadline: float | None) -> AsyncGenerator[Event]:
        """Yields the events of the calls as they occur; ends when no call is running.

        deadline: in loop time
        raises:   DeadlineExceeded; exceptions of hooks, and BaseExceptions of tools
        """
        runner = self._runner
        while True:
            # Cleared before reading the events: later events set it again.
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
                # Only around the wait: a timeout must not span a `yield`.
                async with asyncio.timeout_at(deadline):
                    await runner.changed.wait()
            except TimeoutError:
                raise DeadlineExceeded("the run exceeded its total deadline", reason="total") from None
        # No `Ended` was emitted for these: the task that reports it was cancelled.
        for lost in runner.lost:
            yield result_event(lost)

    async def aclose(self) -> None:
        """Cancels running calls and waits for their cleanup, even if the waiter is cancelled again.

        No call can be started afterwards.
        """
        try:
            await self._runner.aclose()
        finally:
            self.release()

    def release(self) -> None:
        """Releases references that only running calls need; no call can be started afterwards."""
        self._runner.release()

    async def superseded(self) -> list[Event]:
        """Stops the calls of a failed response; returns an error result for each."""
        calls = list(self.calls.values())
        self._runner.discard()
        await self._runner.aclose()
        # After a crash these calls must be ignored: the next response has its own.
        if calls:
            await self._journal.discard(self._step)
        self.inner.clear()
        self._unread.clear()
        text = "The response that requested this call failed; the result was discarded."
        return [result_event(_unrun(call, text)) for call in calls]

    async def _gate(self, call: ToolCall) -> Verdict:
        """The agent's verdict; a call that continues a sub-agent was already allowed."""
        if call.id in self._continued:
            return Run(call)
        verdict = await self._verdict(call)
        if isinstance(verdict, Settled):
            self.stop = self.stop or verdict.stop
        elif isinstance(verdict, Run) and self.stop is not None:
            # A hook stopped the run while the gate decided about this call.
            return Settled(verdict.call, _unrun(verdict.call, f"The call was not run: {self.stop}."))
        return verdict

    async def _verdict(self, call: ToolCall) -> Verdict:
        """The verdict of the gate; the recorded one, if it depends on more than the call itself."""
        gate, tools, recorder = self._call_gate, self._runner.tools, self._recorder
        ask = functools.partial(self._ask, call)
        judge = functools.partial(gate.judge, call, tools, ask)
        # A verdict that depends only on the call is the same after a crash; recording it would cost a commit.
        if recorder is None or not gate.decides(call, tools):
            return await judge()
        return await recorder.verdict(self._step, self._name(call), call, judge, ask)

    def _name(self, call: ToolCall) -> str:
        """The name of the call in keys of the record."""
        assert self._recorder is not None
        return self._recorder.call_key(self._step, call, call.name in self._runner.tools.eager)

    async def _around(self, call: ToolCall, run: Execution) -> ToolCallStatus | None:
        """Runs a call; None if its sub-agent is suspended."""
        found = self._runner.tools.find(call.name)
        if found is not None:
            # Written before the call runs: after a crash the journal shows which calls may have had an
            # effect.
            await self._journal.call(self._step, call, repeatable=found.idempotent)
        continued = self._continued.pop(call.id, None)
        # Repeats after each decision about a call of the sub-agent, until it ends or there is no decision.
        while True:
            status = await self._executed(
                call, found, functools.partial(self._watched, call, found, run, continued)
            )
            if status is None:
                return None
            inner = self._suspended.pop(call.id, None)
            if inner is None:
                return await self._reviewed(call, status, found)
            continued = Continuation(inner, await self._call_gate.decisions(inner.pending))
            if not continued.decisions:
                self.inner[call.id] = inner
                return None

    async def _watched(
        self, call: ToolCall, found: Tool | None, run: Execution, continued: Continuation | None
    ) -> ToolCallStatus:
        running = run(continued)
        if self._watch is not None:
            running = self._watch.tool(call, self._step, found, running)
        return await running

    async def _executed(
        self, call: ToolCall, found: Tool | None, run: Callable[[], Awaitable[ToolCallStatus]]
    ) -> ToolCallStatus | None:
        """Runs a call, or returns its recorded status; None if a person must decide whether it runs again."""
        recorder = self._recorder
        if recorder is None:
            return await run()
        live: list[ToolCallStatus] = []

        async def ended() -> EndedCall:
            status = await run()
            live.append(status)
            spent = tuple(self._spent.pop(call.id, ()))
            return EndedCall.of(status, spent, self._suspended.get(call.id))

        again = self._interrupted == "again" or repeatable(found)
        try:
            end = await recorder.call(self._step, self._name(call), call, ended, again=again)
        except Interrupted:
            return await self._after_interruption(call)
        # The status as it ended: the record has neither the exception nor the application's value.
        if live:
            return live[0]
        # Billed in the process that died; the totals of the run include it.
        for expense in end.spent:
            self._state.spend(*expense)
        if end.waits is not None:
            self._suspended[call.id] = end.waits
        return end.restored()

    async def _after_interruption(self, call: ToolCall) -> ToolCallStatus | None:
        """The status of a call that a crash interrupted, and that must not simply run again."""
        # Decided only once: a denial is final.
        if self._interrupted == "ask" and not self._call_gate.was_decided(call):
            assert self._recorder is not None
            pending = self._recorder.interrupted(self._step, call)
            self.waiting[call.id] = pending
            await self._ask(call, pending)
            return None
        return _unrun(call, INTERRUPTED)

    async def _reviewed(self, call: ToolCall, status: ToolCallStatus, found: Tool | None) -> ToolCallStatus:
        """Applies the `after_tool` hook to the status."""
        # Read before the hook, which may replace the result but not the tool's request to stop.
        if status.stop:
            self.stop = self.stop or f"the tool {call.name} ended the run"
        if self._recorder is None or self._after is None:
            status, stop = await self._after_tool(call, status, found)
        else:
            review = functools.partial(self._after_tool, call, status, found)
            status, stop = await self._recorder.reviewed_call(self._step, self._name(call), status, review)
        self.stop = self.stop or stop
        return status

    async def _after_tool(
        self, call: ToolCall, status: ToolCallStatus, found: Tool | None
    ) -> tuple[ToolCallStatus, str | None]:
        """The status after the hook, and why the run has to end."""
        match decision := await call_hook(self._after, self._state, call, status):
            case None | Proceed():
                pass
            case Rewrite(value):
                return ToolCallStatus.of(call, _fitted(ToolOutcome.of(value), found)), None
            case Stop(reason):
                return status, reason or "a hook stopped the run"
            case _:
                raise InvalidRequest(
                    f"after_tool must return Rewrite, Stop, Proceed or None, got {decision!r}"
                )
        return status, None

    async def _emit(self, event: CallEvent) -> None:
        if isinstance(event, Progress):
            await self._progress(event.call, event.value)
        else:
            # On disk before any reader gets it: a result that was seen must still exist after a crash.
            await self._journal.result(self._step, event.call, event.status.result)
            await self._put(result_event(event.status))

    async def _ask(self, call: ToolCall, pending: PendingCall) -> PendingCall:
        """Reports that a call waits for a decision; with its input, if that is not the model's.

        returns: the request as it was recorded first
        """
        if self._recorder is not None:
            pending = await self._recorder.decision_request(self._step, self._name(call), pending)
        will_run = {"tool_name": pending.name, "input": pending.arguments}
        # Shows the reader what will run; an unchanged input is already in the call's own event.
        same = (call.name, call.arguments) == (pending.name, pending.arguments)
        metadata = None if same else {OWN_KEY: will_run}
        await self._put(ToolApprovalRequest(pending.call_id, pending.approval_id, metadata))
        return pending

    async def _progress(self, call: ToolCall, value: Any) -> None:
        if isinstance(value, Spent):
            before = len(self._state.spent)
            for expense in value.answers:
                self._state.spend(*expense)
            # With the costs counted in this process.
            self._spent.setdefault(call.id, []).extend(self._state.spent[before:])
        elif isinstance(value, Waits):
            self._suspended[call.id] = value.suspension
        elif isinstance(value, Nested):
            await self._put(as_result(value, call))
        else:
            # Progress reaches the same readers as results, under the same limits.
            shown = _fitted(ToolOutcome.of(value), self._runner.tools.find(call.name))
            result = shown.content if shown.output is None else shown.output
            await self._put(ToolResultEvent(result, call.id, call.name, preliminary=True))

    async def _put(self, event: Event) -> None:
        self._unread.append(event)
        self._runner.changed.set()
        # In a loop: another waiting tool may use the free slot first.
        while len(self._unread) > _MAX_UNREAD:
            self._room.clear()
            await self._room.wait()


def result_event(status: ToolCallStatus) -> ToolResultEvent:
    """The `tool-result` event of a finished call, with the JSON value or text that the model sees."""
    result = status.result
    return ToolResultEvent(
        status.output,
        result.tool_call_id,
        status.name,
        is_error=result.is_error,
        provider_metadata=result.metadata,
    )


def _fitted(outcome: ToolOutcome, found: Tool | None) -> ToolOutcome:
    """The outcome, cut to the limits of its tool."""
    return (
        outcome.fitted() if found is None else outcome.fitted(found.max_result_chars, found.max_result_bytes)
    )


def repeatable(found: Tool | None) -> bool:
    """Whether a call may run again after a crash: of a tool that declares it, or of a sub-agent.

    A sub-agent records its own steps, which are not repeated.
    """
    return found is None or found.idempotent or isinstance(found.function, Continues)


def _unrun(call: ToolCall, error: str) -> ToolCallStatus:
    return ToolCallStatus.of(call, ToolOutcome.failed(error, unrun="cancelled"))


# Results of a step: for the history, or for a suspension.


# Placeholder results of waiting calls, which keep the history complete at any time.
_WAITS = "The call waits for a decision and has not run."
_WAITS_WITHIN = "The sub-agent of this call waits for a decision about one of its own calls."


def shown_as_run(message: Message, calls: StepCalls) -> Message:
    """The message with its calls as they ran: repaired, and with the approved arguments."""
    parts = list(message.parts)
    for at, part in enumerate(parts):
        ran = calls.calls.get(part.id) if isinstance(part, ToolCall) else None
        if isinstance(part, ToolCall) and ran is not None:
            parts[at] = msgspec.structs.replace(part, name=ran.name, arguments=ran.arguments)
    return msgspec.structs.replace(message, parts=tuple(parts))


def in_call_order(calls: StepCalls, message: Message) -> tuple[ToolCallStatus, ...]:
    """The statuses of finished calls, in the order of the message's calls."""
    # Calls that are not in the message come last.
    order = {call.id: at for at, call in enumerate(message.tool_calls)}
    done = calls.statuses.values()
    return tuple(sorted(done, key=lambda status: order.get(status.tool_call_id, math.inf)))


def results_of(calls: StepCalls | None, earlier: Mapping[str, ToolResult]) -> dict[str, ToolResult]:
    """The results of the step so far, with placeholders for waiting calls.

    earlier: results from before a suspension
    """
    if calls is None:
        return dict(earlier)
    waiting = {p.call_id: ToolResult(p.call_id, _WAITS, True, p.name) for p in calls.waiting.values()}
    within = {i: ToolResult(i, _WAITS_WITHIN, True, calls.calls[i].name) for i in calls.inner}
    # Later entries replace earlier ones: a result replaces a placeholder.
    return {**earlier, **waiting, **within, **calls.results}
