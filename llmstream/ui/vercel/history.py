"""A conversation in a page's form: to load, to read again, and to restore after its process died.

- UI messages, for a page that loads.
- Events of the message that a run continues, for a page that reads the run again. A page replaces its message
  by the events it reads. Without the parts before the run it would lose these, and fail at a result whose
  call is missing.
- Messages built from a run's events: the content that pages have seen of a run whose process died.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

import msgspec

from llmstream.accumulate import Accumulator
from llmstream.accumulate.blocks import result_part
from llmstream.agent.history import open_calls, settled
from llmstream.agent.nested import shown_ids
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import (
    CANCELLED,
    File,
    Reasoning,
    Source,
    Text,
    outcome_mark,
    outcome_of,
    own_values,
)
from llmstream.chats.content import ToolCall as CallPart
from llmstream.chats.content import ToolResult as ResultPart
from llmstream.chats.message import Message, Role
from llmstream.chats.ui_form import Card, cards_of, output_value, to_ui, with_cards
from llmstream.events import (
    Custom,
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolCall,
    ToolResult,
)
from llmstream.events import File as FileEvent
from llmstream.events import Source as SourceEvent
from llmstream.tools.approval import PendingCall
from llmstream.ui.page_run import CORRECTED, calls_below, correct, settle
from llmstream.ui.vercel.writer import APPROVAL_OF_5, Version
from llmstream.unique_ids import StepIds

__all__ = ["dump", "last_response", "message_events", "messages_of", "without_placeholders"]

# The prefix of an id that an earlier step used.
_NUMBERED: Final = re.compile(r"\d+/")


def dump(
    messages: Iterable[Message], suspension: Suspension | None = None, *, version: Version = 6
) -> list[dict[str, Any]]:
    """Returns UI messages: what `useChat({messages})` starts with.

    The id of a UI message is "id" in the metadata of its first message; other metadata is for the page,
    except our own.

    messages:   as `run.messages()` returns them
    suspension: of the last run, if it waits; the page shows the calls with their approvals
    version:    of npm `ai` in the page; 5 gets approvals as a `Writer` of that version writes them
    raises:     InvalidRequest for a role or a part that the form does not have
    """
    if version > 5:
        return _dumped(messages, suspension)
    found = _dumped([_without_denials(message) for message in messages], suspension)
    return [message | {"parts": list(_parts_of_5(message["parts"]))} for message in found]


def _dumped(messages: Iterable[Message], suspension: Suspension | None) -> list[dict[str, Any]]:
    if suspension is None:
        return to_ui(messages)
    approvals = {
        pending.call_id: pending.approval_id for pending in suspension.pending if pending.approval_id
    }
    waiting = shown_ids(suspension)
    found = to_ui(without_placeholders(messages, suspension), approvals, waiting)
    # `Chats` has stored them as cards. Otherwise they come at the end, in a step of their own: the page sends
    # decisions once no other call of the last step waits, and the call that runs the sub-agent does.
    there = {part["toolCallId"]: part for part in found[-1]["parts"] if "toolCallId" in part}
    begun = False
    for _, _, shown in suspension.within:
        call = CallPart(shown.call_id, shown.name, shown.arguments)
        (written,) = to_ui([Message.assistant(call)], approvals, waiting)
        part = written["parts"][-1]
        if (card := there.get(part["toolCallId"])) is not None:
            card.pop("errorText", None)
            card.update(part)
            continue
        found[-1]["parts"] += [part] if begun else [{"type": "step-start"}, part]
        begun = True
    return found


def _without_denials(message: Message) -> Message:
    """The message with denied calls as failed ones: parts of npm ai 5 cannot be denied."""
    cards = [
        msgspec.structs.replace(card, is_error=True, outcome=None)
        for card in cards_of(message)
        if card.outcome == "denied"
    ]
    message = with_cards(message, cards)
    parts = [
        msgspec.structs.replace(part, metadata=None)
        if isinstance(part, ResultPart) and outcome_of(part.metadata) == "denied"
        else part
        for part in message.parts
    ]
    return msgspec.structs.replace(message, parts=tuple(parts))


def _parts_of_5(parts: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The parts without states of approvals, which npm ai 5 does not know: a part beside the call asks."""
    for part in parts:
        state = part.get("state")
        if state not in ("approval-requested", "approval-responded"):
            yield part
            continue
        approval = part["approval"]
        yield {name: value for name, value in part.items() if name != "approval"} | {
            "state": "input-available"
        }
        if state == "approval-requested":
            ids = {"approvalId": approval["id"], "toolCallId": part["toolCallId"]}
            yield {"type": f"data-{APPROVAL_OF_5}", "id": approval["id"], "data": ids}


