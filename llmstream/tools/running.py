"""Running the calls of one response: concurrently, in call order, exactly one result each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from math import inf
from typing import Any, TypeAlias

import anyio
import msgspec

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.errors import InvalidToolInput, UnknownTool
from llmstream.request import ProviderTool, ToolSpec
from llmstream.tools.function import AnyTool, as_tools
from llmstream.tools.outcome import ToolOutcome
from llmstream.tools.status import ToolCallStatus
from llmstream.tools.tool import Tool

__all__ = ["cancelled_results", "run_call", "run_calls"]

OnResult: TypeAlias = Callable[[ToolCallStatus], object]
OnProgress: TypeAlias = Callable[[ToolCall, Any], object]

_CANCELLED = "The call was cancelled before it was done. It may have had effects."


async def run_calls(
    calls: Iterable[ToolCall],
    tools: Iterable[AnyTool],
    *,
    limit: int = 8,
    on_result: OnResult | None = None,
    on_progress: OnProgress | None = None,
) -> list[ToolCallStatus]:
    """Runs complete calls, at most `limit` at a time.

    calls:       an id that occurs twice runs once; a call of a tool that is only declared
                 (ToolSpec, ProviderTool) or that the vendor executed is not ours to run and gets
                 no status
    on_result:   is told of each call as it ends, in the order of ending
    on_progress: is given what an async generator yields, with its call

    returns: statuses in call order; every failure is one of them
    raises:  nothing of the tools but cancellation and other BaseExceptions. `cancelled_results`
             then says what to put into the history
    """
    known = as_tools(tools)
    ours = _ours(calls, known)
    done: dict[str, ToolCallStatus] = {}
    limiter = anyio.CapacityLimiter(max(1, limit))
    locks = {t.name: anyio.Lock() for t in known if isinstance(t, Tool) and t.sequential}

    async def one(call: ToolCall) -> None:
        async with AsyncExitStack() as turn:
            if call.name in locks:
                await turn.enter_async_context(locks[call.name])
            await turn.enter_async_context(limiter)
            status = await run_call(call, known, on_progress=on_progress)
        done[call.id] = status
        if on_result is not None:
            on_result(status)

    try:
        async with anyio.create_task_group() as group:
            for call in ours:
                group.start_soon(one, call)
    except BaseExceptionGroup as raised:
        raise _first(raised) from None
    return [done[call.id] for call in ours]


async def run_call(
    call: ToolCall, tools: Iterable[AnyTool], *, on_progress: OnProgress | None = None
) -> ToolCallStatus:
    """Runs one complete call; a call that cannot run has a status that says why."""
    known = as_tools(tools)
    found = next((t for t in known if isinstance(t, Tool) and t.name == call.name), None)
    if found is None:
        return ToolCallStatus.of(call, ToolOutcome.raised(_unknown(call.name, known)))
    if _broken(call):
        words = f"The call of {call.name} arrived broken and was not run. Call it again."
        return ToolCallStatus.of(call, ToolOutcome.raised(InvalidToolInput(words)))
    try:
        outcome = await found.run(
            call.arguments,
            on_progress=None if on_progress is None else lambda value: on_progress(call, value),
        )
    except asyncio.CancelledError:
        if _cancelled_from_outside():
            raise
        outcome = ToolOutcome.failed(f"The tool {call.name} was cancelled from within.")
    return ToolCallStatus.of(call, outcome)


def cancelled_results(
    calls: Iterable[ToolCall], done: Iterable[ToolResult | ToolCallStatus] = ()
) -> list[ToolResult]:
    """A result for each client call that has none yet, saying that it was cancelled."""
    settled = {status.tool_call_id for status in done}
    results = []
    for call in calls:
        if not call.provider_executed and call.id not in settled:
            settled.add(call.id)
            results.append(ToolResult(call.id, _CANCELLED, True, call.name))
    return results


def _ours(calls: Iterable[ToolCall], known: Iterable[Tool | ToolSpec | ProviderTool]) -> list[ToolCall]:
    declared = {t.name for t in known if not isinstance(t, Tool)}
    declared |= {t.type for t in known if isinstance(t, ProviderTool)}
    found: dict[str, ToolCall] = {}
    for call in calls:
        if not call.provider_executed and call.name not in declared:
            found.setdefault(call.id, call)
    return list(found.values())


def _unknown(name: str, known: Iterable[Tool | ToolSpec | ProviderTool]) -> UnknownTool:
    names = ", ".join([t.name for t in known if t.name])
    return UnknownTool(f"There is no tool {name!r}. The tools are: {names or 'none'}.")


def _broken(call: ToolCall) -> bool:
    """Whether the vendor said that the call is broken although its arguments look whole.

    Arguments that are no JSON are left to the tool: it refuses them in better words.
    """
    if not (call.metadata or {}).get("llmstream", {}).get("invalid"):
        return False
    try:
        msgspec.json.decode(call.arguments.strip() or "{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def _cancelled_from_outside() -> bool:
    """Tells our own cancellation from that of something the tool waited for."""
    task = asyncio.current_task()
    return anyio.current_effective_deadline() == -inf or (task is not None and task.cancelling() > 0)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
