"""Running the calls of one response: concurrently, in call order, exactly one result each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from llmstream.chats.content import ToolCall
from llmstream.request import ProviderTool, ToolSpec
from llmstream.tools.approval import Approve, Approver, Deny
from llmstream.tools.call_tasks import CallTasks, ContextOf, OnProgress, OnResult
from llmstream.tools.function import AnyTool, as_tools
from llmstream.tools.status import ToolCallStatus
from llmstream.tools.tool import Tool

__all__ = ["run_calls"]


async def run_calls(
    calls: Iterable[ToolCall],
    tools: Iterable[AnyTool],
    *,
    limit: int = 8,
    decisions: Mapping[str, Approve | Deny] = {},
    approve: Approver | None = None,
    on_result: OnResult | None = None,
    on_progress: OnProgress | None = None,
    begun: CallTasks | None = None,
    context: ContextOf | None = None,
    on_edit: Callable[[ToolCall], object] | None = None,
) -> list[ToolCallStatus]:
    """Runs complete calls, at most `limit` at a time.

    calls:       an id that occurs twice runs once; a call of a tool that is only declared
                 (ToolSpec, ProviderTool), that the vendor executed, or that needs an approval
                 which nobody gave is not ours to run and gets no status
    decisions:   a person's, by the id of the call; a call that was denied has a status that says so
    approve:     asked about calls that need approval and are not decided about
    on_result:   is told of each call as it ends, in the order of ending
    on_progress: is given what an async generator yields, with its call
    begun:       calls that were started before, with their own limit and context; it is closed at the end
    context:     asked for the context of a call whose tool takes one
    on_edit:     is told, at the end, of each call that was approved with other arguments

    returns: statuses in call order; every failure is one of them
    raises:  nothing of the tools but cancellation and other BaseExceptions, and what `approve` raises;
             InvalidRequest for approved arguments that do not fit.
             `cancelled_results` then says what to put into the history
    """
    known = as_tools(tools)
    ours = _ours(calls, known)
    running = begun or CallTasks(known, limit=limit, on_progress=on_progress, context=context)
    for status in running.statuses.values():
        if on_result is not None:
            on_result(status)
    running.on_result = on_result
    try:
        for call in ours:
            running.start(call, decision=decisions.get(call.id), approve=approve)
        return await running.finished(ours)
    finally:
        if on_edit is not None:
            for call in running.edited.values():
                on_edit(call)
        await running.aclose()


def _ours(calls: Iterable[ToolCall], known: Iterable[Tool | ToolSpec | ProviderTool]) -> list[ToolCall]:
    declared = {t.name for t in known if not isinstance(t, Tool)}
    declared |= {t.type for t in known if isinstance(t, ProviderTool)}
    found: dict[str, ToolCall] = {}
    for call in calls:
        if not call.provider_executed and call.name not in declared:
            found.setdefault(call.id, call)
    return list(found.values())
