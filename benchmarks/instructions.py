"""Instructions that small programs take, counted by valgrind: the same on a busy machine.

One process runs all programs; each is warm by then. It marks a program's begin and end by a call of
`getloadavg`, at which callgrind writes down what was executed since the last mark. The hash seed is
fixed, garbage is collected at the end of a program, and what two marks cost with nothing in between is
taken off. There is no kernel and no other process in it: connections end in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import gc
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

import llmstream as ls
from benchmarks.bodies import BODIES, CONTENT_TYPES, FRAGMENTS, agent_step, body_of
from benchmarks.cpu import PROVIDERS, readers
from benchmarks.floor import FLOORS
from benchmarks.floor_calls import CALL_FLOORS
from benchmarks.in_memory import (
    BLOCK_BYTES,
    address,
    before_last_piece,
    no_sockets,
    plain_session,
    response,
)
from benchmarks.long_runs import look
from llmstream.accumulate import Accumulator
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.base import dialect_class
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import Event
from llmstream.providers.registry import find_provider
from llmstream.request import Request, Settings, ToolSpec
from llmstream.transport.sessions import close_session

EMPTY = "empty"
# Programs of which only the end counts: from the last bytes of the response, which hold the last events of
# the wire (stop, usage, end mark), to the end of the call.
_END = "end of "
_LAST_EVENTS = 3
# Bytecode is specialised after some calls of a function (PEP 659). Programs that decode call theirs for
# each event.
_WARM_UP, _WARM_UP_DECODING = 8, 2
_ROUNDS = 2
_MARK = "getloadavg"
_STEPS = 10
_LATE_STEPS = (30, 300)
# Sessions of the programs, closed when all have run.
_opened: list[aiohttp.ClientSession] = []
Program = Callable[[], Awaitable[object] | object]


def programs() -> dict[str, Callable[[], Program]]:
    """All of them by name, in the order in which they run, each to be made where a loop runs."""
    found: dict[str, Callable[[], Program]] = {EMPTY: lambda: lambda: None}
    for wire in BODIES:
        found[f"decode/{wire}/200"] = partial(_decoding, wire, 200)
        found[f"decode/{wire}/2000"] = partial(_decoding, wire, 2_000)
        found[f"decode/{wire}/tools"] = partial(_decoding, wire, 200, "tools")
        found[f"decode-floor/{wire}/200"] = partial(_decoding_floor, wire, 200)
        found[f"decode-floor/{wire}/2000"] = partial(_decoding_floor, wire, 2_000)
        found[f"decode-floor/{wire}/tools"] = partial(_decoding_floor, wire, 200, "tools")
    for wire, provider in PROVIDERS.items():
        found[f"encode/{wire}"] = partial(_encoding, provider)
    for kind in ("text", "tools"):
        found[f"fold/{kind}"] = partial(_folding, kind)
    for wire in BODIES:
        found[f"floor/{wire}/1"] = partial(_floor, wire, 1)
        found[f"call/{wire}/1"] = partial(_call, wire, 1)
        found[f"floor/{wire}/200"] = partial(_floor, wire)
        found[f"call/{wire}/200"] = partial(_call, wire)
        found[f"call/{wire}/tools"] = partial(_call, wire, kind="tools")
    for wire in ("openai-chat", "anthropic"):
        found[f"{_END}floor/{wire}"] = partial(_floor, wire, 1, ending=True)
        found[f"{_END}call/{wire}"] = partial(_call, wire, 1, ending=True)
    found["agent/10 steps"] = _agent
    for wire in ("openai-chat", "anthropic"):  # to come so far takes a quarter of a minute
        for number in _LATE_STEPS:
            found[f"step {number}/{wire}"] = partial(_step, wire, number)
    return found


def _decoding(wire: str, count: int, kind: str = "text") -> Program:
    """Blocks of 16 KiB to events that the grammar has checked."""
    blocks, dialect = _blocks(wire, count, kind), dialect_class(wire)()

    def decode() -> list[Event]:
        guarded = GuardedDecoder(dialect.decoder(provider=wire), provider=wire, marked=True)
        found = guarded.start()
        for block in blocks:
            found = guarded.feed(block)
        return found + guarded.close()

    return decode


def _blocks(wire: str, count: int, kind: str) -> list[bytes]:
    body = b"".join(body_of(wire, count, kind))
    return [body[i : i + BLOCK_BYTES] for i in range(0, len(body), BLOCK_BYTES)]


class _Content:
    """The body of a response that has arrived, as aiohttp gives it."""

    def __init__(self, blocks: list[bytes]) -> None:
        self.content = self
        self._blocks = blocks

    async def iter_any(self) -> AsyncIterator[bytes]:
        """One block after the other."""
        for block in self._blocks:
            yield block


def _decoding_floor(wire: str, count: int, kind: str = "text") -> Program:
    """The same blocks to pieces of text, or to calls, by hand."""
    response: Any = _Content(_blocks(wire, count, kind))
    floor = FLOORS[wire] if kind == "text" else CALL_FLOORS[wire]

    async def decode() -> list[object]:
        return [found async for found in floor(response)]

    return decode


_SCHEMA = {
    "type": "object",
    "properties": {
        "place": {"type": "string", "description": "Where"},
        "days": {"type": "integer", "minimum": 1},
    },
    "required": ["place"],
}


def _encoding(provider: str) -> Program:
    """A request with a conversation of twenty messages and five tools."""
    chat = [Message.system("Be brief.")]
    for turn in range(10):
        chat.append(Message.user(f"Question {turn}: " + "word " * 30))
        chat.append(Message.assistant(f"Answer {turn}: " + "text " * 60))
    chat.append(Message.user("And now?"))
    tools = tuple(ToolSpec(f"tool_{number}", "Does a thing.", _SCHEMA) for number in range(5))
    request = Request(
        model="any", messages=tuple(chat), tools=tools, settings=Settings(max_output_tokens=500)
    )
    dialect = find_provider(provider, "any").dialect
    return lambda: dialect.encode(request, provider=provider)


def _folding(kind: str) -> Program:
    """Events of chat completions to a message."""
    decoder = GuardedDecoder(dialect_class("openai-chat")().decoder(provider="openai"), provider="openai")
    events = decoder.start() + decoder.feed(b"".join(body_of("openai-chat", 2_000, kind))) + decoder.close()

    def fold() -> Message:
        accumulator = Accumulator()
        accumulator.feed_many(events)
        return accumulator.message

    return fold


def _answered(wire: str, count: int, kind: str, *, ending: bool) -> str:
    """An address where each request gets an answer of so many events.

    ending: its last events come by themselves
    """
    events = body_of(wire, count, kind)
    cut = -_LAST_EVENTS if ending else len(events)
    answer = response(CONTENT_TYPES[wire], events[:cut])
    if ending:
        *answer, end = answer
        last = b"".join(events[cut:])
        answer.append(b"%x\r\n%b\r\n%b" % (len(last), last, end))
    return address(lambda request: answer)


def _model(wire: str, base: str) -> ls.Model:
    return ls.Model(f"{PROVIDERS[wire]}:any", base_url=f"{base}/v1", api_key="key")


def _floor(wire: str, count: int = 200, *, ending: bool = False) -> Program:
    """The same as `_call` by hand."""
    url, session = f"{_answered(wire, count, 'text', ending=ending)}/v1", plain_session()
    _opened.append(session)
    return readers(wire, url, session)["floor"]


def _call(wire: str, count: int = 200, kind: str = "text", *, ending: bool = False) -> Program:
    """A call from `Model.stream` to the end, all but the kernel."""
    model = _model(wire, _answered(wire, count, kind, ending=ending))

    async def read() -> int:
        wanted = ls.TextDelta if kind == "text" else ls.ToolCall
        async with model.stream("Hi") as stream:
            return len([event async for event in stream if type(event) is wanted])

    return read


def _agent() -> Program:
    """A run of ten steps, each with one call of a tool and its result of 2 KB."""
    calling = response(CONTENT_TYPES["openai-chat"], body_of("openai-chat", FRAGMENTS, "tools"))
    ending = response(CONTENT_TYPES["openai-chat"], body_of("openai-chat", FRAGMENTS))
    last = _STEPS - 1
    base = address(lambda http: ending if http.count(b'"tool_call_id"') == last else calling)
    model = _model("openai-chat", base)

    def weather(place: str) -> str:
        """Tells the weather."""
        return "clouds " * 300

    agent = ls.Agent(model, tools=[weather], max_steps=_STEPS)

    async def run() -> int:
        async with agent.stream("Where does it rain?") as running:
            return len([event async for event in running])

    return run


def _step(wire: str, number: int) -> Program:
    """A step behind so many of a run: a request with all of them, a text, a call and its result."""
    answered = itertools.count(number + 1)
    kind = CONTENT_TYPES[wire]
    model = _model(wire, address(lambda http: response(kind, [agent_step(wire, next(answered), 1)])))
    chat = [Message.user("Read all of it.")]
    for step in range(1, number):
        call = ToolCall(f"call_{step:04}_0", "look", f'{{"page": {step}}}')
        chat.append(Message.assistant("I look.", call))
        chat.append(Message.tool((ToolResult(call.id, look(step), name=call.name),)))
    run = aiter(ls.Agent(model, tools=[look], max_steps=10_000).stream(chat))

    async def step_of_it() -> None:
        async for event in run:
            if isinstance(event, ls.StepStart):
                return

    return step_of_it


async def _run(wanted: str) -> None:
    """In the counted process: each program, between two marks."""
    with no_sockets():
        await _run_programs(wanted)


async def _run_programs(wanted: str) -> None:
    gc.disable()
    for name, make in programs().items():
        if name == EMPTY or fnmatch.fnmatch(name, wanted):
            program = make()
            await _repeat(program, _WARM_UP_DECODING if name.startswith("decode") else _WARM_UP)
            gc.collect()
            gc.freeze()
            if name.startswith(_END):
                await _repeat_ends(name, program)
            else:
                print(name)
                os.getloadavg()
                await _repeat(program, _ROUNDS)
                gc.collect()  # what a round leaves to the collector is part of its cost
                os.getloadavg()
            gc.unfreeze()
    gc.enable()
    while _opened:
        await _opened.pop().close()
    await close_session()


async def _repeat_ends(name: str, program: Program) -> None:
    """Marks the end of each round, as if it were a program of its own."""
    before_last_piece.append(os.getloadavg)
    for _ in range(_ROUNDS):
        print(name)
        await _repeat(program, 1)
        os.getloadavg()
    before_last_piece.clear()


async def _repeat(program: Program, rounds: int) -> None:
    for _ in range(rounds):
        made = program()
        if isinstance(made, Awaitable):
            await made


def count(wanted: str = "*") -> dict[str, int]:
    """Instructions of one round of each program whose name fits the pattern.

    raises: RuntimeError if valgrind fails
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "counts")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={file}", f"--dump-before={_MARK}"]
        command += ["--dump-line=no", sys.executable, "-m", "benchmarks.instructions", wanted]
        env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.getcwd()}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        if done.returncode:
            raise RuntimeError(f"valgrind failed:\n{done.stderr[-2000:]}")
        names = done.stdout.split("\n")[:-1]
        counted = list(zip(names, _marked(file, len(names)), strict=True))
    (_, empty), *others = counted
    counts = dict.fromkeys((name for name, _ in others), 0)
    for name, value in others:
        counts[name] += (value - empty) // _ROUNDS
    return counts


def _marked(file: Path, number: int) -> Iterator[int]:
    """What was executed between the two marks of each program: every second file that was written."""
    for place in range(2, 2 * number + 1, 2):
        text = file.with_name(f"{file.name}.{place}").read_text(encoding="utf-8")
        found = re.search(r"^summary: (\d+)", text, re.MULTILINE)
        assert found is not None, "callgrind writes a summary"
        yield int(found[1])


def unavailable() -> str:
    """Why instructions cannot be counted here; "" if they can."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    return ""


def build() -> str:
    """The interpreter that the counts belong to: another compiler's differ."""
    return f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}"


def main() -> None:
    """Counted itself: `python -m benchmarks.instructions PATTERN` runs the programs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="*", help="which programs, such as 'decode/*'")
    asyncio.run(_run(parser.parse_args().pattern))


if __name__ == "__main__":
    main()
