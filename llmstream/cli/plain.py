"""A run as plain text: for pipes, and for terminals where nothing better is there."""

from __future__ import annotations

from typing import Final, TextIO

from llmstream.chats.transcript import ran_tool_line
from llmstream.cli.show import Wait, source_line, wait_line, warning_line
from llmstream.cli.terminal import TerminalFilter, one_line
from llmstream.cli.timing import Stopwatch, status_line
from llmstream.events import (
    Event,
    File,
    ReasoningDelta,
    ReasoningEnd,
    Source,
    StreamStart,
    TextDelta,
    ToolCall,
    ToolResult,
)

__all__ = ["PlainShow", "TerminalShow", "call_line", "result_line"]

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
