"""What of a long conversation a model is shown: effects, functions from messages to messages.

None of those here parts a call from its result or drops a system message; where one leaves
something out, what remains begins with a user's message. Order stays.
"""

from llmstream.agent.context.budget import approximate_tokens, token_budget
from llmstream.agent.context.effects import ContextEffect, Effect, applied
from llmstream.agent.context.summary import summarise
from llmstream.agent.context.turns import cut_tool_results
from llmstream.agent.context.window import sliding_window

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
