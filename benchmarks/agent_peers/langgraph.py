"""LangGraph's agent, as `langchain` makes it: messages token by token, and the state of each step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

PACKAGES = ("langgraph", "langchain", "langchain-openai")


@asynccontextmanager
async def runner(
    url: str, look: Callable[[int], str], steps: int
) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    """A function that runs one agent and gives its last text."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="any", base_url=url, api_key="key", max_retries=0, use_responses_api=False)
    agent = create_agent(model, tools=[look])

    async def run(prompt: str) -> str:
        text = ""
        given = {"messages": [{"role": "user", "content": prompt}]}
        config = {"recursion_limit": 4 * steps + 4}
        async for mode, found in agent.astream(given, config, stream_mode=["messages", "values"]):
            if mode == "values":
                text = found["messages"][-1].text
        return str(text)

    yield run
