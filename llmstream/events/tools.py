"""Tool calls: their input as it streams, the whole call, results and requests for approval.

`provider_executed` marks calls that the vendor ran itself; `dynamic` tools that were not in
the request (MCP servers of the vendor, for example). The id of a tool input is the id of the
call it becomes.
"""

from __future__ import annotations

from typing import Any

from llmstream.events.base import BaseEvent, Metadata

__all__ = [
    "ToolApprovalRequest",
    "ToolCall",
    "ToolInputDelta",
    "ToolInputEnd",
    "ToolInputStart",
    "ToolResult",
]


class ToolInputStart(BaseEvent, frozen=True, tag="tool-input-start"):
    """The model begins to write the input of a call."""

    tool_name: str
    id: str
    provider_executed: bool = False
    dynamic: bool = False
    title: str | None = None
    provider_metadata: Metadata | None = None


class ToolInputDelta(BaseEvent, frozen=True, tag="tool-input-delta", gc=False):
    """A fragment of the input's JSON text."""

    delta: str
    id: str
    provider_metadata: Metadata | None = None


class ToolInputEnd(BaseEvent, frozen=True, tag="tool-input-end"):
    """The input is over; `incomplete` where the stream broke off inside it."""

    id: str
    incomplete: bool = False
    provider_metadata: Metadata | None = None


class ToolCall(BaseEvent, frozen=True, tag="tool-call"):
    """A complete call. `input` is JSON text, exactly the joined deltas; `{}` where none came.

    invalid: the input is no JSON or the vendor said that the call is broken; do not run it.
    """

    tool_name: str
    input: str
    tool_call_id: str
    provider_executed: bool = False
    dynamic: bool = False
    invalid: bool = False
    provider_metadata: Metadata | None = None


class ToolResult(BaseEvent, frozen=True, tag="tool-result"):
    """What a call gave: any JSON value. `preliminary` results are replaced by later ones."""

    result: Any
    tool_call_id: str
    tool_name: str
    is_error: bool = False
    preliminary: bool = False
    provider_executed: bool = False
    provider_metadata: Metadata | None = None


class ToolApprovalRequest(BaseEvent, frozen=True, tag="tool-approval-request"):
    """A call waits for a person's decision."""

    tool_call_id: str
    approval_id: str
    provider_metadata: Metadata | None = None
