"""Whole histories: every call has exactly one result, in the message after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.tools import cancelled_results

__all__ = ["SettledPart", "open_calls", "settled"]

_shape = attrgetter("role", "parts")


class SettledPart:
    """How much of a history that grows is known to have a result for every call.

    A run looks for open calls at each step; without this it would look through all earlier steps
    again. Roles and parts of what is known are compared with those of today, in C and by identity:
    where somebody has exchanged or changed a message, all of it is looked through again.
    """

    def __init__(self) -> None:
        self._known: list[Any] = []

    def length(self, messages: Sequence[Message]) -> int:
        """How many messages, from the first on, need not be looked at."""
        known = self._known
        return len(known) if list(map(_shape, messages[: len(known)])) == known else 0

    def settle(self, messages: list[Message], results: Mapping[str, ToolResult]) -> None:
        """Gives every call a result, in place; see `settled`."""
        start = self.length(messages)
        messages[start:] = settled(messages[start:], results)
        self._known[start:] = map(_shape, messages[start:])

    def open_calls(self, messages: list[Message]) -> list[ToolCall]:
        """The calls without a result, in order."""
        found = open_calls(messages[self.length(messages) :])
        return [call for _, calls in found for call in calls]


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
        answered.difference_update(asked)  # an id may be used again by an earlier step
        if waiting:
            found.append((at, waiting))
    return found[::-1]
