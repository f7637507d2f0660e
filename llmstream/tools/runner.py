"""Runs tool calls concurrently; each gets exactly one result.

There is one engine, `CallRunner`; an agent's steps, `Accumulator.call_tools` and `tools_stream` all
use it. They differ in three hooks:

    gate(call)        decides before a call runs: `Run`, `Settled` (it does not run, its result is
                      known) or `Wait` (for a person, or for a result from elsewhere)
    around(call, run) wraps the execution, within the limits: a journal, an observer, hooks
    emit(event)       is given `Progress` and `Ended`; a tool waits for what it awaits

What happens to a call when the run is cancelled, left, or past its deadline:

- Whoever owns the runner calls `aclose()`. It cancels each call that still runs, once, and waits
  for the cleanup of all of them. A waiter that is itself cancelled passes that on to what still
  cleans up, and waits on. No task is left.
- An async tool gets `CancelledError` where it awaits. A sync tool's thread cannot be stopped: what
  it still does is unseen, and its result is dropped.
- A call that had ended keeps its result. One that had not gets a result from `cancelled_results`,
  an error with the text "was cancelled before it was done. It may have had effects": every
  history is complete.
- A response that is retried takes its eager calls with it: `discard()` cancels them and forgets
  their results.
- A tool that is cancelled by something of its own, while nobody cancelled the run, has failed like
  any other; the calls beside it go on.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final, Protocol, TypeAlias

import anyio

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.events import Event, RetryNotice
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.tools.approval import Approve, Approver, Deny, PendingCall, asked, denied
from llmstream.tools.context import ToolContext
from llmstream.tools.outcome import ToolCallStatus, ToolOutcome
from llmstream.tools.toolset import AnyTool, ContextOf, ToolSet

__all__ = [
    "ApprovalGate",
    "CallEvent",
    "CallRunner",
    "Ended",
    "Progress",
    "Run",
    "Settled",
    "Verdict",
    "Wait",
    "cancelled_results",
    "run_call",
    "run_calls",
]

_CANCELLED: Final = "The call was cancelled before it was done. It may have had effects."


@dataclass(frozen=True, slots=True)
class Run:
    """The call runs, with these arguments. `note` is for `ToolContext.note`."""

    call: ToolCall
    note: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """The call does not run and has this status. `stop` is why the run has to end, or None."""

    call: ToolCall
    status: ToolCallStatus
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """The call waits for a decision or for an external result."""

    call: ToolCall
    pending: PendingCall


Verdict: TypeAlias = Run | Settled | Wait


@dataclass(frozen=True, slots=True)
class Progress:
    """A progress report of a running call: a `yield` of an async generator, or `ToolContext.report`."""

    call: ToolCall
    value: Any


@dataclass(frozen=True, slots=True)
class Ended:
    """A call ended. `call` has the arguments it ran with, which may differ from the model's."""

    call: ToolCall
    status: ToolCallStatus


CallEvent: TypeAlias = Progress | Ended


class Execution(Protocol):
    """Runs the call of an `around` hook; may be run again."""

    def __call__(self, continued: Any = None) -> Coroutine[Any, Any, ToolCallStatus]:
        """continued: for `ToolContext.continued`."""
        ...


Gate: TypeAlias = Callable[[ToolCall], Awaitable[Verdict]]
Around: TypeAlias = Callable[[ToolCall, Execution], Awaitable[ToolCallStatus | None]]
"""Returns the status of a call; None if it is suspended and another run continues it."""
Emit: TypeAlias = Callable[[CallEvent], Awaitable[None]]


