"""The request of an AG-UI client, `RunAgentInput`, as tolerant Structs.

Fields that are null count as absent, and unknown ones are ignored. Fields of only some messages are checked
when they are read, so that the error can name the message.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Call", "Entry", "Function", "Input", "Message", "OfferedTool", "Remark"]


class Wire(msgspec.Struct, rename="camel"):
    """Base: camelCase names."""


class Function(Wire):
    """The function that a call names. `arguments` is JSON text."""

    name: str
    arguments: str | None = None


class Call(Wire):
    """A call of an assistant's message."""

    id: str
    function: Function
    encrypted_value: Any = None
    metadata: Any = None


class Message(Wire):
    """Any message; a role that is not known has only a role."""

    role: str
    id: str | None = None
    content: Any = None
    name: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    error: str | None = None
    encrypted_value: Any = None
    metadata: Any = None
    subagent_run_id: str | None = None


class OfferedTool(Wire):
    """A tool that the page runs."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Remark(Wire):
    """An entry of the context."""

    description: str
    value: str


class Entry(Wire):
    """What the user decided about an interrupt."""

    interrupt_id: str
    status: str
    payload: Any = None


class Input(Wire):
    """The request."""

    thread_id: str
    run_id: str
    messages: list[Message]
    protocol_version: str | None = None
    parent_run_id: str | None = None
    state: Any = None
    tools: list[OfferedTool] | None = None
    context: list[Remark] | None = None
    forwarded_props: Any = None
    resume: list[Entry] | None = None
