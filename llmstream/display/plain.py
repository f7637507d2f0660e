"""Displays a run as plain text: for pipes, and for terminals without the extra `cli`.

`display_for` chooses between these displays and `live.LiveDisplay`. All of them print the same
lines for waits, warnings, sources, tool calls and the closing status.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

from llmstream.chats.transcript import ran_tool_line
from llmstream.display.terminal_text import TerminalFilter, one_line
from llmstream.events import (
    Event,
    File,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    Source,
    StepFinish,
    StreamStart,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    Warning,
    warning_text,
)

__all__ = [
    "Display",
    "PlainDisplay",
    "Stopwatch",
    "TerminalDisplay",
    "Wait",
    "call_line",
    "cost_text",
    "display_for",
    "result_line",
    "source_line",
    "status_line",
    "wait_line",
    "warning_line",
]

_HINT: Final = "plain text only. For Markdown: pip install 'llmstream-sdk[cli]'"


@dataclass(frozen=True)
class Wait:
    """The pause after a failed attempt, before the next one.

    why:     HTTP status or error code of the failed attempt
    attempt: number of the next attempt, from 1
    of:      maximum number of attempts
    """

    why: str
    seconds: float
    attempt: int
    of: int


class Display(Protocol):
    """Shows the events of one run as they arrive."""

    def feed(self, event: Event) -> None:
        """Shows one event."""
        ...

    def wait(self, wait: Wait | None) -> None:
        """Shows the wait for the next attempt; None when the attempt starts."""
        ...

    def settle(self) -> None:
        """Shows everything so far and moves to the start of a row: a question to the user follows."""
        ...

    def close(self, *, stopped: bool = False, usd: float | None = None) -> None:
        """Ends the display of a finished, failed or stopped run with its status.

        usd: cost in US dollars; None if unknown
        """
        ...


def display_for(
    stdout: TextIO,
    *,
    reasoning: bool | None,
    color: bool,
    markdown: bool = True,
    hint: Callable[[str], object] | None = None,
) -> Display:
    """Creates the display for standard output; called inside a running event loop.

    reasoning: None shows it on a terminal only
    markdown:  whether to render answers as Markdown on a terminal
    hint:      called with what to install where Markdown cannot be rendered
    """
    if not stdout.isatty():
        return PlainDisplay(stdout, sys.stderr, reasoning=bool(reasoning))
    reasoning = reasoning is not False
    # Such terminals, as in Emacs, cannot move the cursor.
    if markdown and os.environ.get("TERM") != "dumb":
        try:
            from llmstream.display.live import LiveDisplay
        except ModuleNotFoundError as error:
            # Another missing module is a defect, which a plain display would hide.
            if (error.name or "").partition(".")[0] not in ("rich", "pygments", "markdown_it"):
                raise
            if hint is not None:
                hint(_HINT)
        else:
            return LiveDisplay(stdout, reasoning=reasoning, color=color)
    return TerminalDisplay(stdout, reasoning=reasoning)


def wait_line(wait: Wait, waited_s: float = 0.0) -> str:
    """Formats a wait: "429 rate limited, waiting 3 s (attempt 2 of 3)".

    waited_s: how much of it is over
    """
    left_s = max(0.0, wait.seconds - waited_s)
    seconds = f"{left_s:.1f}" if wait.seconds < 1 else f"{math.ceil(left_s - _SLACK_S)}"
    return one_line(f"{wait.why}, waiting {seconds} s (attempt {wait.attempt} of {wait.of})")


# A timer that fires this late or early still shows the full second.
_SLACK_S: Final = 0.05


def warning_line(warning: Warning) -> str:
    """Formats a warning about the request as one line."""
    return one_line(warning_text(warning))


def source_line(number: int, source: Source) -> str:
    """Formats a source as an entry of a numbered list."""
    known = filter(None, (source.title or source.filename, source.url or source.media_type))
    return one_line(f"[{number}] {': '.join(known) or source.id}")


# A rate over less time measures the network's buffers, not the model.
_SHORTEST_RATED_S: Final = 0.2
_FIRST_TOKENS: Final = frozenset({"text-delta", "reasoning-delta", "tool-input-start", "tool-call", "file"})


class Stopwatch:
    """Measures one run, from its own creation on.

    first_token_s: time to the first content, waits for retries included; None before it
    writing_s:     sum over the steps of the time from the first content to the end
    retries:       how many requests were sent again
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.first_token_s: float | None = None
        self.writing_s = 0.0
        self.finish: Finish | None = None
        self.retries = 0
        self._clock = clock
        self._started = clock()
        self._wrote_from: float | None = None

    def feed(self, event: Event) -> None:
        """Updates the times."""
        if isinstance(event, StepFinish | Finish):
            self._pause()
            if isinstance(event, Finish):
                self.finish = event
        elif self._wrote_from is None and event.__struct_config__.tag in _FIRST_TOKENS:
            self._wrote_from = self._clock()
            if self.first_token_s is None:
                self.first_token_s = self._wrote_from - self._started

    def _pause(self) -> None:
        if self._wrote_from is not None:
            self.writing_s += self._clock() - self._wrote_from
            self._wrote_from = None