def without_placeholders(messages: Iterable[Message], suspension: Suspension | None) -> tuple[Message, ...]:
    """Returns the history without the placeholder results of waiting calls."""
    history = list(messages)
    if suspension is None or not history or history[-1].role != Role.TOOL:
        return tuple(history)
    waiting = {pending.call_id for pending in suspension.pending} | suspension.inner.keys()
    done = [result for result in history[-1].tool_results if result.tool_call_id not in waiting]
    last = msgspec.structs.replace(history[-1], parts=tuple(done))
    return (*history[:-1], last) if done else tuple(history[:-1])


def message_events(messages: Iterable[Message], waiting: Iterable[PendingCall]) -> Iterator[Event]:
    """Yields the events of one turn's messages.

    waiting: calls that waited when the run began, with the ids that the page has of them; those of
             sub-agents are in no message
    """
    blocks, ids, step, shown = count(), StepIds(), -1, set[str]()
    waiting = list(waiting)
    open_ids = {call.call_id for call in waiting}
    for message in messages:
        if message.role == Role.ASSISTANT:
            step += 1
            yield StepStart(step)
        for part in message.parts:
            if isinstance(part, CallPart):
                part = msgspec.structs.replace(part, id=ids.shown(part.id, step))
                shown.add(part.id)
            elif isinstance(part, ResultPart):
                part = msgspec.structs.replace(part, tool_call_id=ids.shown(part.tool_call_id, step))
            yield from _events(part, f"earlier-{next(blocks)}")
        for card in cards_of(message):
            shown.add(card.id)
            yield ToolCall(card.name, card.arguments, card.id)
            if card.id not in open_ids:
                yield _result_of(card)
    for call in waiting:
        if call.call_id not in shown:
            yield ToolCall(call.name, call.arguments, call.call_id)
        if call.approval_id:
            yield ToolApprovalRequest(call.call_id, call.approval_id)


def _result_of(card: Card) -> ToolResult:
    if card.result is msgspec.UNSET:
        card = card.ended(CANCELLED, is_error=True, outcome="cancelled")
    mark = None if card.outcome is None else outcome_mark(card.outcome)
    return ToolResult(card.result, card.id, card.name, is_error=card.is_error, provider_metadata=mark)


def _events(part: object, block_id: str) -> Iterator[Event]:
    match part:
        case Text():
            yield TextStart(block_id, part.metadata)
            yield TextDelta(part.text, block_id)
            yield TextEnd(block_id)
        case Reasoning():
            yield ReasoningStart(block_id, part.metadata)
            yield ReasoningDelta(part.text, block_id)
            yield ReasoningEnd(block_id)
        case CallPart():
            ran = part.provider_executed
            yield ToolCall(part.name, part.arguments or "{}", part.id, ran, provider_metadata=part.metadata)
        case ResultPart():
            yield ToolResult(
                output_value(part),
                part.tool_call_id,
                part.name,
                part.is_error,
                provider_executed=part.provider_executed,
                provider_metadata=part.metadata,
            )
        case File():
            yield FileEvent(part.media_type, part.url or part.data, part.metadata)
        case Source("url"):
            yield SourceEvent("url", part.id, part.url, part.title or None, provider_metadata=part.metadata)
        case Source():
            yield SourceEvent(
                "document",
                part.id,
                title=part.title,
                media_type=part.media_type,
                filename=part.filename,
                provider_metadata=part.metadata,
            )


