"""Microseconds of CPU an event, llmstream beside the floor, per dialect and size of writes.

Each figure is the median of several rounds; floor and library take turns in one process against
one replay server in another. All readers are checked to have seen the same text.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable

import aiohttp

import llmstream as ls
from benchmarks.floor import FLOORS

PROVIDERS = {
    "openai-chat": "openai",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "google",
    "gemini-interactions": "google-interactions",
    "bedrock-converse": "bedrock",
    "cohere": "cohere",
    "mistral": "mistral",
    "ollama": "ollama",
}
MODES = ("blocks", "events")
Reader = Callable[[], Awaitable[str]]


def readers(
    family: str, url: str, session: aiohttp.ClientSession, model: ls.Model | None = None
) -> dict[str, Reader]:
    """The floor in the session, and llmstream at four depths."""
    model = model or ls.Model(f"{PROVIDERS[family]}:any", base_url=url, api_key="key")

    async def floor() -> str:
        async with session.post(url, json={}) as response:
            return "".join([text async for text in FLOORS[family](response)])

    async def bare_events() -> str:
        return "".join([e.delta async for e in model.events("Hi") if type(e) is ls.TextDelta])

    async def event_stream() -> str:
        async with model.stream("Hi") as stream:
            return "".join([e.delta async for e in stream if type(e) is ls.TextDelta])

    async def accumulated() -> str:
        async with model.stream("Hi") as stream:
            async for _ in stream:
                pass
            return stream.message.text

    async def agent() -> str:
        async with ls.Agent(model).stream("Hi") as run:
            return "".join([e.delta async for e in run if type(e) is ls.TextDelta])

    return {
        "floor": floor,
        "events": bare_events,
        "stream": event_stream,
        "message": accumulated,
        "agent": agent,
    }


async def measure(family: str, mode: str, base: str, count: int, rounds: int) -> dict[str, float]:
    """Median microseconds of CPU an event, reader by reader."""
    taken: dict[str, list[float]] = {}
    texts: dict[str, int] = {}
    async with aiohttp.ClientSession() as session:
        ways = readers(family, f"{base}/{family}/{count}/{mode}", session)
        for number in range(rounds + 1):
            for name, read in ways.items():
                started = time.process_time()
                texts[name] = hash(await read())
                if number:  # the first round warms up
                    taken.setdefault(name, []).append((time.process_time() - started) / count * 1e6)
    if len(set(texts.values())) != 1:
        raise SystemExit(f"{family}/{mode}: the readers did not see the same text")
    return {name: statistics.median(values) for name, values in taken.items()}
