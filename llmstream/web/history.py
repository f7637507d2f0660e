"""What the log of a run that has ended adds to a conversation: its events, and its messages.

A run reports its messages itself when it ends. If its process died, they are folded from its events here, so
that the next prompt continues from what the person has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from llmstream.accumulate import Accumulator
from llmstream.chats.message import Message, Role
from llmstream.events import (
    Event,
    Raw,
    ReasoningDelta,
    StepStart,
    TextDelta,
    ToolInputDelta,
    ToolResult,
)

__all__ = ["compacted", "folded"]


_Delta: TypeAlias = TextDelta | ReasoningDelta | ToolInputDelta


def compacted(events: Sequence[Event]) -> list[Event]:
    """The events with consecutive deltas of a block joined, and without progress that a result has replaced.

    A page that shows them shows the same; they are some fiftieth of the frames.
    """
    # Progress is shown until there is a result.
    done = {one.tool_call_id for one in events if isinstance(one, ToolResult) and not one.preliminary}
    out: list[Event] = []
    deltas: list[_Delta] = []
    for event in events:
        if isinstance(event, Raw) or (
            isinstance(event, ToolResult) and event.preliminary and event.tool_call_id in done
        ):
            continue
        if deltas and not _continues(event, deltas[0]):
            out.append(_joined(deltas))
            deltas = []
        if isinstance(event, _Delta):
            deltas.append(event)
        else:
            out.append(event)
    return [*out, _joined(deltas)] if deltas else out


def _continues(event: Event, first: _Delta) -> bool:
    return (
        isinstance(event, _Delta)
        and type(event) is type(first)
        and event.id == first.id
        # Its metadata belongs to this place, such as a signature in the middle of a text.
        and event.provider_metadata is None
    )


def _joined(deltas: list[_Delta]) -> Event:
    return msgspec.structs.replace(deltas[0], delta="".join([one.delta for one in deltas]))


def folded(events: Iterable[Event]) -> list[Message]:
    """The messages of a run: a response and the results of its calls for each step, as far as they came.

    Calls without a result get a "cancelled" one when the conversation is sent; results of calls that an
    earlier run made come first, in a message of their own.
    """
    steps = [Accumulator()]
    early: list[ToolResult] = []
    for event in events:
        if isinstance(event, StepStart) and steps[-1].partial.parts:
            steps.append(Accumulator())
        # Of a call of the turn before, which this run has continued.
        if isinstance(event, ToolResult) and not steps[-1].tool_calls:
            early.append(event)
        else:
            steps[-1].feed(event)
    messages = [_early_results(early)] if early else []
    for step in steps:
        if step.partial.parts:
            messages.append(step.partial)
        if step.tool_message is not None:
            messages.append(step.tool_message)
    return messages


def _early_results(results: list[ToolResult]) -> Message:
    """Results without their calls, as the model can read them: the calls have "cancelled" results by now."""
    lines = [
        f"The call of {one.tool_name} has run: {msgspec.json.encode(one.result).decode()}" for one in results
    ]
    return Message("", Role.USER, Message.user("\n".join(lines)).parts)
