"""Calls of one response that run side by side, each in a task of its own, from whenever each is started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeAlias

import anyio

from llmstream.chats.content import ToolCall
from llmstream.events import Event, RetryNotice
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.tools.approval import Approve, Approver, Deny, PendingCall, asked, denied
from llmstream.tools.context import ToolContext
from llmstream.tools.function import AnyTool, as_tools
from llmstream.tools.outcome import ToolOutcome
from llmstream.tools.running import (
    CANCELLED,
    approval_needed,
    as_approved,
    find_tool,
    run_call,
    tool_limiters,
)
from llmstream.tools.status import ToolCallStatus
from llmstream.tools.tasks import finished
from llmstream.tools.tool import Tool

__all__ = ["CallTasks", "ContextOf"]

OnResult: TypeAlias = Callable[[ToolCallStatus], object]
OnProgress: TypeAlias = Callable[[ToolCall, Any], object]
ContextOf: TypeAlias = Callable[[ToolCall], ToolContext]
"""What a call's tool may know, where it asks."""


class CallTasks:
    """Who starts a call here has to see to `aclose`, which cancels what still runs and waits for its cleanup.

    statuses:    of the calls that are done, in the order of ending
    edited:      calls that were approved with other arguments, by id
    limit:       how many run at once
    on_result:   is told of each call as it ends
    on_progress: is given what an async generator yields, with its call
    context:     asked for the context of a call whose tool takes one; by default it knows the call only
    """

    def __init__(
        self,
        tools: Iterable[AnyTool],
        *,
        limit: int = 8,
        on_result: OnResult | None = None,
        on_progress: OnProgress | None = None,
        context: ContextOf | None = None,
    ) -> None:
        self.statuses: dict[str, ToolCallStatus] = {}
        self.edited: dict[str, ToolCall] = {}
        self.on_result = on_result
        self._tools = as_tools(tools)
        self._limit = anyio.CapacityLimiter(max(1, limit))
        self._turns = tool_limiters(self._tools)
        self._on_progress = on_progress
        self._context = context
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._dropped: list[asyncio.Task[None]] = []

    def start(
        self, call: ToolCall, *, decision: Approve | Deny | None = None, approve: Approver | None = None
    ) -> None:
        """Lets a call begin, unless it has. One that needs an approval nobody gives ends without a status."""
        if call.id not in self._tasks:
            self._tasks[call.id] = asyncio.create_task(self._one(call, decision, approve))

    def see(self, events: Iterable[Event]) -> None:
        """Starts the calls in a response whose tools are eager and need nobody's approval.

        A `retry` drops those that were started: what they give belongs to nothing.
        """
        eager = {t.name for t in self._tools if isinstance(t, Tool) and t.eager and t.needs_approval is False}
        for event in events:
            if isinstance(event, RetryNotice):
                self._drop()
            elif isinstance(event, ToolCallEvent) and event.tool_name in eager and not event.invalid:
                self.start(ToolCall(event.tool_call_id, event.tool_name, event.input))

    async def finished(self, calls: Sequence[ToolCall]) -> list[ToolCallStatus]:
        """The statuses of these calls, in their order, once all are over; those that wait have none.

        raises: BaseExceptions of tools that are no failure of a call
        """
        tasks = [self._tasks[call.id] for call in calls]
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for call, task in zip(calls, tasks, strict=True):
            if task.done() and task.cancelled():  # from within: the tool cancelled its own task
                self._keep(ToolCallStatus.of(call, ToolOutcome.failed(CANCELLED)))
            elif task.done() and (error := task.exception()) is not None:
                raise error
        return [self.statuses[call.id] for call in calls if call.id in self.statuses]

    async def aclose(self) -> None:
        """Cancels what still runs, and waits for its cleanup, however often the waiter is cancelled."""
        self._drop()
        dropped, self._dropped = self._dropped, []
        await finished(dropped)

    def _drop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._dropped += self._tasks.values()
        self._tasks, self.statuses = {}, {}

    async def _one(self, call: ToolCall, decision: Approve | Deny | None, approve: Approver | None) -> None:
        async with AsyncExitStack() as turn:
            if call.name in self._turns:
                await turn.enter_async_context(self._turns[call.name])
            if decision is None and await approval_needed(call, self._tools, self._context):
                decision = await asked(approve, PendingCall(call.id, call.name, call.arguments, call.id))
                if decision is None:
                    return
            if isinstance(decision, Deny):
                status = denied(call, decision)
            else:
                context = self._context_of(call)
                if decision is not None:
                    call = self._approved(call, decision)
                    context = replace(context or ToolContext(call.id, call.name), note=decision.note)
                await turn.enter_async_context(self._limit)
                status = await run_call(call, self._tools, on_progress=self._on_progress, context=context)
        self._keep(status)

    def _approved(self, call: ToolCall, decision: Approve) -> ToolCall:
        changed = as_approved(call, decision, self._tools)
        if changed is not call:
            self.edited[call.id] = changed
        return changed

    def _context_of(self, call: ToolCall) -> ToolContext | None:
        found = find_tool(call.name, self._tools)
        if self._context is None or found is None or not found.takes_context:
            return None
        return self._context(call)

    def _keep(self, status: ToolCallStatus) -> None:
        self.statuses[status.tool_call_id] = status
        if self.on_result is not None:
            self.on_result(status)
