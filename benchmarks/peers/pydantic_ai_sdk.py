"""Pydantic AI, the text of an agent's run as deltas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

FAMILY = "openai-chat"
PACKAGES = ("pydantic-ai-slim[openai]",)
IMPORT = "import pydantic_ai"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that reads one answer and gives its text."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("any", provider=OpenAIProvider(base_url=url, api_key="key")))

    async def read() -> str:
        async with agent.run_stream("Hi") as run:
            return "".join([text async for text in run.stream_text(delta=True, debounce_by=None)])

    yield read
