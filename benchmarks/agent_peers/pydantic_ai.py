"""Pydantic AI: an agent's run as events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

PACKAGES = ("pydantic-ai-slim[openai]",)


@asynccontextmanager
async def runner(
    url: str, look: Callable[[int], str], steps: int
) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    """A function that runs one agent and gives its last text."""
    from pydantic_ai import Agent, AgentRunResultEvent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    agent = Agent(OpenAIChatModel("any", provider=OpenAIProvider(base_url=url, api_key="key")), tools=[look])

    async def run(prompt: str) -> str:
        async with agent.run_stream_events(
            prompt, usage_limits=UsageLimits(request_limit=steps + 1)
        ) as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    return event.result.output
        raise AssertionError("a run without a result")

    yield run
