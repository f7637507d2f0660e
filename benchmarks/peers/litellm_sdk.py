"""LiteLLM, chat completions of an address that speaks OpenAI's wire."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

FAMILY = "openai-chat"
PACKAGES = ("litellm",)
IMPORT = "import litellm"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that reads one answer and gives its text."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no download at import
    import litellm

    async def read() -> str:
        texts = []
        asked = [{"role": "user", "content": "Hi"}]
        stream = await litellm.acompletion(
            model="openai/any", messages=asked, stream=True, api_base=url, api_key="key", num_retries=0
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                texts.append(chunk.choices[0].delta.content)
        return "".join(texts)

    yield read