def messages_of(earlier: Iterable[Message], events: Iterable[Event]) -> list[Message]:
    """Returns a conversation with the messages of a run added; each call has a result.

    events: all events of the run
    """
    found, events = list(earlier), list(events)
    fold, results = Accumulator(), list[ResultPart]()
    place = last_response(found)
    cards = {} if place is None else {card.id: card for card in cards_of(found[place])}
    below, new_cards = calls_below(events), list[Card]()
    for event in events:
        # A message for each response of the model, as the run had it.
        if isinstance(event, StepStart):
            _add_step(found, fold.partial, results)
            fold, results = Accumulator(), []
        elif isinstance(event, ToolResult) and not event.preliminary and settle(cards, event):
            continue
        # Its person was asked, and the process died before it had stored that the run waits.
        elif isinstance(event, ToolCall) and event.tool_call_id in below:
            new_cards.append(Card(event.tool_call_id, event.tool_name, event.input))
            continue
        elif isinstance(event, Custom) and event.kind == CORRECTED:
            if correct(cards, event):
                continue
            _correct(own_values(event.provider_metadata), found)
            continue
        elif isinstance(event, ToolResult) and not (event.preliminary or event.provider_executed):
            results.append(result_part(event))
        fold.feed(event)
    _add_step(found, fold.partial, results)
    if place is not None:
        found[place] = with_cards(found[place], cards.values())
    last = last_response(found)
    if last is not None:
        found[last] = with_cards(found[last], new_cards)
    return settled(found)


def last_response(messages: Sequence[Message]) -> int | None:
    """The place of the last assistant message, or None."""
    places = range(len(messages) - 1, -1, -1)
    return next((place for place in places if messages[place].role == Role.ASSISTANT), None)


def _correct(changed: Mapping[str, Any], found: list[Message]) -> None:
    """Sets the arguments that a person has edited. Calls of sub-agents are in no message."""
    waiting = {call.id for _, calls in open_calls(found) for call in calls}
    call_id = _own_id(str(changed.get("call_id")), waiting)
    for place in range(len(found) - 1, -1, -1):
        if any(call.id == call_id for call in found[place].tool_calls):
            parts = [
                msgspec.structs.replace(part, arguments=str(changed.get("arguments")))
                if isinstance(part, CallPart) and part.id == call_id
                else part
                for part in found[place].parts
            ]
            found[place] = msgspec.structs.replace(found[place], parts=tuple(parts))
            return


def _add_step(found: list[Message], response: Message, results: list[ResultPart]) -> None:
    if response.parts:
        found.append(response)
    # Not those of sub-agents' calls, which are in no message.
    waiting = {call.id for _, calls in open_calls(found) for call in calls}
    own = [_named(result, waiting) for result in results]
    parts = tuple([result for result in own if result.tool_call_id in waiting])
    if parts and found[-1].role == Role.TOOL:
        # The rest of a step that waited for a person's decision.
        found[-1] = msgspec.structs.replace(found[-1], parts=(*found[-1].parts, *parts))
    elif parts:
        found.append(Message.tool(parts))


def _named(result: ResultPart, waiting: set[str]) -> ResultPart:
    """The result with the id of its call, which has another one in the events if an earlier step used it."""
    name = _own_id(result.tool_call_id, waiting)
    return msgspec.structs.replace(result, tool_call_id=name) if name in waiting else result


def _own_id(name: str, waiting: set[str]) -> str:
    """The id of a waiting call, by the one that the page has of it."""
    while name not in waiting and (numbered := _NUMBERED.match(name)) is not None:
        name = name[numbered.end() :]
    return name