def status_line(watch: Stopwatch, *, stopped: bool = False, usd: float | None = None) -> str:
    """Formats the closing line: "0.42 s to first token · 63 tokens/s · 17 in · 63 out · $0.0004 · stop".

    "" if the run failed or was stopped before its first content: the message about that is enough.
    """
    finish = watch.finish
    failed = finish is None or finish.finish_reason == "error"
    if watch.first_token_s is None and failed:
        return ""
    usage = finish.usage if finish is not None else Usage()
    facts = []
    if watch.first_token_s is not None:
        again = f" ({watch.retries} {'retry' if watch.retries == 1 else 'retries'})" if watch.retries else ""
        facts.append(f"{watch.first_token_s:.2f} s to first token{again}")
    if usage.output_tokens and watch.writing_s >= _SHORTEST_RATED_S:
        facts.append(f"{usage.output_tokens / watch.writing_s:.0f} tokens/s")
    if usage.input_tokens is not None:
        cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
        facts.append(f"{usage.input_tokens:,} in{cached}")
    if usage.output_tokens is not None:
        thought = f" ({usage.reasoning_tokens:,} reasoning)" if usage.reasoning_tokens else ""
        facts.append(f"{usage.output_tokens:,} out{thought}")
    if usd is not None:
        facts.append(cost_text(usd))
    if stopped or finish is None:
        facts.append("stopped" if stopped else "no finish")
    else:
        facts.append(finish.finish_reason)
    return " · ".join(facts)


def cost_text(usd: float) -> str:
    """Formats a cost: "$0.0042", "$1.25"."""
    if 0 < usd < _MIN_USD:
        return f"< ${_MIN_USD}"
    return f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}"


# Less would be shown as $0.0000.
_MIN_USD: Final = 0.0001
# A shorter wait ends before a message about it could be read.
_LONG_WAIT_S: Final = 1.0


