"""What type checkers have to conclude of tools. Not run: `test_expectations.py` gives it to both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import assert_type

import llmstream as ls


class City:
    pass


class Deps:
    pass


@ls.tool
def one(number: int, text: str = "") -> float:
    return number


@ls.tool(timeout_s=3, eager=True)
async def two(number: int) -> list[str]:
    return [str(number)]


@ls.tool
async def three(number: int) -> AsyncIterator[City]:
    yield City()


@ls.tool
async def four(name: str, context: ls.ToolContext[Deps]) -> Deps:
    assert_type(context.deps, Deps)
    return context.deps


class Shop:
    @ls.tool
    def count(self, item: str) -> int:
        return len(item)

    @ls.tool(needs_approval=True)
    async def sell(self, item: str) -> City:
        return City()


@dataclass
class Held:
    tool: ls.Tool[[int], str]
    any: ls.Tool


def plain(number: int) -> str:
    return str(number)


async def signatures(shop: Shop, held: Held) -> None:
    assert_type(one(1, text="x"), float)
    assert_type(await two(1), list[str])
    assert_type(three(1), AsyncIterator[City])
    assert_type(await four("x", ls.ToolContext(deps=Deps())), Deps)
    assert_type(shop.count("tea"), int)
    assert_type(await shop.sell(item="tea"), City)
    assert_type(held.tool(1), str)
    held.any(1, 2, three=3)
    one("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    shop.count(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def forms(shop: Shop) -> ls.Agent:
    tools: list[ls.Tool] = [one, two, shop.count, ls.Agent("sim:demo").as_tool("ask")]
    return ls.Agent("sim:demo", tools=[*tools, plain, shop.sell])
