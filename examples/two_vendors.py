"""One program, two vendors at the same time, the same events.

Both models are asked concurrently, each over its own wire (Chat Completions and Anthropic's
Messages by default). What the events say is equal; only ids and the vendor's own words differ.
"""

from __future__ import annotations

import asyncio

from _arguments import models

import llmstream as ls


async def story(spec: str, prompt: str) -> list[str]:
    """What a model says, as one line an event, without what is the vendor's own."""
    lines: list[str] = []
    async with ls.stream(spec, prompt) as stream:
        async for event in stream:
            match event:
                case ls.TextDelta(text) | ls.ReasoningDelta(text) | ls.ToolInputDelta(text):
                    lines.append(f"{type(event).__name__} {text!r}")
                case ls.Finish(reason):
                    lines.append(f"Finish {reason!r}")
                case _:
                    lines.append(type(event).__name__)
    return lines


async def main(specs: list[str]) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(story(spec, "Say hello.")) for spec in specs]
    stories = [task.result() for task in tasks]
    for spec, lines in zip(specs, stories, strict=True):
        print(f"{spec}: {len(lines)} events")
    for pair in zip(*stories, strict=False):
        print("  ".join(f"{line:<26}" for line in pair).rstrip())
    print("the same events" if stories[0] == stories[1] else "other words, the same kinds of events")


if __name__ == "__main__":
    asyncio.run(main(models(__doc__, "sim:demo", "sim-anthropic:demo")))
