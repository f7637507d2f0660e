"""Wrappers around models: async generators that stand between a model and its reader.

    async def shout(request, ask):
        async for event in ask(request):
            yield TextDelta(event.delta.upper(), event.id) if isinstance(event, TextDelta) else event

    model = wrap("anthropic:claude-sonnet-4-5", shout)

Read `asking.py` for what a middleware is and gets, `wrapping.py` for what is made of it.
"""

from llmstream.middleware.caching import cache
from llmstream.middleware.fallback import fallback
from llmstream.middleware.log import log_calls
from llmstream.middleware.smoothing import LINE, WORD, smooth
from llmstream.middleware.thinking import extract_thinking
from llmstream.middleware.wrapping import Ask, Middleware, Reply, wrap

__all__ = [
    "LINE",
    "WORD",
    "Ask",
    "Middleware",
    "Reply",
    "cache",
    "extract_thinking",
    "fallback",
    "log_calls",
    "smooth",
    "wrap",
]
