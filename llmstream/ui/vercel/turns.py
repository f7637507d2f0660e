"""What one request of a page does to its conversation: where its run begins, and what is stored after it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from llmstream.agent.nested import shown_ids
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import ToolResult
from llmstream.chats.message import Message, Role
from llmstream.chats.ui_form import Card, cards_of, with_cards
from llmstream.tools.approval import Approve, Deny, PendingCall
from llmstream.ui.vercel.conversations import Conversation
from llmstream.ui.vercel.history import last_response, without_placeholders
from llmstream.ui.vercel.reading import PageRequest
from llmstream.ui.vercel.writer import answer_metadata

if TYPE_CHECKING:
    from llmstream.agent.run import AgentRun

__all__ = ["Turn", "answer_place", "index_of", "requested_turn", "shown_calls", "with_answer"]


@dataclass(frozen=True, slots=True)
class Turn:
    """The run that a request starts.

    messages:   the conversation before the run
    message_id: of the assistant message that the run writes
    resumed:    the suspension that it continues, or None
    decisions, results: with which it continues
    """

    messages: tuple[Message, ...]
    message_id: str
    resumed: Suspension | None = None
    decisions: Mapping[str, Approve | Deny] = field(default_factory=dict)
    results: Sequence[ToolResult] = ()


def requested_turn(old: Conversation, request: PageRequest) -> Turn | None:
    """The run that a request starts; None if it does not fit the stored conversation."""
    # Placeholder results of waiting calls are only for vendors.
    messages = without_placeholders(old.messages, old.suspension)
    message_id = f"msg_{secrets.token_hex(12)}"
    if request.trigger == "regenerate-message":
        kept = _before_answer(messages, request.message_id)
        return Turn(kept, message_id) if kept else None
    if request.messages:
        new = request.messages[-1]
        at = index_of(messages, Role.USER, (new.metadata or {}).get("id"))
        # A known id is that of an edited message, or of one resent after a network failure.
        return Turn((*messages[:at], new), message_id)
    if old.suspension is None or old.message_id is None:
        return None
    pending = old.suspension.pending
    approvals = {call.approval_id for call in pending if call.approval_id}
    # The page has a different id for a call that repeats an id, so older results cannot answer newer calls.
    names = shown_ids(old.suspension)
    external = {names[call.call_id]: call.call_id for call in pending if not call.approval_id}
    # A page sends all decisions that its message has, older ones too.
    decisions = {name: decision for name, decision in request.decisions.items() if name in approvals}
    results = [
        msgspec.structs.replace(result, tool_call_id=external[result.tool_call_id])
        for result in request.results
        if result.tool_call_id in external
    ]
    # Nothing in the request matches a waiting call: it was decided in another tab.
    if not decisions and not results:
        return None
    return Turn(messages, old.message_id, old.suspension, decisions, results)


def shown_calls(resumed: Suspension | None) -> tuple[PendingCall, ...]:
    """The calls that waited, with the ids that the page has of them."""
    if resumed is None:
        return ()
    names = shown_ids(resumed)
    return tuple([msgspec.structs.replace(call, call_id=names[call.call_id]) for call in resumed.pending])


def _before_answer(messages: tuple[Message, ...], message_id: str | None) -> tuple[Message, ...]:
    """The conversation up to the user message whose response is to be made again."""
    at = index_of(messages, Role.ASSISTANT, message_id)
    if at is not None:
        return messages[:at]
    at = index_of(messages, Role.USER, message_id)
    if at is None:
        # Without an id it is the last one.
        users = [place for place, message in enumerate(messages) if message.role == Role.USER]
        at = users[-1] if users else -1
    return messages[: at + 1]


def index_of(messages: Sequence[Message], role: Role, message_id: object) -> int | None:
    """The place of the message that has an id, or None."""
    if message_id is None:
        return None
    for place, message in enumerate(messages):
        if message.role == role and (message.metadata or {}).get("id") == message_id:
            return place
    return None


def with_answer(run: AgentRun[Any], turn: Turn, cards: Sequence[Card] = ()) -> tuple[Message, ...]:
    """The conversation after a run; the first message of its turn has the id, usage, model and cost.

    cards: the calls of sub-agents that the page shows, of those that waited before the run or wait now
    """
    messages = run.messages()
    if messages and messages[0].role == Role.SYSTEM:
        del messages[0]  # the agent's instructions, which the next run adds itself
    _add_cards(messages, turn, cards)
    # A suspension has the history as it was before the id was set.
    at = index_of(turn.messages, Role.ASSISTANT, turn.message_id)
    start = len(turn.messages) if at is None else at
    place = answer_place(messages, start)
    if place is not None:
        model = None if run.response is None else run.response.model_id or run.response.model
        shown = answer_metadata(run.total_usage, model, run.cost_estimate)
        messages[place].metadata = {**(messages[place].metadata or {}), **shown, "id": turn.message_id}
    return tuple(messages)


def _add_cards(messages: list[Message], turn: Turn, cards: Sequence[Card]) -> None:
    # A suspension has the history as it was before its cards were added.
    for place, old in enumerate(turn.messages[: len(messages)]):
        messages[place] = with_cards(messages[place], cards_of(old))
    own = {card.id for card in cards}
    resumed = {call.call_id for call in shown_calls(turn.resumed)} & own
    for ids, end in ((resumed, len(turn.messages)), (own - resumed, len(messages))):
        last = last_response(messages[:end])
        if ids and last is not None:
            messages[last] = with_cards(messages[last], [card for card in cards if card.id in ids])


def answer_place(messages: Sequence[Message], start: int) -> int | None:
    """The place of the first assistant message from `start` on, or None."""
    places = range(start, len(messages))
    return next((place for place in places if messages[place].role == Role.ASSISTANT), None)
