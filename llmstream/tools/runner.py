"""Runs tool calls concurrently; each gets exactly one result.

There is one engine, `CallRunner`; an agent's steps (`agent/calls.py`), `Accumulator.call_tools` and
`run_calls` all use it. They differ in three hooks:

    gate(call)        decides before a call runs: `Run`, `Settled` (it does not run, its result is
                      known) or `Wait` (for a person, or for an external result)
    around(call, run) wraps the execution, within the limits: a journal, an observer, hooks
    emit(event)       receives `Progress` and `Ended`; a tool waits for what it awaits

What happens to a call when the run is cancelled, left, or past its deadline:

- The owner of the runner calls `aclose()`. It cancels each running call, once, and waits for the
  cleanup of all of them. If the waiter is cancelled too, it cancels the cleanup once more and
  continues to wait. No task remains.
- An async tool gets `CancelledError` where it awaits. The thread of a sync tool cannot be stopped;
  its result is dropped.
- A call that had ended keeps its result. Any other gets a result from `cancelled_results`: an
  error: it was cancelled and may have had effects. So every history is complete.
- If a response is retried, `discard()` cancels its eager calls and drops their results.
- A tool that is cancelled from within, while the run is not cancelled, has failed like any other;
  the other calls continue.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Protocol, TypeAlias

import anyio

from llmstream.chats.content import ToolCall
from llmstream.events import Event, RetryNotice
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.tools.approval import (
    Approve,
    Approver,
    Deny,
    PendingCall,
    Run,
    Settled,
    Verdict,
    Wait,
    asked,
    denied,
)
from llmstream.tools.outcome import CANCELLED, ToolCallStatus, ToolOutcome
from llmstream.tools.signature import ToolContext
from llmstream.tools.tool import AnyTool, ContextOf
from llmstream.tools.toolset import ToolSet

__all__ = [
    "ApprovalGate",
    "CallEvent",
    "CallRunner",
    "Ended",
    "Progress",
    "run_call",
    "run_calls",
]


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


async def _closed(call: ToolCall) -> Verdict:
    raise RuntimeError(
        f"{call.name}: the calls of this step have ended. This is a bug in llmstream; please report it."
    )


class CallRunner:
    """Runs the calls of one response, each in its own task from its `start` on.

    The owner must call `aclose`. `gate` and `emit` may be replaced: the new ones apply to calls that
    start, and to events that occur, afterwards.

    tools:    the tools that calls may name
    context:  returns the context of a call whose tool takes one; the default knows only the call
    limit:    maximum number of running calls; calls at the gate and waiting calls do not count
    timeout_s: for tools without their own timeout

    calls:    as they run, in the order they were started, by id
    statuses: of finished calls, in the order they ended
    waiting:  waiting calls; `start` passes such a call to the gate again
    lost:     statuses of calls that cancelled their own task; no `Ended` is emitted for these
    failure:  the first exception that is not a tool's failure: of a hook, or a BaseException of a tool
    changed:  set whenever a call ends or waits; the waiting task clears it
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
        # With a limit of 0 every call would wait for ever.
        self._limit = anyio.CapacityLimiter(max(1, limit))
        # The limiter is fair: calls of a tool with its own limit run in order.
        self._own_limits = {
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

    def release(self) -> None:
        """Drops references to its owner's functions once all calls have ended; no call can follow."""
        # The owner has the runner, and the runner its methods: this cycle would keep the history of an ended
        # run in memory until a full garbage collection.
        self.gate, self.emit = _closed, None
        self._around = self._context = None

    def start(self, call: ToolCall) -> None:
        """Starts a call, unless it was started before; a waiting call passes the gate again."""
        if call.id in self._started and call.id not in self.waiting:
            return
        self.waiting.pop(call.id, None)
        self._started.add(call.id)
        self.calls[call.id] = call
        task = asyncio.create_task(self._one(call))
        # The event loop references tasks only weakly.
        self._running.add(task)
        task.add_done_callback(functools.partial(self._over, call.id))

    def start_eager(self, event: Event) -> None:
        """Starts the call that the event completes, if its tool is eager and the call is valid and local."""
        if not isinstance(event, ToolCallEvent) or event.tool_name not in self.tools.eager:
            return
        # Vendors run their own calls, and an invalid call may be incomplete: the model must make it again.
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
        """Runs the local calls to their end and returns their statuses in call order. No call runs
        afterwards.

        raises: `failure`
        """
        # Vendors run their own calls, and declared tools run elsewhere.
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
        # Cancel all before awaiting any: otherwise each would wait for the cleanup of the previous one.
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
        if task in self._running:  # otherwise we cancelled it
            self._running.discard(task)
            if task.cancelled():
                status = ToolCallStatus.of(
                    self.calls[call_id], ToolOutcome.failed(CANCELLED, unrun="cancelled")
                )
                self.statuses[call_id] = status
                self.lost.append(status)
            else:
                # Retrieved even after an earlier failure, so that asyncio does not log it.
                error = task.exception()
                self.failure = self.failure or error
        self.changed.set()

    async def _one(self, call: ToolCall) -> None:
        calls, statuses, waiting = self.calls, self.statuses, self.waiting  # `discard` replaces them
        async with AsyncExitStack() as limits:
            # Taken before the gate: calls of a tool would otherwise overtake each other during a decision.
            if call.name in self._own_limits:
                await limits.enter_async_context(self._own_limits[call.name])
            verdict = await self.gate(call)
            call = calls[call.id] = verdict.call
            if isinstance(verdict, Wait):
                waiting[call.id] = verdict.pending
                return
            if isinstance(verdict, Settled):
                status: ToolCallStatus | None = verdict.status
            else:
                # After the gate: a call that waits for a person must not block one that could run.
                await limits.enter_async_context(self._limit)
                run = functools.partial(self._execute, call, verdict.note)
                status = await (run() if self._around is None else self._around(call, run))
        if status is not None:
            statuses[call.id] = status
            # After `discard` the status belongs to a void response.
            if self.emit is not None and statuses is self.statuses:
                await self.emit(Ended(call, status))

    async def _execute(self, call: ToolCall, note: str, continued: Any = None) -> ToolCallStatus:
        emit, context = self.emit, None
        found = self.tools.find(call.name)
        if found is not None and found.takes_context:
            # Created only for a tool that takes one: it copies the conversation.
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
    approve:   asked about undecided calls; without it, or if it returns None, the call waits
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

        raises: exceptions of `approve`; InvalidRequest for approved arguments that do not fit
        """
        # A given decision takes precedence: the approver would otherwise be asked twice.
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

    calls:       an id that occurs twice runs once. A call of a declared tool (ToolSpec, ProviderTool), a
                 call that the vendor executed, and one without a needed approval do not run and have
                 no status
    decisions:   a person's, by the id of the call; a denied call has a status with the reason
    approve:     asked about calls that need approval and are undecided
    on_result:   called with each status when its call ends
    on_progress: called with a call and each of its progress reports; the tool waits for a returned awaitable
    context:     returns the context of a call whose tool takes one

    returns: statuses in call order, failures included
    raises:  cancellation and other BaseExceptions of tools, and what `approve` raises; InvalidRequest for
             approved arguments that do not fit. `cancelled_results` then makes the missing results
    """

    async def emit(event: CallEvent) -> None:
        if isinstance(event, Progress):
            returned = None if on_progress is None else on_progress(event.call, event.value)
        else:
            returned = None if on_result is None else on_result(event.status)
        if inspect.isawaitable(returned):
            await returned

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
    """Runs one complete call; if it cannot run, its status has the reason. Asks for no approval.

    context:   for a tool that takes one; the default knows only the call
    timeout_s: for a tool without its own timeout
    """
    known = ToolSet.of(tools)
    found, refusal = known.find(call.name), known.refusal(call)
    if found is None or refusal is not None:
        assert refusal is not None  # unknown tools are among them
        return ToolCallStatus.of(call, ToolOutcome.raised(refusal))
    try:
        outcome = await found.run(
            call.arguments,
            on_progress=None if on_progress is None else lambda value: on_progress(call, value),
            context=context or ToolContext(call.id, call.name),
            timeout_s=timeout_s,
        )
    except asyncio.CancelledError:
        # A cancelled future that the tool awaits raises the same exception as a cancelled run.
        if _cancelled_from_outside():
            raise
        outcome = ToolOutcome.failed(f"The tool {call.name} was cancelled from within.")
    return ToolCallStatus.of(call, outcome)


def _cancelled_from_outside() -> bool:
    """Whether our cancellation ended the call, not that of an object the tool awaited."""
    task = asyncio.current_task()
    # A cancelled anyio scope has this deadline; the task counts requests of task.cancel().
    return anyio.current_effective_deadline() == -inf or (task is not None and task.cancelling() > 0)


async def _finished(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Waits until the tasks have ended; if the waiter is cancelled, cancels them and continues to wait.

    Their exceptions are retrieved, so that asyncio does not report them, and not raised.
    """
    every = set(tasks)
    running = {task for task in every if not task.done()}
    interrupted: BaseException | None = None
    while running:
        try:
            # A cancelled scope of anyio would cancel each await again, and this loop would spin.
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
