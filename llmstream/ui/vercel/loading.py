"""Conversations as the messages of a page that loads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from llmstream.agent.suspension import Suspension
from llmstream.chats.content import ToolCall
from llmstream.chats.message import Message, Role
from llmstream.chats.ui_form import to_ui

__all__ = ["dump", "without_placeholders"]


def dump(messages: Iterable[Message], suspension: Suspension | None = None) -> list[dict[str, Any]]:
    """Returns UI messages: what `useChat({messages})` starts with.

    The id of a UI message is "id" in the metadata of its first message; other metadata is for the page,
    except our own.

    messages:   as `run.messages()` returns them
    suspension: of the last run, if it waits; the page shows the calls with their approvals
    raises:     InvalidRequest for a role or a part that the form does not have
    """
    if suspension is None:
        return to_ui(messages)
    approvals = {
        pending.call_id: pending.approval_id for pending in suspension.pending if pending.approval_id
    }
    found = to_ui(without_placeholders(messages, suspension), approvals)
    for _, _, shown in suspension.within:
        call = ToolCall(shown.call_id, shown.name, shown.arguments)
        (written,) = to_ui([Message.assistant(call)], approvals)
        found[-1]["parts"].append(written["parts"][-1])
    return found


def without_placeholders(messages: Iterable[Message], suspension: Suspension | None) -> tuple[Message, ...]:
    """Returns the history without the results that stand in for those of waiting calls."""
    history = list(messages)
    if suspension is None or not history or history[-1].role != Role.TOOL:
        return tuple(history)
    waiting = {pending.call_id for pending in suspension.pending} | suspension.inner.keys()
    done = [result for result in history[-1].tool_results if result.tool_call_id not in waiting]
    last = msgspec.structs.replace(history[-1], parts=tuple(done))
    return (*history[:-1], last) if done else tuple(history[:-1])
