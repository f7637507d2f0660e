"""`sliding_window`: sends only the last turns of a conversation."""

from __future__ import annotations

from llmstream.agent.context.effects import ContextEffect, Effect, is_count
from llmstream.agent.context.turns import from_place, turn_starts
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest
from llmstream.streams.history import Repairs

__all__ = ["sliding_window"]


def sliding_window(turns: int, *, replace: bool = False) -> Effect:
    """Sends the last turns, and the system messages.

    turns:   a turn is a user message and everything up to the next one
    replace: also cuts the run's history
    raises:  InvalidRequest for less than one turn
    """
    if not is_count(turns):
        raise InvalidRequest(f"turns must be an integer of at least 1, got {turns!r}")

    def begun() -> ContextEffect:
        repairs = Repairs()

        def window(messages: list[Message]) -> list[Message]:
            history = repairs.repair(messages)[0]
            starts = turn_starts(history)
            return history if len(starts) <= turns else from_place(history, starts[-turns])

        return window

    return Effect.remembering(begun, replace)
