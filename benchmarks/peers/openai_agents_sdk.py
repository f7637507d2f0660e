"""OpenAI's agents package, a run of one step over chat completions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

FAMILY = "openai-chat"
PACKAGES = ("openai-agents",)
IMPORT = "import agents"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that reads one answer and gives its text."""
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    async with AsyncOpenAI(base_url=url, api_key="key", max_retries=0) as client:
        agent = Agent(name="any", model=OpenAIChatCompletionsModel("any", client))

        async def read() -> str:
            texts = []
            async for event in Runner.run_streamed(agent, "Hi").stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    texts.append(event.data.delta)
            return "".join(texts)

        yield read
