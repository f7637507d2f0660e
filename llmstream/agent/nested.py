"""Events of sub-agents in the run of the agent that called them.

A nested event is a preliminary `tool-result` of the call that runs the sub-agent: its `result` is the
event as JSON, and its metadata names the sub-agent. So ids stay unique, the event sequence stays valid,
and other readers see it as progress of a tool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from llmstream.chats.content import ToolCall
from llmstream.events import Event, Usage, decode
from llmstream.events import ToolResult as ToolResultEvent

if TYPE_CHECKING:
    from llmstream.agent.suspension import Suspension

__all__ = ["Nested", "NestedEvent", "Spent", "Waits", "as_result", "nested_event"]

OWN_KEY = "llmstream"
"""The key of our own entries in `provider_metadata`."""


class NestedEvent(NamedTuple):
    """An event of a sub-agent.

    agent:       its name
    parent_call: the id of the call that runs it
    event:       the event; one of a deeper sub-agent is itself a preliminary result
    """

    agent: str
    parent_call: str
    event: Event


@dataclass(frozen=True, slots=True)
class Nested:
    """Progress report of a sub-agent: one of its events."""

    agent: str
    event: Event


@dataclass(frozen=True, slots=True)
class Spent:
    """Report at the end of a sub-agent: model and tokens of each response, to count in the parent run."""

    answers: tuple[tuple[str, Usage], ...]


@dataclass(frozen=True, slots=True)
class Waits:
    """Report of a suspended sub-agent: the call that runs it has to wait too."""

    suspension: Suspension


def as_result(nested: Nested, call: ToolCall) -> ToolResultEvent:
    """The nested event as an event of the parent run."""
    metadata: dict[str, dict[str, Any]] = {OWN_KEY: {"agent": nested.agent, "parent_call": call.id}}
    value = msgspec.to_builtins(nested.event)
    return ToolResultEvent(value, call.id, call.name, preliminary=True, provider_metadata=metadata)


def nested_event(event: Event) -> NestedEvent | None:
    """The sub-agent's event inside an event of a run; None if it has none.

    raises: DecodeError if the event is marked as nested but contains no event
    """
    if not isinstance(event, ToolResultEvent) or not event.preliminary:
        return None
    own = (event.provider_metadata or {}).get(OWN_KEY, {})
    if "parent_call" not in own:
        return None
    return NestedEvent(
        str(own.get("agent", "")), event.tool_call_id, decode(msgspec.json.encode(event.result))
    )
