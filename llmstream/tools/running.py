"""Running one call: whatever happens it has exactly one result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, TypeAlias

import anyio
import msgspec

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.errors import InvalidRequest, InvalidToolInput, ToolError, UnknownTool
from llmstream.request import ProviderTool, ToolSpec
from llmstream.tools.approval import Approve
from llmstream.tools.arity import takes
from llmstream.tools.context import ToolContext
from llmstream.tools.function import AnyTool, as_tools
from llmstream.tools.outcome import ToolOutcome
from llmstream.tools.signature import object_text
from llmstream.tools.status import ToolCallStatus
from llmstream.tools.tool import Tool

__all__ = [
    "CANCELLED",
    "approval_needed",
    "as_approved",
    "call_error",
    "cancelled_results",
    "find_tool",
    "run_call",
    "tool_limiters",
    "unreadable_input",
]

OnProgress: TypeAlias = Callable[[ToolCall, Any], object]

CANCELLED = "The call was cancelled before it was done. It may have had effects."


def tool_limiters(tools: Iterable[AnyTool]) -> dict[str, anyio.CapacityLimiter]:
    """What holds back the calls of tools that limit themselves, by name; whoever asks first is first."""
    return {
        t.name: anyio.CapacityLimiter(t.concurrency)
        for t in as_tools(tools)
        if isinstance(t, Tool) and t.concurrency is not None
    }


def find_tool(name: str, tools: Iterable[AnyTool]) -> Tool | None:
    """The tool of that name that can run here, or None."""
    return next((t for t in as_tools(tools) if isinstance(t, Tool) and t.name == name), None)


async def approval_needed(
    call: ToolCall, tools: Iterable[AnyTool], context: Callable[[ToolCall], ToolContext] | None = None
) -> bool:
    """Whether a person has to agree to a call; yes where the tool's predicate fails.

    Nobody is asked about a call that cannot run: the model reads why.

    context: asked for the context of the call, which a predicate may take
    """
    found = find_tool(call.name, tools)
    if found is None or found.needs_approval is False or _broken(call):
        return False
    predicate = found.needs_approval
    wanted = context is not None and callable(predicate) and takes(predicate, 2)
    known = context(call) if wanted and context is not None else ToolContext(call.id, call.name)
    try:
        return await found.approval_needed(call.arguments, known)
    except Exception:
        return True


def as_approved(call: ToolCall, decision: Approve, tools: Iterable[AnyTool]) -> ToolCall:
    """The call that a person approved: with other arguments, where the decision has them.

    raises: InvalidRequest where those do not fit the tool: the model cannot repair what a person wrote
    """
    if decision.arguments is None:
        return call
    arguments = msgspec.json.encode(dict(decision.arguments)).decode()
    changed = msgspec.structs.replace(call, arguments=arguments, metadata=None)
    error = call_error(changed, tools)
    if error is not None:
        raise InvalidRequest(f"the arguments that were approved do not fit: {error.message}")
    return changed


def unreadable_input(call: ToolCall) -> InvalidToolInput | None:
    """What is wrong with a call of a tool that is only declared: its arguments are no JSON object.

    Nothing here knows more of such a tool than its schema, so this is all that is checked.
    """
    try:
        msgspec.json.decode(object_text(call.arguments), type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return InvalidToolInput(f"Invalid arguments for {call.name}: no JSON object ({error})")
    if _broken(call):
        return InvalidToolInput(f"The call of {call.name} arrived broken and was not run. Call it again.")
    return None


async def run_call(
    call: ToolCall,
    tools: Iterable[AnyTool],
    *,
    on_progress: OnProgress | None = None,
    context: ToolContext | None = None,
    timeout_s: float | None = None,
) -> ToolCallStatus:
    """Runs one complete call; a call that cannot run has a status that says why. Asks for no approval.

    context:   for a tool that takes one; by default it knows the call only
    timeout_s: for a tool that has no timeout of its own
    """
    known = as_tools(tools)
    found = find_tool(call.name, known)
    if found is None or _broken(call):
        error = call_error(call, known)
        assert error is not None  # it names just these
        return ToolCallStatus.of(call, ToolOutcome.raised(error))
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


def call_error(call: ToolCall, tools: Iterable[AnyTool]) -> ToolError | None:
    """Why a call cannot run: an unknown tool, arguments that do not fit; None where it can."""
    known = as_tools(tools)
    found = find_tool(call.name, known)
    if found is None:
        return _unknown(call.name, known)
    if _broken(call):
        return InvalidToolInput(f"The call of {call.name} arrived broken and was not run. Call it again.")
    try:
        found.named_arguments(call.arguments)
    except InvalidToolInput as error:
        return error
    return None


def cancelled_results(
    calls: Iterable[ToolCall], done: Iterable[ToolResult | ToolCallStatus] = ()
) -> list[ToolResult]:
    """A result for each client call that has none yet, saying that it was cancelled."""
    settled = {status.tool_call_id for status in done}
    results = []
    for call in calls:
        if not call.provider_executed and call.id not in settled:
            settled.add(call.id)
            results.append(ToolResult(call.id, CANCELLED, True, call.name))
    return results


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
