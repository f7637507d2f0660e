"""A process that asks through a cache: `asker.py KEPT MODE`.

live:  one request; its answer stops after the first word until a line comes on standard input
store: requests without end, with long answers
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator

import llmstream as ls
from llmstream.middleware import Ask, cache, wrap
from llmstream.testing import ScriptedModel


async def halting(request: ls.Request, ask: Ask) -> AsyncGenerator[ls.Event]:
    halted = False
    async for event in ask(request):
        yield event
        if isinstance(event, ls.TextDelta) and not halted:
            halted = True
            print("halted", flush=True)
            await asyncio.to_thread(sys.stdin.readline)


async def main(kept: str, mode: str) -> None:
    if mode == "live":
        await wrap(ScriptedModel("one two three"), halting, cache(kept)).stream("Hi").collect()
        print("done", flush=True)
        return
    model = wrap(ScriptedModel("word " * 5_000, repeat_last=True), cache(kept, max_bytes=2_000_000))
    for number in range(100_000):
        await model.stream(f"Hi {number}").collect()
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
