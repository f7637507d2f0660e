"""Wrappers around models: async generators between a model and its reader.

    async def shout(request, ask):
        async for event in ask(request):
            yield TextDelta(event.delta.upper(), event.id) if isinstance(event, TextDelta) else event

    model = wrap("anthropic:claude-sonnet-4-5", shout)

`wrapping.py` shows what a middleware receives and how it becomes a model.
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
