"""Structured output: partial objects while the response arrives, a validated one at the end.

The first response of this model has a word where a number belongs. The model receives the error and
responds again; the values begin again. A field that has not arrived is `msgspec.UNSET`.
"""

from __future__ import annotations

import asyncio

import msgspec
from _arguments import SCRIPTS, model

import llmstream as ls


class Step(msgspec.Struct):
    """What to do, and for how many minutes."""

    text: str
    minutes: int | None = None


class Recipe(msgspec.Struct):
    """A recipe, short."""

    title: str
    minutes: int
    steps: list[Step]


async def main(spec: str) -> None:
    async with ls.stream(spec, "How do I make pea soup?", output=Recipe) as stream:
        try:
            async for recipe in stream.objects():
                print(recipe)
        except ls.InvalidOutput as error:
            print(f"no recipe: {error}\nit said: {error.partial.text}")
            return
        for message in stream.messages()[1:-1]:
            if message.role == "user":
                print("told:", message.text)
        found: Recipe = stream.object
        print(f"{found.title}, {found.minutes} minutes, {len(found.steps)} steps")


if __name__ == "__main__":
    asyncio.run(main(model(__doc__, f"sim:{SCRIPTS / 'pea_soup.json'}")))
