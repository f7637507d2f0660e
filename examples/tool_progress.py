"""Progress of tools: values of an async generator, and `context.report`.

Each value arrives as a preliminary result of its call; the last one is the result. The other tool is
eager: it starts as soon as its call is complete, before the response ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from _arguments import SCRIPTS, model

import llmstream as ls

PAGES = ("history", "climate", "people")


@ls.tool
async def crawl(city: str) -> AsyncIterator[dict[str, object]]:
    """Read all pages about a city."""
    read: list[str] = []
    for page in PAGES:
        await asyncio.sleep(0)  # as if it were fetched
        read.append(page)
        yield {"city": city, "read": read.copy(), "of": len(PAGES)}


@ls.tool(eager=True)
async def weather(city: str, context: ls.ToolContext) -> str:
    """Tell the weather of a city."""
    await context.report("asking the station")
    return f"{city}: -2 °C, light snow"


async def main(spec: str) -> None:
    async with ls.Agent(spec, tools=[crawl, weather]).stream("Tell me about Oslo.") as run:
        async for event in run:
            match event:
                case ls.ToolCall(name):
                    print("calls", name)
                case ls.ToolResult({"read": read, "of": pages}, preliminary=True):
                    print(f"  crawl: {len(read)} of {pages}, {read[-1]}")
                case ls.ToolResult(value, tool_name=name, preliminary=True):
                    print(f"  {name}: {value}")
                case ls.ToolResult(_, tool_name=name):
                    print(f"  {name} is done")
    print(run.text)


if __name__ == "__main__":
    asyncio.run(main(model(__doc__, f"sim:{SCRIPTS / 'crawl.json'}")))