class CallRunner:
    """Runs calls of one response, each in a task of its own from its `start` on.

    Who starts a call has to see to `aclose`. `gate` and `emit` may be exchanged: the new ones count for
    calls that start, and events that come, from then on.

    tools:    what the calls name
    context:  gives the context of a call whose tool takes one; by default that knows the call only
    limit:    how many run at once; a call that is gated or waits does not count
    timeout_s: for tools without a timeout of their own

    calls:    as they run, in the order of starting, by id
    statuses: of those that are over, in the order of ending
    waiting:  those that wait; `start` asks about such a call again
    lost:     statuses of calls that cancelled their own task; no `Ended` is emitted for these
    failure:  the first exception that is no tool's failure: of a hook, or a BaseException of a tool
    changed:  set whenever a call is over or waits; whoever waits for it clears it
    """

    def __init__(
        self,
        tools: ToolSet,
        *,
        gate: Gate,
        around: Around | None = None,
        emit: Emit | None = None,
        context: ContextOf | None = None,
        limit: int = 8,
        timeout_s: float | None = None,
    ) -> None:
        self.tools = tools
        self.gate = gate
        self.emit = emit
        self.changed = asyncio.Event()
        self._around = around
        self._context = context
        self._timeout_s = timeout_s
        self._limit = anyio.CapacityLimiter(max(1, limit))
        # A tool with a limit of its own: whoever asks first is first, so its calls keep their order.
        self._turns = {
            t.name: anyio.CapacityLimiter(t.concurrency)
            for name in {spec.name for spec in tools.specs}
            if (t := tools.find(name)) is not None and t.concurrency is not None
        }
        self._cancelled: set[asyncio.Task[None]] = set()
        self._forget()

    def _forget(self) -> None:
        self.calls: dict[str, ToolCall] = {}
        self.statuses: dict[str, ToolCallStatus] = {}
        self.waiting: dict[str, PendingCall] = {}
        self.lost: list[ToolCallStatus] = []
        self.failure: BaseException | None = None
        self._started: set[str] = set()
        self._running: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Whether a call still runs."""
        return bool(self._running)

    def start(self, call: ToolCall) -> None:
        """Starts a call, unless it was started before; a waiting call passes the gate again."""
        if call.id in self._started and call.id not in self.waiting:
            return
        self.waiting.pop(call.id, None)
        self._started.add(call.id)
        self.calls[call.id] = call
        task = asyncio.create_task(self._one(call))
        self._running.add(task)
        task.add_done_callback(functools.partial(self._over, call.id))

    def start_eager(self, event: Event) -> None:
        """Starts the call that the event completes, if its tool is eager and the call is valid and local."""
        if not isinstance(event, ToolCallEvent) or event.tool_name not in self.tools.eager:
            return
        if not event.invalid and not event.provider_executed:
            self.start(ToolCall(event.tool_call_id, event.tool_name, event.input))

    def see(self, events: Iterable[Event]) -> None:
        """Starts the eager calls of a streaming response; a `retry` event discards the started ones."""
        for event in events:
            if isinstance(event, RetryNotice):
                self.discard()
            else:
                self.start_eager(event)

    async def run(self, calls: Iterable[ToolCall]) -> list[ToolCallStatus]:
        """Runs the local calls to their end and returns their statuses in call order. Leaves nothing running.

        raises: `failure`
        """
        ours = self.tools.runnable(calls)
        try:
            for call in ours:
                self.start(call)
            while self._running and self.failure is None:
                self.changed.clear()
                await self.changed.wait()
            if self.failure is not None:
                raise self.failure
        finally:
            await self.aclose()
        return [self.statuses[call.id] for call in ours if call.id in self.statuses]

    async def aclose(self) -> None:
        """Cancels running calls and waits for their cleanup. Idempotent, also concurrently."""
        self._cancel()
        await _finished(self._cancelled)
        self._cancelled = {task for task in self._cancelled if not task.done()}

    def discard(self) -> None:
        """Cancels running calls and drops all calls; `aclose` waits for the cleanup."""
        self._cancel()
        self._forget()

    def _cancel(self) -> None:
        # A second cancellation would interrupt a task's cleanup, so cancelled tasks have their own set.
        for task in self._running:
            task.cancel()
        self._cancelled |= self._running
        self._running = set()

    def _over(self, call_id: str, task: asyncio.Task[None]) -> None:
        if task in self._running:  # else it was cancelled by us
            self._running.discard(task)
            if task.cancelled():
                status = ToolCallStatus.of(self.calls[call_id], ToolOutcome.failed(_CANCELLED))
                self.statuses[call_id] = status
                self.lost.append(status)
            else:
                # Looked at even if another failed before, so that asyncio does not complain.
                error = task.exception()
                self.failure = self.failure or error
        self.changed.set()

    async def _one(self, call: ToolCall) -> None:
        calls, statuses, waiting = self.calls, self.statuses, self.waiting  # others after a discard
        async with AsyncExitStack() as turn:
            if call.name in self._turns:
                await turn.enter_async_context(self._turns[call.name])
            verdict = await self.gate(call)
            call = calls[call.id] = verdict.call
            if isinstance(verdict, Wait):
                waiting[call.id] = verdict.pending
                return
            if isinstance(verdict, Settled):
                status: ToolCallStatus | None = verdict.status
            else:
                await turn.enter_async_context(self._limit)
                run = functools.partial(self._execute, call, verdict.note)
                status = await (run() if self._around is None else self._around(call, run))
        if status is not None:
            statuses[call.id] = status
            if self.emit is not None and statuses is self.statuses:
                await self.emit(Ended(call, status))

    async def _execute(self, call: ToolCall, note: str, continued: Any = None) -> ToolCallStatus:
        emit, context = self.emit, None
        found = self.tools.find(call.name)
        if found is not None and found.takes_context:
            known = ToolContext(call.id, call.name) if self._context is None else self._context(call)
            context = replace(known, note=note, continued=continued)
        return await run_call(
            call,
            self.tools,
            on_progress=None if emit is None else lambda call, value: emit(Progress(call, value)),
            context=context,
            timeout_s=self._timeout_s,
        )


class ApprovalGate:
    """The gate without an agent: a call that needs approval waits for it.

    decisions: a person's, by the id of the call
    approve:   asked about those that are not decided about; without, or where it gives None, the call waits
    """

    def __init__(
        self,
        tools: ToolSet,
        decisions: Mapping[str, Approve | Deny] = {},
        approve: Approver | None = None,
        context: ContextOf | None = None,
    ) -> None:
        self._tools = tools
        self._decisions = decisions
        self._approve = approve
        self._context = context

    async def __call__(self, call: ToolCall) -> Verdict:
        """Decides about a call.

        raises: what `approve` raises; InvalidRequest for approved arguments that do not fit
        """
        decision = self._decisions.get(call.id)
        if decision is None:
            if not await self._tools.approval_needed(call, self._context):
                return Run(call)
            pending = PendingCall(call.id, call.name, call.arguments, call.id)
            decision = await asked(self._approve, pending)
            if decision is None:
                return Wait(call, pending)
        if isinstance(decision, Deny):
            return Settled(call, denied(call, decision))
        return Run(self._tools.approved(call, decision), decision.note)


async def run_calls(
    calls: Iterable[ToolCall],
    tools: Iterable[AnyTool],
    *,
    limit: int = 8,
    decisions: Mapping[str, Approve | Deny] = {},
    approve: Approver | None = None,
    on_result: Callable[[ToolCallStatus], object] | None = None,
    on_progress: Callable[[ToolCall, Any], object] | None = None,
    context: ContextOf | None = None,
) -> list[ToolCallStatus]:
    """Runs complete calls, at most `limit` at a time.

    calls:       an id that occurs twice runs once; a call of a tool that is only declared
                 (ToolSpec, ProviderTool), that the vendor executed, or that needs an approval
                 which nobody gave is not ours to run and gets no status
    decisions:   a person's, by the id of the call; a call that was denied has a status with the reason
    approve:     asked about calls that need approval and are not decided about
    on_result:   called with each status as its call ends, in the order of ending
    on_progress: called with what a tool reports, and its call; the tool waits for what it awaits
    context:     gives the context of a call whose tool takes one

    returns: statuses in call order; every failure is one of them
    raises:  nothing of the tools but cancellation and other BaseExceptions, and what `approve` raises;
             InvalidRequest for approved arguments that do not fit.
             `cancelled_results` then gives what belongs into the history
    """

    async def emit(event: CallEvent) -> None:
        if isinstance(event, Progress):
            heard = None if on_progress is None else on_progress(event.call, event.value)
        else:
            heard = None if on_result is None else on_result(event.status)
        if inspect.isawaitable(heard):
            await heard

    known = ToolSet.of(tools)
    gate = ApprovalGate(known, decisions, approve, context)
    return await CallRunner(known, gate=gate, emit=emit, context=context, limit=limit).run(calls)


async def run_call(
    call: ToolCall,
    tools: Iterable[AnyTool],
    *,
    on_progress: Callable[[ToolCall, Any], object] | None = None,
    context: ToolContext | None = None,
    timeout_s: float | None = None,
) -> ToolCallStatus:
    """Runs one complete call; the status of one that cannot run has the reason. Asks for no approval.

    context:   for a tool that takes one; by default it knows the call only
    timeout_s: for a tool that has no timeout of its own
    """
    known = ToolSet.of(tools)
    found, refusal = known.find(call.name), known.refusal(call)
    if found is None or refusal is not None:
        assert refusal is not None  # an unknown tool is one
        return ToolCallStatus.of(call, ToolOutcome.raised(refusal))
    try:
        outcome = await found.run(
            call.arguments,
            on_progress=None if on_progress is None else lambda value: on_progress(call, value),
            context=context or ToolContext(call.id, call.name),
            timeout_s=timeout_s,
        )
    except asyncio.CancelledError:
        if _cancelled_from_outside():
            raise
        outcome = ToolOutcome.failed(f"The tool {call.name} was cancelled from within.")
    return ToolCallStatus.of(call, outcome)


def cancelled_results(
    calls: Iterable[ToolCall], done: Iterable[ToolResult | ToolCallStatus] = ()
) -> list[ToolResult]:
    """A "cancelled" result for each client call without a result."""
    settled = {status.tool_call_id for status in done}
    results = []
    for call in calls:
        if not call.provider_executed and call.id not in settled:
            settled.add(call.id)
            results.append(ToolResult(call.id, _CANCELLED, True, call.name))
    return results


def _cancelled_from_outside() -> bool:
    """Tells our own cancellation from that of something the tool waited for."""
    task = asyncio.current_task()
    return anyio.current_effective_deadline() == -inf or (task is not None and task.cancelling() > 0)


async def _finished(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Waits until the tasks are over; a waiter that is cancelled cancels them and waits on.

    What they raise is theirs: it is looked at, so that asyncio does not complain, and not raised.
    """
    every = set(tasks)
    running = {task for task in every if not task.done()}
    interrupted: BaseException | None = None
    while running:
        try:
            with anyio.CancelScope(shield=True):
                _, running = await asyncio.wait(running)
        except asyncio.CancelledError as error:
            interrupted = error
            for task in running:
                task.cancel()
            running = {task for task in running if not task.done()}
    for task in every:
        if not task.cancelled():
            task.exception()
    if interrupted is not None:
        raise interrupted
