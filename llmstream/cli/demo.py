"""`llmstream demo`: a model streams, calls tools and answers; over real HTTP, without a key."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from llmstream.agent import Agent
from llmstream.chats.message import Message
from llmstream.cli.asking import Asker
from llmstream.cli.demo_tools import DEMO_TOOLS
from llmstream.cli.dialects import INVENTORS, SIMULATED, base_url, wire_of
from llmstream.cli.errors import FINE, INTERRUPTED, exit_status
from llmstream.cli.show import Show, TerminalShow, Wait, show_for
from llmstream.cli.terminal import columns, complain, wrapped
from llmstream.cli.transcript import folded, once_each
from llmstream.events import Event
from llmstream.request import Request
from llmstream.simulator import Call, Pace, Simulator, Turn
from llmstream.streams import Model

__all__ = ["PACE", "PROMPT", "Story", "configure", "run"]

_KEY: Final = "sim-key"
_NO_BREAK: Final = "\x00"

_EPILOG: Final = """\
A server on this machine plays the vendor, so nothing leaves it. The tools are real functions.

examples:
  llmstream demo
  llmstream demo --dialect openai-chat    the same events from another vendor's wire
"""

_NEXT: Final = (
    ("Talk to the simulator:", "llmstream chat -m sim:demo"),
    ("Ask a model on this machine:", 'llmstream chat -m ollama:llama3.2 "Why is the sky blue?"'),
    (
        "Let a vendor's model call these tools:",
        'llmstream chat -m anthropic:claude-sonnet-4-5 --tools demo "Rain in Lima?"',
    ),
    ("See which providers there are, and whose key is set:", "llmstream providers"),
    ("Run this server for a client of your own:", "llmstream simulate"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--dialect",
        choices=list(SIMULATED),
        metavar="NAME",
        default="anthropic",
        help=f"the wire to speak (anthropic): {', '.join(SIMULATED)}",
    )
    parser.add_argument("--events", action="store_true", help="list more of the events, not each kind once")
    parser.add_argument("--no-color", dest="color", action="store_false", help="no colours")


def run(arguments: argparse.Namespace) -> int:
    """Runs the demonstration."""
    return asyncio.run(_demo(arguments.dialect, color=arguments.color, all_events=arguments.events))


async def _demo(dialect: str, *, color: bool, all_events: bool) -> int:
    seen: list[Event] = []
    spoken = wire_of(dialect, None).dialect
    async with Simulator(Story(), api_keys=[_KEY], dialects=[spoken]) as simulator:
        spec = f"{INVENTORS[dialect]}:demo"
        model = Model(spec, base_url=base_url(simulator.url, dialect), api_key=_KEY)
        agent = Agent(model, tools=DEMO_TOOLS, reasoning="low")
        tools = " and ".join(tool.name for tool in DEMO_TOOLS)
        print(wrapped(f"A simulated model at {simulator.url}, asked over real HTTP."))
        print(wrapped(f"It speaks the dialect {dialect}, and may call {tools}."))
        print(f"\n{wrapped(f'> {PROMPT}')}\n", flush=True)
        asker = Asker(lambda: _Both(_show(color=color), seen), warnings=False)
        outcome = await asker.ask(agent, [Message.user(PROMPT)])
    if outcome.stopped:
        return INTERRUPTED
    if outcome.error is not None:
        complain(str(outcome.error))
        return exit_status(outcome.error)
    print("\n".join(["", *_transcript(seen, all_events=all_events), "", *_next_steps()]))
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


def _transcript(events: list[Event], *, all_events: bool) -> Iterator[str]:
    """The events as lines: each kind once, or all but long runs of deltas."""
    yield wrapped(f"What you saw was a stream of {len(events)} events, the same from every vendor:")
    yield ""
    limit = max(30, columns() - 3)
    for line in folded(events, limit=limit) if all_events else once_each(events, limit=limit):
        yield f"  {line}"
    if not all_events:
        yield ""
        yield wrapped("llmstream demo --events lists more of them.")


def _next_steps() -> Iterator[str]:
    """Commands to copy; one that is too long for the terminal is continued as a shell would have it."""
    yield "What to try next:"
    for what, command in _NEXT:
        yield wrapped(what, "  ")
        # A prompt in quotes stays in one row: a shell would see the indent of a second one.
        head, quote, prompt = command.partition(' "')
        whole = head + (quote + prompt).replace(" ", _NO_BREAK).replace(_NO_BREAK, " ", 1)
        rows = wrapped(whole, "    ")
        if "\n" in rows:
            rows = wrapped(whole, "    ", width=columns() - 4).replace("\n", " \\\n  ")
        yield rows.replace(_NO_BREAK, " ")


PROMPT: Final = "I have a meeting in Oslo today. What time is it there, and what should I wear?"

PACE: Final = Pace(first_s=0.25, tokens_per_s=110)

_THOUGHT: Final = (
    "They ask two things about Oslo: the time and the weather. In winter its clocks are an hour "
    "before UTC. I know neither, but there are tools for both, and the calls do not depend on each other."
)

_ANSWER: Final = """\
It is **{time}** in Oslo. Outside it is **{temperature}** with {sky} and a wind of {wind}, so:

1. a warm coat and a scarf,
2. shoes that keep the snow out,
3. something lighter below, for the meeting room.

These facts are what your own tools gave:

```python
weather("Oslo")  # {temperature}, {sky}
clock(1)  # {time}
```
"""


class Story:
    """Two turns: the calls, then an answer made of what they gave."""

    def turn(self, request: Request, number: int) -> Turn:
        """The answer to a request."""
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
