"""The calls of one step: tasks that run them side by side, and what they say meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import anyio

from llmstream.agent.decisions import Proceed, Rewrite, Stop
from llmstream.agent.hooks import AfterTool, answered
from llmstream.agent.journal import RunJournal
from llmstream.agent.nested import Nested, Spent, Waits, as_result
from llmstream.agent.resumption import Continuation
from llmstream.agent.state import RunState
from llmstream.agent.suspension import Suspension
from llmstream.agent.verdicts import Judge, Run, Settled, Wait
from llmstream.agent.watching import RunWatch
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.errors import DeadlineExceeded, InvalidRequest
from llmstream.events import Event, ToolApprovalRequest
from llmstream.events import ToolResult as ToolResultEvent
from llmstream.tools import (
    AnyTool,
    PendingCall,
    Tool,
    ToolCallStatus,
    ToolContext,
    ToolOutcome,
    cancelled_results,
    run_call,
    tasks,
)
from llmstream.tools.running import find_tool, tool_limiters

__all__ = ["StepCalls"]

_MAX_UNREAD = 256
"""Events that tools may be ahead of the reader; then they wait."""


class StepCalls:
    """Runs calls from `start` on; `events` gives what they say, until all are done or wait.

    calls:    as they run, mended and rewritten, in the order of starting
    statuses: of those that are done, by id
    waiting:  those that wait for a decision or a result from elsewhere, by id
    inner:    the suspended runs of sub-agents that calls wait for, by the id of the call
    stop:     why the run has to end, or None
    """

    def __init__(
        self,
        tools: Iterable[AnyTool],
        judge: Judge,
        state: RunState,
        *,
        after: AfterTool | None,
        limit: int,
        timeout_s: float | None,
        context: Callable[[ToolCall, Continuation | None], ToolContext],
        journal: RunJournal,
        watch: RunWatch | None,
    ) -> None:
        self.calls: dict[str, ToolCall] = {}
        self.statuses: dict[str, ToolCallStatus] = {}
        self.waiting: dict[str, PendingCall] = {}
        self.inner: dict[str, Suspension] = {}
        self.stop: str | None = None
        self._tools = tuple(tools)
        self._judge = judge
        self._state = state
        self._after = after
        self._timeout_s = timeout_s
        self._context = context
        self._journal = journal
        self._watch = watch
        self._step = state.step
        self._limit = anyio.CapacityLimiter(max(1, limit))
        self._turns = tool_limiters(self._tools)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        self._told_to_wait: dict[str, Suspension] = {}
        self._said: deque[Event] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._closing = False

    def start(self, call: ToolCall, continued: Continuation | None = None) -> None:
        """Lets a call begin; a call that has begun already goes on as it does.

        continued: where the sub-agent that it asks goes on from; the call was judged before
        """
        if call.id in self._tasks:
            return
        self.calls[call.id] = call
        task = self._tasks[call.id] = asyncio.create_task(self._one(call, continued))
        self._running.add(task)
        task.add_done_callback(self._over)

    @property
    def results(self) -> dict[str, ToolResult]:
        """The results so far, by the id of the call."""
        return {call_id: status.result for call_id, status in self.statuses.items()}

    async def events(self, deadline: float | None) -> AsyncGenerator[Event]:
        """What the calls say, as they say it; over when none is left that runs.

        deadline: in loop time
        raises:   DeadlineExceeded; what a hook raised, and BaseExceptions of tools
        """
        while True:
            self._news.clear()
            while self._said:
                event = self._said.popleft()
                self._room.set()
                yield event
            if self._failures:
                raise self._failures[0]
            if not self._running and not self._said:
                break
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                raise DeadlineExceeded(
                    "the run took longer than its total deadline", reason="total"
                ) from None
        for lost in self._lost():
            yield result_event(lost)

    async def aclose(self) -> None:
        """Cancels what still runs, and waits for its cleanup, however often the waiter is cancelled."""
        closing, self._closing = self._closing, True
        await (tasks.finished if closing else tasks.cancelled)(self._tasks.values())

    async def superseded(self) -> list[Event]:
        """Stops calls that began before their response failed: a result for each, that says so."""
        await self.aclose()
        if self.calls:
            await self._journal.discard(self._step)
        words = "The response that asked for this call failed; what it gave was discarded."
        notes: list[Event] = [result_event(_failed(call, words)) for call in self.calls.values()]
        self.calls, self.statuses, self.waiting, self.inner, self._tasks = {}, {}, {}, {}, {}
        self._running.clear()
        self._failures.clear()
        self._said.clear()
        self._closing = False
        return notes

    def _over(self, task: asyncio.Task[None]) -> None:
        """A task has ended; each is looked at once, however many there are."""
        if task in self._running:  # else its response failed
            self._running.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                self._failures.append(error)
        self._news.set()

    async def _one(self, call: ToolCall, continued: Continuation | None) -> None:
        async with AsyncExitStack() as turn:
            if call.name in self._turns:
                await turn.enter_async_context(self._turns[call.name])
            status = await (self._judged(call) if continued is None else self._ran(call, continued))
        if status is not None:
            await self._journal.result(self._step, self.calls[call.id], status.result)
            self.statuses[call.id] = status
            await self._say(result_event(status))

    async def _judged(self, call: ToolCall) -> ToolCallStatus | None:
        """The end of a call; None where it waits."""
        verdict = await self._judge.judge(call, self._tools, self._ask)
        self.calls[call.id] = verdict.call
        match verdict:
            case Wait(_, pending):
                self.waiting[call.id] = pending
                return None
            case Settled(_, status, stop):
                self.stop = self.stop or stop
                return status
            case Run(call, note):
                if self.stop is not None:
                    return _failed(call, f"The call was not run: {self.stop}.")
                return await self._ran(call, note=note)

    async def _ran(
        self, call: ToolCall, continued: Continuation | None = None, *, note: str = ""
    ) -> ToolCallStatus | None:
        """Runs a call; None where it asked a sub-agent that waits.

        note: what the person who approved it tells the tool
        """
        async with self._limit:
            found = find_tool(call.name, self._tools)
            if found is not None:
                await self._journal.call(self._step, call, repeatable=found.idempotent)
            while True:
                context = self._context(call, continued) if found and found.takes_context else None
                if context is not None and note:
                    context = replace(context, note=note)
                running = run_call(
                    call,
                    self._tools,
                    on_progress=self._progress,
                    context=context,
                    timeout_s=self._timeout_s,
                )
                if self._watch is not None:
                    running = self._watch.tool(call, self._step, found, running)
                status = await running
                inner = self._told_to_wait.pop(call.id, None)
                if inner is None:
                    break
                continued = Continuation(inner, await self._judge.asked(inner.pending))
                if not continued.decisions:
                    self.inner[call.id] = inner
                    return None
        if status.stop:
            self.stop = self.stop or f"the tool {call.name} ended the run"
        match said := await answered(self._after, self._state, call, status):
            case None | Proceed():
                pass
            case Rewrite(value):
                return ToolCallStatus.of(call, _fitted(ToolOutcome.of(value), found))
            case Stop(reason):
                self.stop = self.stop or reason or "a hook stopped the run"
            case _:
                raise InvalidRequest(f"after_tool gave {said!r}, which is no decision about a result")
        return status

    async def _ask(self, pending: PendingCall) -> None:
        await self._say(ToolApprovalRequest(pending.call_id, pending.approval_id))

    async def _progress(self, call: ToolCall, value: Any) -> None:
        if isinstance(value, Spent):
            for model, usage in value.answers:
                self._state.spend(model, usage)
        elif isinstance(value, Waits):
            self._told_to_wait[call.id] = value.suspension
        elif isinstance(value, Nested):
            await self._say(as_result(value, call))
        else:
            shown = _fitted(ToolOutcome.of(value), find_tool(call.name, self._tools))
            result = shown.content if shown.output is None else shown.output
            await self._say(ToolResultEvent(result, call.id, call.name, preliminary=True))

    async def _say(self, event: Event) -> None:
        self._said.append(event)
        self._news.set()
        while len(self._said) > _MAX_UNREAD:
            self._room.clear()
            await self._room.wait()

    def _lost(self) -> list[ToolCallStatus]:
        """Calls whose task was cancelled from within: they get the result of a cancelled call."""
        settled = self.statuses.keys() | self.waiting.keys() | self.inner.keys()
        left = [call for call in self.calls.values() if call.id not in settled]
        by_id = {result.tool_call_id: result for result in cancelled_results(left)}
        for call in left:
            self.statuses[call.id] = _failed(call, by_id[call.id].content)
        return [self.statuses[call.id] for call in left]


def result_event(status: ToolCallStatus) -> ToolResultEvent:
    """The end of a call as an event: the JSON value that the model sees, or its text."""
    result = status.result
    return ToolResultEvent(status.output, result.tool_call_id, status.name, is_error=result.is_error)


def _fitted(outcome: ToolOutcome, found: Tool | None) -> ToolOutcome:
    """The outcome within the limits of its tool."""
    return (
        outcome.fitted() if found is None else outcome.fitted(found.max_result_chars, found.max_result_bytes)
    )


def _failed(call: ToolCall, words: str) -> ToolCallStatus:
    return ToolCallStatus.of(call, ToolOutcome.failed(words))
