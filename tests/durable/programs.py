"""Random agents for durable runs: each seed is a program, the same one in each process.

What a model answers depends on the conversation alone, and decisions on the calls alone, so a run that is
killed has to end as one that nobody disturbs. Delays are random, and not part of a program.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import llmstream as ls
from llmstream.agent import Again, Hooks, Rewrite, RunState, Skip, cost_over
from llmstream.agent.context import sliding_window, summarise, token_budget
from llmstream.agent.hooks import Deny
from llmstream.chats import Message, ToolCall
from llmstream.events import Event, Usage
from llmstream.middleware import Ask, fallback, wrap
from llmstream.request import Request, ToolSpec
from llmstream.simulator.script import Break, Call, Refuse
from llmstream.testing import ScriptedModel, Turn
from llmstream.tools import ToolCallStatus, ToolContext
from tests.durable.clerk import Effects, Receipt

PROMPT = "Begin."
EXTRA = "Extra"
ANSWER = "Done."
TYPED = f'{{"text":"{ANSWER}"}}'

_EFFECTS = ("", "", "", "window", "budget", "summary", "lasting summary")
_TOOLS = ("look", "look", "pay", "pay", "pay", "refund", "external", "fails", "fetch", "helper", "helper")


@dataclass(frozen=True)
class Program:
    """What an agent and its models do.

    steps:    calls of each step, by name of the tool; after the last one the model answers
    effects:  which context effects apply
    skips, repeats: the step in which a hook gives the answer, or rejects the response; -1 for none
    max_steps, max_cost: caps; 0 for none
    breaks:   the step whose response fails, after some tokens; -1 for none
    same_ids: whether calls of all steps have the same ids, as some servers do
    helper:   the program of the sub-agent
    """

    steps: tuple[tuple[str, ...], ...]
    effects: str
    typed: bool
    falls_back: bool
    hooks: bool
    skips: int
    repeats: int
    max_steps: int
    max_cost: float
    breaks: int
    same_ids: bool
    helper: Program | None


def program_of(seed: int) -> Program:
    """The program of a seed."""
    return _program(random.Random(seed), 2)


def _program(dice: random.Random, depth: int) -> Program:
    helper = _program(dice, depth - 1) if depth and dice.random() < 0.6 else None
    tools = [tool for tool in _TOOLS if tool != "helper" or helper is not None]
    if depth < 2:
        tools = [tool for tool in tools if tool != "external"]
    hooks = dice.random() < 0.5
    longest = 3 if depth == 2 else 2
    return Program(
        steps=tuple(
            tuple(dice.choices(tools, k=dice.randint(1, 3))) for _ in range(dice.randint(1, longest))
        ),
        effects=dice.choice(_EFFECTS),
        typed=depth == 2 and dice.random() < 0.3,
        falls_back=dice.random() < 0.3,
        hooks=hooks,
        skips=dice.choice([-1] * 9 + [1]) if hooks else -1,
        repeats=dice.choice([-1, -1, 0, 1]) if hooks else -1,
        max_steps=dice.choice([0] * 8 + [1, 2]),
        max_cost=dice.choice([0.0] * 8 + [0.0002]),
        breaks=dice.choice([-1] * 9 + [1]),
        same_ids=dice.random() < 0.3,
        helper=helper,
    )


async def pause(longest_s: float) -> None:
    """A random pause, mostly a short one."""
    await asyncio.sleep(random.random() ** 3 * longest_s)


async def _slowly(request: Request, ask: Ask) -> AsyncIterator[Event]:
    async for event in ask(request):
        await pause(0.04)
        yield event


def _price(model: str, usage: Usage) -> float:
    return (usage.input_tokens or 0) * 1e-6 + (usage.output_tokens or 0) * 4e-6


class _Script:
    """The model of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def __call__(self, request: Request) -> Turn:
        said = [m.text for m in request.messages if m.role == "assistant" or "Summary of" in m.text]
        number = 1 + max([-1, *(int(found) for text in said for found in re.findall(r"step-(\d+)", text))])
        program = self._program
        if number >= len(program.steps):
            return Turn(text=self._answer(request))
        calls = tuple(self._call(name, number, place) for place, name in enumerate(program.steps[number]))
        fault = Break(after_events=5) if number == program.breaks else None
        return Turn(reasoning="Next.", text=f"step-{number} begins now, after all.", calls=calls, fault=fault)

    def _answer(self, request: Request) -> str:
        if not self._program.typed:
            return ANSWER
        repaired = any("corrected answer" in m.text for m in request.messages if m.role == "user")
        return TYPED if repaired else "no JSON"

    def _call(self, name: str, number: int, place: int) -> Call:
        n = 10 * number + place
        arguments = {"prompt": PROMPT} if name == "helper" else {"n": n}
        return Call(name, arguments, id=f"c{place}" if self._program.same_ids else f"c{n}")


