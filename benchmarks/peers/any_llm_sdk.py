"""any-llm, chat completions of an address that speaks OpenAI's wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

FAMILY = "openai-chat"
PACKAGES = ("any-llm-sdk[openai]",)
IMPORT = "import any_llm"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that reads one answer and gives its text."""
    from any_llm import AnyLLM

    client = AnyLLM.create("openai", api_key="key", api_base=url)

    async def read() -> str:
        texts = []
        asked = [{"role": "user", "content": "Hi"}]
        async for chunk in await client.acompletion(model="any", messages=asked, stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                texts.append(chunk.choices[0].delta.content)
        return "".join(texts)

    yield read
