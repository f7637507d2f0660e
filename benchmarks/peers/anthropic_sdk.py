"""Anthropic's own package, its helper for streams, which accumulates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

FAMILY = "anthropic"
PACKAGES = ("anthropic",)
IMPORT = "import anthropic"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that reads one answer and gives its text."""
    from anthropic import AsyncAnthropic

    async with AsyncAnthropic(base_url=url, api_key="key", max_retries=0) as client:

        async def read() -> str:
            asked = [{"role": "user", "content": "Hi"}]
            async with client.messages.stream(model="any", max_tokens=100_000, messages=asked) as stream:
                return "".join([text async for text in stream.text_stream])

        yield read
