"""Calls of sub-agents that a page has shown as calls of its own: a person was asked about them.

They are in no message of the conversation, which belongs to the agent above. So they are in the metadata
of the call that runs the sub-agent, under our own key, which no vendor is sent:

    {"llmstream": {"calls": [{"id": "c/d", "name": "delete", "arguments": "{}", "result": "Gone."}]}}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from llmstream.chats.content import OWN_KEY, Outcome, ToolCall, own_values
from llmstream.chats.message import Message
from llmstream.first_use import prepared

__all__ = ["CARDS", "Card", "cards_of", "with_cards"]

CARDS: Final = "calls"
"""The key of the cards in our own metadata."""

# A card is for people; the model of the sub-agent has read the complete result.
_MAX_CHARS: Final = 50_000


class Card(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call of a sub-agent.

    id:     as the page has it
    result: its JSON value or text; UNSET while there is none
    """

    id: str
    name: str
    arguments: str
    result: Any = msgspec.UNSET
    is_error: bool = False
    outcome: Outcome | None = None

    def ended(self, result: Any, is_error: bool, outcome: Outcome | None) -> Card:
        """The card with its result; a long one is cut."""
        text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
        if len(text) > _MAX_CHARS:
            result = f"{text[:_MAX_CHARS]}\n[cut: the first {_MAX_CHARS} of {len(text)} characters]"
        return msgspec.structs.replace(self, result=result, is_error=is_error, outcome=outcome)


def cards_of(message: Message) -> list[Card]:
    """The calls of sub-agents that calls of a message have run."""
    found: list[Card] = []
    for call in message.tool_calls:
        own = own_values(call.metadata)
        if CARDS in own:
            try:  # they may come from a page
                found += msgspec.convert(own[CARDS], prepared(list[Card]))
            except msgspec.ValidationError:
                continue
    return found


def with_cards(message: Message, cards: Iterable[Card]) -> Message:
    """The message with the cards of its calls; one that is there is replaced."""
    made = {card.id: card for card in (*cards_of(message), *cards)}
    if not made:
        return message
    # A person sees them as one list: they are with the first call.
    parts, left = list(message.parts), [msgspec.to_builtins(card) for card in made.values()]
    for place, part in enumerate(parts):
        if isinstance(part, ToolCall):
            metadata = dict(part.metadata or {})
            own = {name: value for name, value in own_values(metadata).items() if name != CARDS}
            metadata[OWN_KEY] = {**own, CARDS: left} if left else own
            if not metadata[OWN_KEY]:
                del metadata[OWN_KEY]
            parts[place] = msgspec.structs.replace(part, metadata=metadata or None)
            left = []
    return msgspec.structs.replace(message, parts=tuple(parts))