class PlainDisplay:
    """Writes the unchanged text of answers to `out` and everything else to `notes`.

    The text ends with a line feed. An empty line separates the answers of two steps.

    reasoning: whether to write reasoning to the notes
    """

    def __init__(self, out: TextIO, notes: TextIO, *, reasoning: bool = False) -> None:
        self._out = out
        self._notes = notes
        self._reasoning = reasoning
        self._filter = TerminalFilter()
        self._end = ""
        self._between = False

    def feed(self, event: Event) -> None:
        """Shows one event."""
        match event:
            case TextDelta(delta) if delta:
                self._write(delta)
            case ReasoningDelta(delta) if self._reasoning:
                # Notes mostly reach a terminal; the answer goes to a pipe, as data.
                self._note(self._filter.feed(delta))
            case ReasoningEnd() if self._reasoning:
                self._note(self._filter.close() + "\n")
            case ToolCall():
                self._between = bool(self._end)
            case ToolResult(preliminary=False):
                self._note(result_line(event))
            case StreamStart(warnings):
                for warning in warnings:
                    self._note(f"llmstream: warning: {warning_line(warning)}\n")
            case _:
                pass

    def wait(self, wait: Wait | None) -> None:
        """Notes a long wait."""
        if wait is not None and wait.seconds >= _LONG_WAIT_S:
            self._note(f"llmstream: {wait_line(wait)}\n")

    def settle(self) -> None:
        """Does nothing: output to a pipe is not next to a question."""

    def close(self, *, stopped: bool = False, usd: float | None = None) -> None:
        """Ends the last line."""
        if self._end and not self._end.endswith("\n"):
            self._between = False
            self._write("\n")

    def _note(self, text: str) -> None:
        self._notes.write(text)
        self._notes.flush()

    def _write(self, text: str) -> None:
        if self._between:
            self._between = False
            text = ("\n" if self._end.endswith("\n") else "\n\n") + text
        self._end = text[-1]
        self._out.write(text)
        self._out.flush()


class TerminalDisplay:
    """Writes everything in order, without colour or cursor movement, and safe for a terminal."""

    def __init__(self, out: TextIO, *, reasoning: bool = True) -> None:
        self._out = out
        self._reasoning = reasoning
        self._filter = TerminalFilter()
        self._watch = Stopwatch()
        self._sources: list[Source] = []
        self._kind = ""
        self._at_line_start = True

    def feed(self, event: Event) -> None:
        """Shows one event."""
        self._watch.feed(event)
        match event:
            case TextDelta(delta) if delta:
                self._turn_to("text")
                self._write(self._filter.feed(delta))
            case ReasoningDelta(delta) if delta and self._reasoning:
                if self._turn_to("reasoning"):
                    self._write("(thinking) ")
                self._write(self._filter.feed(delta))
            case ToolCall():
                self._line("tool", call_line(event))
            case ToolResult(preliminary=False):
                self._line("tool", result_line(event))
            case File(media_type):
                self._line("file", f"[a file of type {one_line(media_type)}]\n")
            case Source():
                self._sources.append(event)
            case StreamStart(warnings):
                for warning in warnings:
                    self._line("warning", f"warning: {warning_line(warning)}\n")
            case _:
                pass

    def wait(self, wait: Wait | None) -> None:
        """Shows a long wait."""
        if wait is not None:
            self._watch.retries += 1
            if wait.seconds >= _LONG_WAIT_S:
                self._line("wait", f"({wait_line(wait)})\n")

    def settle(self) -> None:
        """Ends the current block."""
        self._turn_to("")

    def close(self, *, stopped: bool = False, usd: float | None = None) -> None:
        """Shows sources and status."""
        self._turn_to("")
        for number, source in enumerate(self._sources, 1):
            self._write(source_line(number, source) + "\n")
        if status := status_line(self._watch, stopped=stopped, usd=usd):
            self._write(f"— {status}\n")

    def _line(self, kind: str, line: str) -> None:
        self._turn_to(kind)
        self._write(line)

    def _turn_to(self, kind: str) -> bool:
        """Ends the block before, where this is another kind."""
        if kind == self._kind:
            return False
        self._write(self._filter.close())
        if not self._at_line_start:
            self._write("\n")
        if self._kind:
            self._write("\n")
        self._kind = kind
        return True

    def _write(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            self._out.write(text)
            self._out.flush()


def call_line(call: ToolCall, limit: int = 200) -> str:
    """Formats a tool call as code, with unprintable characters escaped."""
    invalid = " (invalid)" if call.invalid else ""
    return f"{one_line(call.tool_name)}({one_line(call.input, limit)}){invalid}\n"


def result_line(result: ToolResult) -> str:
    """Formats the `> Ran tool:` line of a result."""
    error = str(result.result) if result.is_error else None
    return one_line(ran_tool_line(result.tool_name, error).rstrip("\n")) + "\n"
