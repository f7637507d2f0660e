"""OpenAI's own package, chat completions as a stream of chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

FAMILY = "openai-chat"
PACKAGES = ("openai",)
IMPORT = "import openai"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that reads one answer and gives its text."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=url, api_key="key", max_retries=0) as client:
        yield reading(client)


def reading(client: Any) -> Callable[[], Awaitable[str]]:
    """The function, of a client on whatever HTTP library."""

    async def read() -> str:
        texts = []
        asked = [{"role": "user", "content": "Hi"}]
        async for chunk in await client.chat.completions.create(model="any", messages=asked, stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                texts.append(chunk.choices[0].delta.content)
        return "".join(texts)

    return read
