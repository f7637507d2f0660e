"""Vercel's AI SDK for Python, on the Responses wire."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

FAMILY = "openai-responses"
PACKAGES = ("ai[openai]",)
IMPORT = "import ai"
PYTHON = "3.12"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that reads one answer and gives its text."""
    import ai

    os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "key"}
    model = ai.get_model("openai:any")

    async def read() -> str:
        async with ai.stream(model, [ai.user_message("Hi")]) as stream:
            return "".join([e.chunk async for e in stream if isinstance(e, ai.events.TextDelta)])

    yield read
