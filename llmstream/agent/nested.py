"""Events of sub-agents in the run of the agent that called them.

A nested event is a preliminary `tool-result` of the call that runs the sub-agent: its `result` is the
event as JSON, and its metadata names the sub-agent. So ids stay unique, the event sequence stays valid,
and other readers see it as progress of a tool.

`in_step` does the same for the steps of one run, which may use an id again. A run that continues a
conversation in the middle of a turn does not use the ids of that turn: readers take both for one response.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from llmstream.chats.content import OWN_KEY, ToolCall, own_values
from llmstream.chats.message import Message, Role
from llmstream.events import DELTAS, Event, ResponseMetadata, decode
from llmstream.events import ToolResult as ToolResultEvent
from llmstream.unique_ids import StepIds

if TYPE_CHECKING:
    from llmstream.agent.state import Expense
    from llmstream.agent.suspension import Suspension

__all__ = [
    "Nested",
    "NestedEvent",
    "Spent",
    "Waits",
    "as_result",
    "in_step",
    "nested_event",
    "shown_ids",
    "turn_calls",
]


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
    """Report at the end of a sub-agent: what each response has used, to count in the parent run."""

    answers: tuple[Expense, ...]


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
    own = own_values(event.provider_metadata)
    if "parent_call" not in own:
        return None
    return NestedEvent(
        str(own.get("agent", "")), event.tool_call_id, decode(msgspec.json.encode(event.result))
    )


@functools.cache  # for each event of a run; there are some thirty kinds
def _id_field(kind: type[Event]) -> str | None:
    """The field with the id of a block or call; None for events of the complete response."""
    if kind is ResponseMetadata:
        return None
    return next((name for name in ("id", "tool_call_id") if name in kind.__struct_fields__), None)


def turn_calls(messages: Sequence[Message]) -> list[str]:
    """The ids of the calls since the last message of the user."""
    found: list[str] = []
    for message in reversed(messages):
        if message.role == Role.USER:
            break
        found += [call.id for call in message.tool_calls]
    return found


def shown_ids(suspension: Suspension) -> dict[str, str]:
    """The ids of the waiting calls in the events of the run, by the id of the call."""
    ids = StepIds(turn_calls(suspension.messages[:-1]))
    found = {pending.call_id: ids.shown(pending.call_id, suspension.step) for pending in suspension.own}
    for parent, _, within in suspension.within:
        found[within.call_id] = ids.shown(parent, suspension.step) + within.call_id.removeprefix(parent)
    return found


def in_step(events: Sequence[Event], step: int, ids: StepIds) -> Sequence[Event]:
    """The events, with ids that no other step of the run uses."""
    out: list[Event] | None = None  # from the first event on that has another id
    block_id = shown_id = ""
    for place, event in enumerate(events):
        shown = event
        # Most are deltas of one block, and most wires use the same ids in each response.
        if type(event) in DELTAS:
            delta: Any = event
            if delta.id is not block_id:
                block_id = delta.id
                shown_id = ids.shown(block_id, step)
            if shown_id is not block_id:
                shown = type(delta)(delta.delta, shown_id, delta.provider_metadata)
        else:
            shown = _in_step(event, step, ids)
        if out is not None:
            out.append(shown)
        elif shown is not event:
            out = [*events[:place], shown]
    return events if out is None else out


def _in_step(event: Event, step: int, ids: StepIds) -> Event:
    field = _id_field(type(event))
    if field is None:
        return event
    block_id = getattr(event, field)
    if block_id is None:
        return event
    shown = ids.shown(block_id, step)
    if shown is block_id:
        return event
    changes: dict[str, Any] = {field: shown}
    own = own_values(getattr(event, "provider_metadata", None))
    if "parent_call" in own:
        changes["provider_metadata"] = {OWN_KEY: {**own, "parent_call": shown}}
    return msgspec.structs.replace(event, **changes)
