"""An agent for the tests: two parallel tools, then one that needs an approval; effects go to a file."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llmstream as ls
from llmstream.request import Request
from llmstream.simulator.script import Call
from llmstream.testing import ScriptedModel, Turn
from llmstream.tools import ToolContext

PROMPT = "Ship order 4711."
ANSWER = "Shipped."


def script(request: Request) -> Turn:
    """The answer depends on the conversation alone, so it is the same in each process."""
    number = sum(message.role == "assistant" for message in request.messages)
    weigh = (Call("weigh", {"item": 1}), Call("weigh", {"item": 2}))
    turns = [
        Turn(reasoning="Two items.", text="Weighing.", calls=weigh),
        Turn(text="Paying.", calls=(Call("pay", {"sum": 5}),)),
    ]
    if number < len(turns):
        return turns[number]
    failed = [r.content for m in request.messages for r in m.tool_results if r.is_error]
    return Turn(text=" ".join([ANSWER, *failed]))


class Effects:
    """A file of what tools did, one line each, which a kill leaves whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, line: str) -> None:
        with open(self.path, "a") as file:
            file.write(line + "\n")

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


def clerk(
    effects: Effects,
    *,
    approval: bool = False,
    jitter_s: float = 0.0,
    at: Callable[[str], None] = lambda place: None,
    **options: Any,
) -> ls.Agent:
    """The agent. `at` is called at each effect, with its place: there a test kills the process."""

    async def weigh(item: int, context: ToolContext) -> str:
        """Weigh an item."""
        await asyncio.sleep(random.uniform(0, jitter_s))
        at(f"before weigh {item}")
        effects.add(context.key)
        at(f"after weigh {item}")
        return f"item {item}: 2 kg"

    async def pay(sum: int, context: ToolContext) -> str:
        """Pay for the shipment."""
        await asyncio.sleep(random.uniform(0, jitter_s))
        at("before pay")
        effects.add(context.key)
        at("after pay")
        return "paid"

    def answer(request: Request) -> Turn:
        at("model")
        effects.add(f"asked {os.getpid()}")
        return script(request)

    tools = [weigh, ls.tool(pay, needs_approval=approval)]
    return ls.Agent(ScriptedModel(answer), name="clerk", tools=tools, **options)
