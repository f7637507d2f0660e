"""Middleware: the built-in kinds, and your own in five lines.

The first model is overloaded, so `fallback` calls the second. That one writes its reasoning into its
text, between tags, and `extract_thinking` turns it into reasoning. The response is cached, so the second
call sends no request. A middleware is an async generator over events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import msgspec
from _arguments import SCRIPTS, models

import llmstream as ls
from llmstream.middleware import Ask, cache, extract_thinking, fallback, smooth, wrap


async def polite(request: ls.Request, ask: Ask) -> AsyncGenerator[ls.Event]:
    """Asks for manners, and looks at every event on the way."""
    manners = ls.Message.system("Answer politely.")
    async for event in ask(msgspec.structs.replace(request, messages=(manners, *request.messages))):
        yield event


async def main(first: str, second: str) -> None:
    retry = ls.Retry(max_retries=0)  # the chain is there for that
    stored: dict[str, bytes] = {}  # or a folder
    model = wrap(
        ls.Model(first, retry=retry),
        polite,
        fallback(second),
        extract_thinking(),
        cache(stored),
        smooth(0.005),
    )
    for time in ("first", "second"):
        print(f"the {time} time:")
        async with model.stream("Why is the sky blue?") as stream:
            async for event in stream:
                match event:
                    case ls.StreamStart(warnings):
                        for warning in warnings:
                            print(" ", getattr(warning, "message", warning))
                    case ls.ResponseMetadata(provider_metadata={"llmstream": {"cached": True}}):
                        print("  from the cache")
        for part in stream.message.parts:
            print(f"  {part.part_kind}: {getattr(part, 'text', part)}")
    print(f"{len(stored)} answer stored; tokens: {stream.usage.total_tokens}")


if __name__ == "__main__":
    simulated = f"sim:{SCRIPTS / 'overloaded.json'}", f"sim:{SCRIPTS / 'thinks_aloud.json'}"
    asyncio.run(main(*models(__doc__, *simulated)))
