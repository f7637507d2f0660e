"""Runs within runs: an agent as a tool of another, and its events in the run of that one.

A nested event arrives as a preliminary `tool-result` of the call that asked the sub-agent: its
`result` is the event as JSON, and its metadata says whose it is. So ids stay unique, the sentence
stays one, and a reader who does not care sees progress of a tool.
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


class NestedEvent(NamedTuple):
    """An event of a sub-agent.

    agent:       its name
    parent_call: the id of the call that asked it
    event:       the event; of a sub-agent's own sub-agent a preliminary result again
    """

    agent: str
    parent_call: str
    event: Event


@dataclass(frozen=True, slots=True)
class Nested:
    """What a sub-agent reports as progress: one of its events."""

    agent: str
    event: Event


@dataclass(frozen=True, slots=True)
class Spent:
    """What a sub-agent reports at its end: the model and the tokens of each answer, for the run above."""

    answers: tuple[tuple[str, Usage], ...]


@dataclass(frozen=True, slots=True)
class Waits:
    """What a sub-agent reports where its run is suspended: the call that asked it waits too."""

    suspension: Suspension


def as_result(nested: Nested, call: ToolCall) -> ToolResultEvent:
    """The event in the run of the agent above."""
    metadata: dict[str, dict[str, Any]] = {OWN_KEY: {"agent": nested.agent, "parent_call": call.id}}
    value = msgspec.to_builtins(nested.event)
    return ToolResultEvent(value, call.id, call.name, preliminary=True, provider_metadata=metadata)


def nested_event(event: Event) -> NestedEvent | None:
    """The sub-agent's event that an event holds, or None where it is one of the run itself.

    raises: DecodeError where it says that it holds one and does not
    """
    if not isinstance(event, ToolResultEvent) or not event.preliminary:
        return None
    own = (event.provider_metadata or {}).get(OWN_KEY, {})
    if "parent_call" not in own:
        return None
    return NestedEvent(
        str(own.get("agent", "")), event.tool_call_id, decode(msgspec.json.encode(event.result))
    )
