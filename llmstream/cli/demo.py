"""`llmstream demo`: a model streams, calls tools and answers; over real HTTP, without a key."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections.abc import Iterator
from typing import Final

from llmstream.agent import Agent
from llmstream.chats.message import Message
from llmstream.cli.addresses import SIMULATED, model_at
from llmstream.cli.asking import Asker
from llmstream.cli.demo_story import PROMPT, Story
from llmstream.cli.demo_tools import DEMO_TOOLS
from llmstream.cli.dialects import wire_of
from llmstream.cli.exits import FINE, INTERRUPTED, exit_status
from llmstream.cli.plain import TerminalShow
from llmstream.cli.show import Show, Wait, show_for
from llmstream.cli.terminal import complain
from llmstream.cli.transcript import folded
from llmstream.events import Event
from llmstream.simulator import Simulator

__all__ = ["configure", "run"]

_KEY: Final = "sim-key"
_PIPE_COLUMNS: Final = 110

_EPILOG: Final = """\
A server on this machine plays the vendor, so nothing leaves it. The tools are real functions.

examples:
  llmstream demo
  llmstream demo --dialect openai-chat    the same events from another vendor's wire
"""

_NEXT: Final = """\
What to try next:
  llmstream chat -m sim:demo                                    talk to the simulator
  llmstream chat -m ollama:llama3.2 "Why is the sky blue?"      a model on this machine
  llmstream chat -m anthropic:claude-sonnet-4-5 --tools demo "What is the weather in Lima?"
  llmstream providers                                           who is known, whose key is set
  llmstream simulate                                            this server, for your own client
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--dialect", choices=list(SIMULATED), default="anthropic", help="the wire to speak (anthropic)"
    )
    parser.add_argument("--no-color", dest="color", action="store_false", help="no colours")


def run(arguments: argparse.Namespace) -> int:
    """Runs the demonstration."""
    return asyncio.run(_demo(arguments.dialect, color=arguments.color))


async def _demo(dialect: str, *, color: bool) -> int:
    seen: list[Event] = []
    spoken = wire_of(dialect, None).dialect
    async with Simulator(Story(), api_keys=[_KEY], dialects=[spoken]) as simulator:
        model = model_at(simulator.url, dialect, name="demo", key=_KEY)
        agent = Agent(model, tools=DEMO_TOOLS, reasoning="low")
        print(f"A simulated model on {simulator.url}, asked over real HTTP in the dialect {dialect}.")
        print(f"It may call {' and '.join(tool.name for tool in DEMO_TOOLS)}.\n\n> {PROMPT}\n", flush=True)
        asker = Asker(lambda: _Both(_show(color=color), seen), warnings=False)
        outcome = await asker.ask(agent, [Message.user(PROMPT)])
    if outcome.stopped:
        return INTERRUPTED
    if outcome.error is not None:
        complain(str(outcome.error))
        return exit_status(outcome.error)
    print("\n".join(["", *_transcript(seen), "", _NEXT]), end="")
    return FINE


def _show(*, color: bool) -> Show:
    if sys.stdout.isatty():
        return show_for(sys.stdout, reasoning=True, color=color)
    return TerminalShow(sys.stdout)


class _Both:
    """A show that keeps the events as well."""

    def __init__(self, show: Show, seen: list[Event]) -> None:
        self._show = show
        self._seen = seen

    def feed(self, event: Event) -> None:
        self._seen.append(event)
        self._show.feed(event)

    def wait(self, wait: Wait | None) -> None:
        self._show.wait(wait)

    def close(self, *, stopped: bool = False) -> None:
        self._show.close(stopped=stopped)


def _transcript(events: list[Event]) -> Iterator[str]:
    """The events as lines, long runs of deltas folded."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_COLUMNS
    yield f"What you saw was a stream of {len(events)} events, the same from every vendor:"
    yield ""
    for line in folded(events, limit=max(40, columns - 3)):
        yield f"  {line}"
