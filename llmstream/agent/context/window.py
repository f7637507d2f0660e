"""The last turns of a conversation."""

from __future__ import annotations

from llmstream.agent.context.effects import ContextEffect, Effect, is_count
from llmstream.agent.context.turns import from_place, turn_starts
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest
from llmstream.streams.history import Repairs

__all__ = ["sliding_window"]


def sliding_window(turns: int, *, replace: bool = False) -> Effect:
    """Shows the last turns, and the system messages.

    turns:   a turn is a user's message and all that follows up to the next
    replace: the run's history is cut too
    raises:  InvalidRequest for less than one turn
    """
    if not is_count(turns):
        raise InvalidRequest(f"a window shows at least one turn, got {turns!r}")

    def begun() -> ContextEffect:
        repairs = Repairs()

        def window(messages: list[Message]) -> list[Message]:
            whole = repairs.repair(messages)[0]
            starts = turn_starts(whole)
            return whole if len(starts) <= turns else from_place(whole, starts[-turns])

        return window

    return Effect.remembering(begun, replace)
