"""Conversations as the messages of a page that loads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from llmstream.agent.suspension import Suspension
from llmstream.chats.content import ToolCall
from llmstream.chats.message import Message, Role
from llmstream.chats.ui_form import to_ui

__all__ = ["dump"]


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
    waiting = {pending.call_id for pending in suspension.pending} | suspension.inner.keys()
    history = list(messages)
    if history and history[-1].role == Role.TOOL:
        # The results of waiting calls are placeholders.
        done = [result for result in history[-1].tool_results if result.tool_call_id not in waiting]
        history[-1] = msgspec.structs.replace(history[-1], parts=tuple(done))
    approvals = {
        pending.call_id: pending.approval_id for pending in suspension.pending if pending.approval_id
    }
    found = to_ui(history, approvals)
    for _, _, shown in suspension.within:
        call = ToolCall(shown.call_id, shown.name, shown.arguments)
        (written,) = to_ui([Message.assistant(call)], approvals)
        found[-1]["parts"].append(written["parts"][-1])
    return found
