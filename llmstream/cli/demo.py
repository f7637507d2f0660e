"""`llmstream demo`: a simulated model calls tools and answers, over real HTTP, without a key."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from llmstream import Agent
from llmstream.chats.message import Message
from llmstream.cli.asking import Asker
from llmstream.cli.config import INVENTORS, SIMULATED, base_url, wire_of
from llmstream.cli.errors import INTERRUPTED, SUCCESS, exit_status
from llmstream.cli.outputs import JsonEvents, folded, once_each
from llmstream.cli.terminal import columns, print_message, wrapped
from llmstream.cli.tool_sources import DEMO_TOOLS
from llmstream.display.plain import Display, TerminalDisplay, Wait, display_for
from llmstream.events import Event
from llmstream.request import Request
from llmstream.simulator.script import Call, Pace, Turn
from llmstream.simulator.server import Simulator
from llmstream.streams import Model

__all__ = ["PACE", "PROMPT", "Story", "configure", "run"]

_KEY: Final = "sim-key"
# Stands for the spaces of a quoted prompt while a command is wrapped.
_NO_BREAK: Final = "\x00"

_EPILOG: Final = """\
A local server plays the vendor: nothing leaves this machine. The tools are real Python functions.

exit status: 0 success, 2 usage error, 3 the stream ended in an error, 130 interrupted (Ctrl-C), 141 the
reader of the pipe closed it

examples:
  llmstream demo
  llmstream demo --dialect openai-chat    the same events from another vendor's API
"""

_NEXT: Final = (
    ("Talk to the simulator:", "llmstream chat -m sim:demo"),
    ("Ask a model on this machine:", 'llmstream chat -m ollama:llama3.2 "Why is the sky blue?"'),
    (
        "Let a vendor's model call these tools:",
        'llmstream chat -m anthropic:claude-sonnet-4-5 --tools demo "Rain in Lima?"',
    ),
    ("List providers and which keys are set:", "llmstream providers"),
    ("Run this server for your own client:", "llmstream simulate"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--dialect",
        choices=list(SIMULATED),
        metavar="DIALECT",
        default="anthropic",
        help=f"API to simulate (default: anthropic): {', '.join(SIMULATED)}",
    )
    parser.add_argument("--events", action="store_true", help="list more events than the first of each type")
    parser.add_argument("--json", action="store_true", help="print only events, as JSON lines")
    parser.add_argument("--no-color", dest="color", action="store_false", help="disable colours")


def run(arguments: argparse.Namespace) -> int:
    """Runs the demonstration."""
    seen: list[Event] = []
    asker = Asker(lambda: _Recorder(_display(color=arguments.color), seen), warnings=False)
    if arguments.json:
        asker = Asker(JsonEvents)
    status = asyncio.run(_demo(arguments.dialect, asker, introduced=not arguments.json))
    if status == SUCCESS and not arguments.json:
        print("\n".join(["", *_transcript(seen, all_events=arguments.events), "", *_next_steps()]))
    return status


async def _demo(dialect: str, asker: Asker, *, introduced: bool) -> int:
    spoken = wire_of(dialect, None).dialect
    async with Simulator(Story(), api_keys=[_KEY], dialects=[spoken]) as simulator:
        spec = f"{INVENTORS[dialect]}:demo"
        model = Model(spec, base_url=base_url(simulator.url, dialect), api_key=_KEY)
        agent = Agent(model, tools=DEMO_TOOLS, reasoning="low")
        if introduced:
            _introduce(dialect, simulator.url)
        outcome = await asker.ask(agent, [Message.user(PROMPT)])
    if outcome.stopped:
        return INTERRUPTED
    if outcome.error is not None:
        print_message(str(outcome.error))
        return exit_status(outcome.error)
    return SUCCESS


def _introduce(dialect: str, url: str) -> None:
    tools = " and ".join(tool.name for tool in DEMO_TOOLS)
    print(wrapped(f"Asking a simulated model over HTTP at {url}."))
    print(wrapped(f"It speaks the dialect {dialect} and can call {tools}."))
    print(f"\n{wrapped(f'> {PROMPT}')}\n", flush=True)


def _display(*, color: bool) -> Display:
    if sys.stdout.isatty():
        return display_for(sys.stdout, reasoning=True, color=color, hint=print_message)
    return TerminalDisplay(sys.stdout)


class _Recorder:
    """A display that also collects the events."""

    def __init__(self, display: Display, seen: list[Event]) -> None:
        self._display = display
        self._seen = seen

    def feed(self, event: Event) -> None:
        self._seen.append(event)
        self._display.feed(event)

    def wait(self, wait: Wait | None) -> None:
        self._display.wait(wait)

    def settle(self) -> None:
        self._display.settle()

    def close(self, *, stopped: bool = False, usd: float | None = None) -> None:
        self._display.close(stopped=stopped, usd=usd)


def _transcript(events: list[Event], *, all_events: bool) -> Iterator[str]:
    """Formats the events: the first of each type, or all but long runs of deltas."""
    yield wrapped(f"That was a stream of {len(events)} events. Every vendor's stream has the same types:")
    yield ""
    limit = max(30, columns() - 3)
    for line in folded(events, limit=limit) if all_events else once_each(events, limit=limit):
        yield f"  {line}"
    if not all_events:
        yield ""
        yield wrapped("To list more of them: llmstream demo --events")


def _next_steps() -> Iterator[str]:
    """Lists commands to copy; backslashes continue those too long for the terminal."""
    yield "Next steps:"
    for purpose, command in _NEXT:
        yield wrapped(purpose, "  ")
        # A quoted prompt stays in one row: the indent of a second one would become part of it.
        head, quote, prompt = command.partition(' "')
        line = head + (quote + prompt).replace(" ", _NO_BREAK).replace(_NO_BREAK, " ", 1)
        rows = wrapped(line, "    ")
        if "\n" in rows:
            rows = wrapped(line, "    ", width=columns() - 4).replace("\n", " \\\n  ")
        yield rows.replace(_NO_BREAK, " ")


PROMPT: Final = "I have a meeting in Oslo today. What time is it there, and what should I wear?"

PACE: Final = Pace(first_s=0.25, tokens_per_s=110)

_THOUGHT: Final = (
    "The user asks for the time and the weather in Oslo. In winter its clocks are one hour ahead of UTC. "
    "I know neither, but there are tools for both, and the calls do not depend on each other."
)

_ANSWER: Final = """\
It is **{time}** in Oslo. Outside it is **{temperature}** with {sky} and a wind of {wind}, so wear:

1. a warm coat and a scarf,
2. waterproof shoes,
3. lighter clothes below, for the meeting room.

These facts came from your own tools:

```python
weather("Oslo")  # {temperature}, {sky}
clock(1)  # {time}
```
"""


class Story:
    """Two turns: the tool calls, then an answer from their results."""

    def turn(self, request: Request, number: int) -> Turn:
        """Answers one request."""
        results = [part for message in request.messages for part in message.tool_results]
        if not results:
            return Turn(
                reasoning=_THOUGHT,
                text="Let me look that up.",
                calls=(
                    Call("weather", {"city": "Oslo"}),
                    Call("clock", {"utc_offset_hours": 1}),
                ),
                pace=PACE,
            )
        facts: dict[str, Any] = msgspec.json.decode(results[0].content)
        return Turn(text=_ANSWER.format(time=results[-1].content[11:16], **facts), pace=PACE)
