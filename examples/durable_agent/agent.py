"""The agent: a slow tool, and one that needs an approval. Its model is a simulator in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import llmstream as ls
from llmstream.request import Request
from llmstream.simulator.script import Call, Pace
from llmstream.testing import Simulator, Turn
from llmstream.tools import ToolContext, tool


@tool(idempotent=True)  # packing again does no harm, so a crash in the middle is no problem
async def pack(items: int) -> AsyncIterator[str]:
    """Pack the items."""
    for item in range(items):
        await asyncio.sleep(0.3)
        yield f"item {item + 1} of {items}"
    yield f"{items} items are packed"


@tool(needs_approval=True)
async def pay(euros: int, context: ToolContext) -> str:
    """Pay for the shipment. Not idempotent: it never runs twice."""
    return f"paid {euros} euros, reference {context.key}"


def script(request: Request) -> Turn:
    """What the model says next; it depends on the conversation alone."""
    turns = [
        Turn(text="I pack the order first.", calls=(Call("pack", {"items": 5}),)),
        Turn(text="Now the freight has to be paid.", calls=(Call("pay", {"euros": 20}),)),
        Turn(text="Order 17 is packed, paid and on its way."),
    ]
    turn = turns[sum(message.role == "assistant" for message in request.messages)]
    return Turn(text=turn.text, calls=turn.calls, pace=Pace(delta_s=0.05))


@asynccontextmanager
async def clerk() -> AsyncIterator[ls.Agent]:
    """The agent and its model."""
    async with Simulator(script) as simulator:
        model = ls.Model("sim-anthropic:clerk", base_url=simulator.url)
        yield ls.Agent(model, name="clerk", tools=[pack, pay])