def _summary(request: Request) -> Turn:
    found = re.findall(r"step-\d+", " ".join(m.text for m in request.messages))
    last = max(found, key=lambda step: int(step[5:]), default="nothing")
    return Turn(text=f"They did {last}.")


def _context_effects(kind: str) -> list[Any]:
    writer = wrap(ScriptedModel(_summary, model="writer"), _slowly)
    match kind:
        case "window":
            return [sliding_window(1)]
        case "budget":
            return [token_budget(60)]
        case "summary" | "lasting summary":
            return [summarise(writer, when_tokens_over=40, keep_turns=1, replace=kind != "summary")]
        case _:
            return []


def _hooks(program: Program) -> Hooks:
    async def before_model(state: RunState) -> Any:
        await pause(0.02)
        return Skip("Skipped.") if state.step == program.skips else None

    async def after_model(state: RunState, message: Message) -> Any:
        await pause(0.02)
        return Again("Once more.") if state.step == program.repeats else None

    async def before_tool(state: RunState, call: ToolCall) -> Any:
        await pause(0.02)
        return Deny("not this one") if call.name == "pay" and call.arguments.endswith("2}") else None

    async def after_tool(state: RunState, call: ToolCall, status: ToolCallStatus) -> Any:
        await pause(0.02)
        return Rewrite(f"{status.result.content} (seen)") if call.name == "look" else None

    return Hooks(
        before_model=before_model, after_model=after_model, before_tool=before_tool, after_tool=after_tool
    )


def _agreeing() -> Hooks:
    """Hooks that change nothing."""

    async def agrees(*_: Any) -> None:
        await pause(0.02)

    return Hooks(
        before_model=lambda state: agrees(state),
        after_model=lambda state, message: agrees(state, message),
        before_tool=lambda state, call: agrees(state, call),
        after_tool=lambda state, call, status: agrees(state, call, status),
    )


def agent_of(
    program: Program, effects: Effects, name: str, depth: int = 2, *, newer: bool = False
) -> ls.Agent:
    """The agent of a program; what its tools do goes to a file.

    newer: a version that does the same, and has hooks and a `repair` in any case
    """

    async def work(context: ToolContext, n: int) -> str:
        effects.add(f"tool {context.key}")
        await pause(0.15)
        return f"{n} done"

    @ls.tool(idempotent=True)
    async def look(n: int, context: ToolContext) -> str:
        """Look."""
        await pause(0.15)
        return f"{n} looked at"

    @ls.tool(eager=True)
    async def fetch(n: int, context: ToolContext) -> str:
        """Fetch."""
        await pause(0.1)
        return f"{n} fetched"

    @ls.tool
    async def pay(n: int, context: ToolContext) -> str:
        """Pay."""
        return await work(context, n)

    @ls.tool(needs_approval=True)
    async def refund(n: int, context: ToolContext) -> str:
        """Refund."""
        return await work(context, n)

    @ls.tool
    async def fails(n: int, context: ToolContext) -> str:
        """Fail."""
        await work(context, n)
        raise ValueError("it cannot be done")

    tools: list[Any] = [look, fetch, pay, refund, fails]
    if depth == 2:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        tools.append(ToolSpec("external", "Done elsewhere.", schema))
    if program.helper is not None:
        tools.append(
            agent_of(program.helper, effects, f"{name}-helper", depth - 1, newer=newer).as_tool(
                "helper", "Help."
            )
        )
    model: ls.Model = wrap(ScriptedModel(_Script(program)), _slowly)
    if program.falls_back:
        down = ScriptedModel(Turn(fault=Refuse(status=401)), model="down", repeat_last=True)
        model = wrap(down, fallback(model))
    options: dict[str, Any] = {"output": Receipt} if program.typed else {}
    if program.max_steps:
        options["max_steps"] = program.max_steps
    if program.max_cost:
        options["stop_when"] = cost_over(program.max_cost)
    if newer:
        options["repair"] = lambda call, error: None
    return ls.Agent(
        model,
        name=name,
        tools=tools,
        hooks=_hooks(program) if program.hooks else _agreeing() if newer else None,
        context_effects=_context_effects(program.effects),
        price=_price,
        **options,
    )


def agents_of(seeds: list[int], effects: Effects, *, newer: bool = False) -> dict[str, ls.Agent]:
    """The agents of some seeds, by name."""
    names = {seed: f"program-{seed}" for seed in seeds}
    return {name: agent_of(program_of(seed), effects, name, newer=newer) for seed, name in names.items()}
