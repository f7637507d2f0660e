"""Context effects: functions that select which messages of a long conversation are sent to the model.

The effects here never separate a call from its result, never drop a system message, and keep the
order. If messages were dropped, the rest begins with a user message.
"""

from llmstream.agent.context.cutting import (
    approximate_tokens,
    cut_tool_results,
    sliding_window,
    summarise,
    token_budget,
)
from llmstream.agent.context.effects import ContextEffect, Effect, applied

__all__ = [
    "ContextEffect",
    "Effect",
    "applied",
    "approximate_tokens",
    "cut_tool_results",
    "sliding_window",
    "summarise",
    "token_budget",
]
