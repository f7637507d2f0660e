"""Google's own package, generated content as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

FAMILY = "gemini"
PACKAGES = ("google-genai",)
IMPORT = "from google import genai"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that reads one answer and gives its text."""
    from google import genai

    client = genai.Client(api_key="key", http_options=genai.types.HttpOptions(base_url=url))

    async def read() -> str:
        texts = []
        async for chunk in await client.aio.models.generate_content_stream(model="any", contents="Hi"):
            if chunk.text:
                texts.append(chunk.text)
        return "".join(texts)

    yield read
    await client.aio.aclose()
