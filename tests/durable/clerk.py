"""An agent for the tests: two parallel tools, then one that pays; effects go to a file."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llmstream as ls
from llmstream.agent import Hooks, RunState
from llmstream.chats import ToolCall
from llmstream.middleware import fallback, wrap
from llmstream.request import Request
from llmstream.simulator.script import Call, Refuse
from llmstream.testing import ScriptedModel, Turn
from llmstream.tools import ToolContext

PROMPT = "Ship order 4711."
MESSAGE = "And be quick."
ANSWER = "Shipped."

At = Callable[[str], None]
"""Called at each effect, with its place: there a test kills the process."""


def nowhere(place: str) -> None:
    """Kills nothing."""


def script(request: Request) -> Turn:
    """The answer depends on the conversation alone, so it is the same in each process."""
    number = sum(message.role == "assistant" for message in request.messages)
    first = {spec.name for spec in request.tools}
    weigh = (Call("weigh", {"item": 1}), Call("weigh", {"item": 2}))
    research = (Call("research", {"prompt": PROMPT}), Call("weigh", {"item": 3}))
    turns = [
        Turn(reasoning="Two items.", text="Weighing.", calls=research if "research" in first else weigh),
        Turn(text="Paying.", calls=(Call("pay", {"sum": 5}),)),
    ]
    if number < len(turns):
        return turns[number]
    if request.response_format is not None:
        # The first answer does not fit its type; the next one comes after the message of the repair.
        return Turn(text="no JSON" if number == len(turns) else f'{{"text":"{ANSWER}"}}')
    failed = [r.content for m in request.messages for r in m.tool_results if r.is_error]
    return Turn(text=" ".join([ANSWER, *failed]))


@dataclass
class Receipt:
    """The answer of an agent with an output type."""

    text: str


class Effects:
    """A file of what was done, one line each, which a kill leaves whole."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def add(self, line: str) -> None:
        with open(self.path, "a") as file:
            file.write(line + "\n")

    def lines(self, what: str) -> list[str]:
        found = self.path.read_text().splitlines() if self.path.exists() else []
        return [line.partition(" ")[2] for line in found if line.startswith(what + " ")]


def clerk(
    effects: Effects,
    *,
    approval: bool = False,
    hooks: bool | Hooks = False,
    more: bool = False,
    deep: bool = False,
    deep_approval: bool = False,
    falls_back: bool = False,
    typed: bool = False,
    jitter_s: float = 0.0,
    at: At = nowhere,
    name: str = "clerk",
    **options: Any,
) -> ls.Agent:
    """The agent.

    hooks: with these; True for one that counts and waits
    more:  a newer version, with one more tool
    deep:  with a sub-agent that does the same
    deep_approval: with such a one, whose payment needs an approval
    falls_back: with a first model that is always down
    typed: with an output type, whose first answer does not fit and is repaired
    """

    async def pause() -> None:
        await asyncio.sleep(random.uniform(0, jitter_s))

    async def weigh(item: int, context: ToolContext) -> str:
        """Weigh an item."""
        await pause()
        at(f"before weigh {item}")
        effects.add(f"tool {context.key}")
        at(f"after weigh {item}")
        return f"item {item}: 2 kg"

    async def pay(sum: int, context: ToolContext) -> str:
        """Pay for the shipment."""
        await pause()
        at("before pay")
        effects.add(f"tool {context.key}")
        at("after pay")
        return "paid"

    async def insure(sum: int) -> str:
        """Insure the shipment."""
        return "insured"

    def answer(request: Request) -> Turn:
        at("model")
        effects.add(f"asked {name}")
        return script(request)

    async def before_tool(state: RunState, call: ToolCall) -> None:
        await pause()
        effects.add(f"hook {name}/{state.step}/{call.id}")

    tools: list[Any] = [insure] if more else []
    tools += [weigh, ls.tool(pay, needs_approval=approval)]
    if deep or deep_approval:
        inner = clerk(
            effects, hooks=hooks, more=more, jitter_s=jitter_s, at=at, name="research", approval=deep_approval
        )
        tools.append(inner.as_tool("research", "Find out."))
    own = Hooks(before_tool=before_tool) if hooks is True else hooks or None
    model: ls.Model = ScriptedModel(answer)
    if falls_back:
        down = ScriptedModel(Turn(fault=Refuse(status=401)), model="down", repeat_last=True)
        model = wrap(down, fallback(model))
    if typed:
        options["output"] = Receipt
    return ls.Agent(model, name=name, tools=tools, hooks=own, **options)
