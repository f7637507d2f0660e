"""One program, unchanged, over every dialect: the same tools, the same events except for ids.

An agent looks up two cities, once for each of the nine dialects. Before the comparison, the example
removes what is specific to a vendor: ids, raw finish reasons, warnings, and how it cuts the input of a
call.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from _arguments import SCRIPTS, models

import llmstream as ls

SCRIPT = SCRIPTS / "two_steps.json"
WIRES = (
    "sim",  # Chat Completions
    "sim-openai-responses",
    "sim-anthropic",
    "sim-gemini",
    "sim-gemini-interactions",
    "sim-bedrock",
    "sim-cohere",
    "sim-mistral",
    "sim-ollama",
)
VENDORS_OWN = ("providerMetadata", "rawFinishReason", "timings", "warnings")
COUNTS = ("inputTokens", "outputTokens", "totalTokens")


@ls.tool
async def weather(city: str, days: int = 1) -> str:
    """Tell the weather of a city.

    Args:
        city: its English name
        days: how many days to look ahead
    """
    if city == "Atlantis":
        raise LookupError("no such city on the map")
    return f"{city}: snow for {days} days"


async def ask(spec: str) -> list[ls.Event]:
    """The program: nothing in it depends on the vendor."""
    agent = ls.Agent(spec, tools=[weather], max_steps=5)
    async with agent.stream("How is the weather in Łódź, and how in Atlantis?") as run:
        return [event async for event in run]


def levelled(events: list[ls.Event]) -> list[dict[str, Any]]:
    """The events as JSON objects, without vendor-specific fields; ids become numbers."""
    story: list[dict[str, Any]] = []
    ids: dict[str, int] = {}
    for event in events:
        if isinstance(event, ls.ResponseMetadata):  # which model answers, where the wire says so
            continue
        told = {k: v for k, v in msgspec.to_builtins(event).items() if k not in VENDORS_OWN}
        for name in {"id", "toolCallId"} & told.keys():
            told[name] = ids.setdefault(told[name], len(ids))
        if "usage" in told:
            told["usage"] = [told["usage"].get(name) for name in COUNTS]
        last = story[-1] if story else {}
        if told["type"] == last.get("type") == "tool-input-delta" and told["id"] == last["id"]:
            last["delta"] += told["delta"]
        else:
            story.append(told)
    return story


async def main(specs: list[str]) -> None:
    stories = {spec: levelled(await ask(spec)) for spec in specs}
    first = stories[specs[0]]
    for told in first:
        words = (f"{name}={value!r}" for name, value in told.items() if name != "type")
        print(f"{told['type']:<17}{' '.join(words)}".rstrip())
    for spec, story in stories.items():
        wire = spec.partition(":")[0]
        print(f"{wire:<24}{len(story)} events, {'the same' if story == first else 'others'}")


if __name__ == "__main__":
    asyncio.run(main(models(__doc__, *(f"{wire}:{SCRIPT}" for wire in WIRES))))
