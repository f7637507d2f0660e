"""OpenAI's own package on aiohttp in place of httpx, chat completions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from benchmarks.peers.openai_sdk import reading

FAMILY = "openai-chat"
PACKAGES = ("openai[aiohttp]",)
IMPORT = "import openai"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that reads one answer and gives its text."""
    from openai import AsyncOpenAI, DefaultAioHttpClient

    http = DefaultAioHttpClient()
    async with AsyncOpenAI(base_url=url, api_key="key", max_retries=0, http_client=http) as client:
        yield reading(client)
