"""Whole histories: every call has exactly one result, in the message after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.tools import cancelled_results

__all__ = ["open_calls", "settled"]


def settled(messages: Iterable[Message], results: Mapping[str, ToolResult] | None = None) -> list[Message]:
    """The conversation with a result for each call, in call order behind it.

    results: of calls of the last message that made any; a call that has none anywhere gets one
             that says that it was cancelled. Results that are there already stay.
    """
    whole = list(messages)
    for at, calls in reversed(open_calls(whole)):
        known = results or {}
        given = [known[call.id] for call in calls if call.id in known]
        by_id = {r.tool_call_id: r for r in [*given, *cancelled_results(calls, given)]}
        added = [by_id[call.id] for call in calls]
        behind = whole[at + 1] if at + 1 < len(whole) else None
        if behind is not None and behind.role == Role.TOOL:
            found = {r.tool_call_id: r for r in [*behind.tool_results, *added]}
            ordered = [found.pop(call.id) for call in whole[at].tool_calls if call.id in found]
            others = [part for part in behind.parts if not isinstance(part, ToolResult)]
            parts = (*ordered, *found.values(), *others)
            whole[at + 1] = Message(behind.sender, behind.role, parts, behind.metadata)
        else:
            whole.insert(at + 1, Message.tool(added))
        results = None  # those given belong to the last message with open calls
    return whole


def open_calls(messages: list[Message]) -> list[tuple[int, list[ToolCall]]]:
    """The calls without a result, wherever they stand: the place of their message, and they, in order."""
    found: list[tuple[int, list[ToolCall]]] = []
    answered: set[str] = set()
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        answered |= {r.tool_call_id for r in message.tool_results if not r.provider_executed}
        asked: dict[str, ToolCall] = {}
        for call in message.tool_calls:
            if not call.provider_executed:
                asked.setdefault(call.id, call)
        waiting = [call for call in asked.values() if call.id not in answered]
        answered -= asked.keys()  # an id may be used again by an earlier step
        if waiting:
            found.insert(0, (at, waiting))
    return found
