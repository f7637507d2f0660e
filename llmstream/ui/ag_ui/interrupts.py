"""Interrupts: the questions about calls that wait for a person's decision."""

from __future__ import annotations

import datetime
from typing import Any, Final

import msgspec

from llmstream.ui.ag_ui.output import OWN, present

__all__ = ["Waiting", "interrupt_of"]

_DECISION_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "description": "Whether the call may run."},
        "reason": {"type": "string", "description": "For the model, of a call that may not run."},
        "editedArgs": {"type": "object", "description": "Arguments to run it with, instead of the model's."},
    },
    "required": ["approved"],
}


class Waiting(msgspec.Struct, frozen=True):
    """A call that waits for a person's decision.

    call_id: as the client has it
    name:    of the tool; "" if the call was made in an earlier run
    input:   JSON text of the arguments, if the client does not have those that will run
    owner:   the sub-agent that made it
    """

    approval_id: str
    call_id: str
    name: str
    input: str | None = None
    owner: str | None = None


def interrupt_of(waiting: Waiting, expires_at_s: float | None = None) -> dict[str, Any]:
    """Returns the interrupt of a call: with the arguments, if the page shows others than will run.

    expires_at_s: Unix time
    """
    message, metadata = None, None
    if waiting.name:
        message = f"May {waiting.name} run?"
    if waiting.input is not None:
        message = f"May {waiting.name} run with {waiting.input}?"
        metadata = {OWN: {"toolName": waiting.name, "input": waiting.input}}
    return {
        "id": waiting.approval_id,
        "reason": "tool_call",
        "toolCallId": waiting.call_id,
        "responseSchema": _DECISION_SCHEMA,
        **present(
            message=message,
            metadata=metadata,
            subagentRunId=waiting.owner,
            expiresAt=None if expires_at_s is None else _moment(expires_at_s),
        ),
    }


def _moment(time_s: float) -> str:
    moment = datetime.datetime.fromtimestamp(time_s, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
