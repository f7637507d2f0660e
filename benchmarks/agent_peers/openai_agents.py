"""OpenAI's agents package over chat completions: a run as events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

PACKAGES = ("openai-agents",)


@asynccontextmanager
async def runner(
    url: str, look: Callable[[int], str], steps: int
) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    """A function that runs one agent and gives its last text."""
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    async with AsyncOpenAI(base_url=url, api_key="key", max_retries=0) as client:
        model = OpenAIChatCompletionsModel("any", client)
        agent = Agent(name="any", model=model, tools=[function_tool(look)])

        async def run(prompt: str) -> str:
            running = Runner.run_streamed(agent, prompt, max_turns=steps + 1)
            async for _ in running.stream_events():
                pass
            return str(running.final_output)

        yield run
