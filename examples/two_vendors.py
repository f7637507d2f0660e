"""One program, two vendors at the same time, the same events.

Both models are called concurrently, each in its own dialect (Chat Completions and Anthropic's
Messages by default). The events are equal except for ids and vendor-specific fields.
"""

from __future__ import annotations

import asyncio

from _arguments import models

import llmstream as ls


async def story(spec: str, prompt: str) -> list[str]:
    """The events of a model, one line each, without vendor-specific fields."""
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
