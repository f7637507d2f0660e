"""LangChain's chat model for OpenAI's wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

FAMILY = "openai-chat"
PACKAGES = ("langchain-openai",)
IMPORT = "import langchain_openai"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that reads one answer and gives its text."""
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="any", base_url=url, api_key="key", max_retries=0, use_responses_api=False)

    async def read() -> str:
        return "".join([chunk.text async for chunk in model.astream("Hi")])

    yield read
