"""What shows a run to a person or a program: the interface, and which one fits where."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

from llmstream.chats.transcript import ran_tool_line
from llmstream.cli.terminal import TerminalFilter, complain, one_line
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
)
from llmstream.streams.reporting import warning_text

__all__ = [
    "PlainShow",
    "Show",
    "Stopwatch",
    "TerminalShow",
    "Wait",
    "call_line",
    "result_line",
    "show_for",
    "source_line",
    "status_line",
    "wait_line",
    "warning_line",
]

_HINT: Final = "plain text only; pip install 'llmstream-sdk[cli]' renders Markdown as it streams"


@dataclass(frozen=True)
class Wait:
    """A request failed and is sent again after a while.

    why:     the HTTP status, or the code of the error
    attempt: the one that is waited for, from 1; `of` so many
    """

    why: str
    seconds: float
    attempt: int
    of: int


class Show(Protocol):
    """Shows the events of one run as they come."""

    def feed(self, event: Event) -> None:
        """Shows one event."""
        ...

    def wait(self, wait: Wait | None) -> None:
        """Shows that the next attempt is waited for; None: it has begun."""
        ...

    def close(self, *, stopped: bool = False) -> None:
        """The run is over, has failed, or was stopped: shows what was held back, and how it went."""
        ...


def show_for(stdout: TextIO, *, reasoning: bool | None, color: bool, markdown: bool = True) -> Show:
    """The show for standard output: live on a terminal, plain in a pipe.

    Has to be called where an event loop runs.
    reasoning: None shows it on a terminal only
    markdown:  whether answers are Markdown, to be rendered on a terminal
    """
    if not stdout.isatty():
        return PlainShow(stdout, sys.stderr, reasoning=bool(reasoning))
    reasoning = reasoning is not False
    if markdown and os.environ.get("TERM") != "dumb":
        try:
            from llmstream.cli.live import LiveShow
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("rich", "pygments", "markdown_it"):
                raise
            complain(_HINT)
        else:
            return LiveShow(stdout, reasoning=reasoning, color=color)
    return TerminalShow(stdout, reasoning=reasoning)


def wait_line(wait: Wait) -> str:
    """A wait in one line, such as "429, waiting 3 s (2 of 3)"."""
    seconds = f"{wait.seconds:.1f}" if wait.seconds < 1 else f"{wait.seconds:.0f}"
    return one_line(f"{wait.why}, waiting {seconds} s ({wait.attempt} of {wait.of})")


def warning_line(warning: Warning) -> str:
    """A warning of the request in words, on one line."""
    return one_line(warning_text(warning))


def source_line(number: int, source: Source) -> str:
    """A source as an entry of a list, on one line."""
    known = filter(None, (source.title or source.filename, source.url or source.media_type))
    return one_line(f"[{number}] {': '.join(known) or source.id}")


_SHORTEST_RATED_S: Final = 0.2
"""A rate over less time is the network's buffer and says nothing of the model."""
_FIRST_TOKENS: Final = frozenset({"text-delta", "reasoning-delta", "tool-input-start", "tool-call", "file"})


class Stopwatch:
    """Watches the events of one run; started when it is made.

    first_token_s: from the start to the first content; None before
    retries:       how often a request was sent again; the waits are part of `first_token_s`
    writing_s:     the time in which the model wrote: from each step's first content to its end
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
        """Notes what an event tells about time."""
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


def status_line(watch: Stopwatch, *, stopped: bool = False) -> str:
    """The closing line, such as "0.42 s to first token · 63 tokens/s · 17 in · 63 out · stop".

    "" where the run failed before anything came: the error says it all.
    """
    finish = watch.finish
    failed = finish is None or finish.finish_reason == "error"
    if watch.first_token_s is None and failed and not stopped:
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
    if stopped or finish is None:
        facts.append("stopped" if stopped else "no finish")
    else:
        facts.append(finish.finish_reason)
    return " · ".join(facts)


_LONG_WAIT_S: Final = 1.0


class PlainShow:
    """Only the text goes to `out`, as it comes and as it is; what else is to be said, to `notes`.

    The text ends with a line feed. Answers of two steps have an empty line between them.

    reasoning: whether reasoning is shown, in the notes
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
        """Notes a wait that is long enough to wonder about."""
        if wait is not None and wait.seconds >= _LONG_WAIT_S:
            self._note(f"llmstream: {wait_line(wait)}\n")

    def close(self, *, stopped: bool = False) -> None:
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


class TerminalShow:
    """Everything in order on one terminal, without colour or cursor movement.

    Also what a demonstration shows in a pipe: nothing that could harm a terminal passes.
    """

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
        """Shows a wait that is long enough to wonder about."""
        if wait is not None:
            self._watch.retries += 1
            if wait.seconds >= _LONG_WAIT_S:
                self._line("wait", f"({wait_line(wait)})\n")

    def close(self, *, stopped: bool = False) -> None:
        """Sources, and how it went."""
        self._turn_to("")
        for number, source in enumerate(self._sources, 1):
            self._write(source_line(number, source) + "\n")
        if status := status_line(self._watch, stopped=stopped):
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
    """A call as it would stand in code, with what cannot be printed escaped."""
    invalid = " (not valid)" if call.invalid else ""
    return f"{one_line(call.tool_name)}({one_line(call.input, limit)}){invalid}\n"


def result_line(result: ToolResult) -> str:
    """The `> Ran tool:` line of a result, safe for a terminal."""
    error = str(result.result) if result.is_error else None
    return one_line(ran_tool_line(result.tool_name, error).rstrip("\n")) + "\n"
