"""OpenAI's own package, responses as a stream of events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

FAMILY = "openai-responses"
PACKAGES = ("openai",)
IMPORT = "import openai"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that reads one answer and gives its text."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=url, api_key="key", max_retries=0) as client:

        async def read() -> str:
            texts = []
            async for event in await client.responses.create(model="any", input="Hi", stream=True):
                if event.type == "response.output_text.delta":
                    texts.append(event.delta)
            return "".join(texts)

        yield read
