"""Displays a run on a terminal, with Markdown rendered as it grows by rich (extra `cli`).

Finished rows are printed once and scroll away. Only the growing block is redrawn, in at most a
tenth of the time. Model output is cleaned before rendering and again afterwards, because
Markdown has entities for control characters.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.control import Control
from rich.segment import ControlType, Segment
from rich.text import Text

from llmstream.display.growing import GrowingText, GrowingThought, Row, rows_of
from llmstream.display.plain import (
    Stopwatch,
    Wait,
    call_line,
    result_line,
    source_line,
    status_line,
    wait_line,
    warning_line,
)
from llmstream.display.terminal_text import TerminalFilter, one_line
from llmstream.events import (
    Event,
    File,
    ReasoningDelta,
    Source,
    StreamStart,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)

__all__ = ["LiveDisplay"]

# 25 drawings a second: text seems to flow.
_MIN_PAUSE_S: Final = 0.04
# Pause after a drawing, as a multiple of the time that it took.
_PAUSE_PER_COST: Final = 9
# Interval of drawings during a wait.
_TICK_S: Final = 1.0
# A longer wait for the model or a tool shows its seconds.
_LONG_WAIT_S: Final = 2.5
_INPUT_CHARS: Final = 200
# Longest fragment that is shown completely: rendering it takes a second.
_DELTA_CHARS: Final = 100_000

# 2: the complete row, on both sides of the cursor (ECMA-48, 8.3.41).
_ERASE_ROW: Final = (ControlType.ERASE_IN_LINE, 2)
_FREE_ROWS: Final = 1


class _Terminal(Console):
    """A console that raises BrokenPipeError instead of exiting the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class LiveDisplay:
    """Displays one run on a terminal. Created and used inside a running event loop."""

    def __init__(self, out: TextIO, *, reasoning: bool = True, color: bool = True) -> None:
        # None: rich reads NO_COLOR. The text of a model has no markup or emoji codes of rich.
        self._console = _Terminal(
            file=out, no_color=None if color else True, highlight=False, markup=False, emoji=False
        )
        self._region = Region(self._console)
        self._reasoning = reasoning
        self._watch = Stopwatch()
        self._filter = TerminalFilter()
        self._finished: list[Row] = []
        self._block: GrowingText | GrowingThought | None = None
        self._inputs: dict[str, tuple[str, str]] = {}
        self._sources: list[Source] = []
        self._kind = ""
        self._timer: asyncio.TimerHandle | None = None
        self._cost_s = 0.0
        self._lost: OSError | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._is_waiting = True
        self._waits_since = time.monotonic()
        self._retry: Wait | None = None
        self._draw()

    def feed(self, event: Event) -> None:
        """Shows one event with the next drawing.

        raises: OSError if the terminal is gone
        """
        if self._lost is not None:
            raise self._lost
        self._watch.feed(event)
        match event:
            case TextDelta(delta) if delta:
                self._grow("text", delta)
            case ReasoningDelta(delta) if delta and self._reasoning:
                self._grow("reasoning", delta)
            case ToolInputStart(name):
                self._is_waiting = False
                self._turn_to("tool")
                self._inputs[event.id] = (name, "")
            case ToolInputDelta(delta) if event.id in self._inputs:
                name, so_far = self._inputs[event.id]
                # No more is shown of it.
                if len(so_far) < _INPUT_CHARS:
                    self._inputs[event.id] = (name, so_far + delta)
            case ToolInputEnd():
                self._inputs.pop(event.id, None)
            case ToolCall():
                self._show_line("tool", call_line(event, _INPUT_CHARS), "cyan")
                self._begin_wait()
            case ToolResult(preliminary=False):
                self._show_line("tool", result_line(event), "red" if event.is_error else "green")
                self._begin_wait()
            case File(media_type):
                self._show_line("file", f"[a file of type {one_line(media_type)}]", "cyan")
            case Source():
                self._sources.append(event)
            case StreamStart(warnings):
                for warning in warnings:
                    self._show_line("warning", f"warning: {warning_line(warning)}", "yellow")
            case _:
                return
        self._draw_soon()

    def wait(self, wait: Wait | None) -> None:
        """Shows the wait in the last row until the next content."""
        if wait is not None:
            self._watch.retries += 1
        self._begin_wait(wait)
        self._draw_soon()

    def settle(self) -> None:
        """Prints the current block, and nothing more until the next event."""
        self._turn_to("")
        self._is_waiting = False
        self._cancel_timers()
        self._draw()

    def _begin_wait(self, retry: Wait | None = None) -> None:
        """Shows in the last row, until the next content, that and how long the model or a tool is awaited."""
        self._is_waiting, self._retry = True, retry
        self._waits_since = time.monotonic()

    def _waiting_line(self) -> str:
        waited_s = time.monotonic() - self._waits_since
        if self._retry is not None:
            return wait_line(self._retry, waited_s)
        return "…" if waited_s < _LONG_WAIT_S else f"… {waited_s:.0f} s"

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._ticker):
            if timer is not None:
                timer.cancel()
        self._timer = self._ticker = None

    def close(self, *, stopped: bool = False, usd: float | None = None) -> None:
        """Prints the last block, the sources and the status."""
        self._cancel_timers()
        self._turn_to("")
        for number, source in enumerate(self._sources, 1):
            self._finished += self._line(source_line(number, source), "dim")
        if status := status_line(self._watch, stopped=stopped, usd=usd):
            self._finished += self._line(status, "dim")
        self._region.draw(self._finished, [])

    def _grow(self, kind: str, delta: str) -> None:
        self._is_waiting = False
        self._turn_to(kind)
        if self._block is None:
            self._block = (GrowingText if kind == "text" else GrowingThought)(self._console)
        self._finished += self._block.feed(self._filter.feed(_shortened(delta)))

    def _show_line(self, kind: str, line: str, style: str) -> None:
        self._turn_to(kind)
        self._finished += self._line(line.rstrip("\n"), style)

    def _line(self, line: str, style: str) -> list[Row]:
        return rows_of(self._console, Text(line, style=style))

    def _turn_to(self, kind: str) -> None:
        """Finishes the current block if its kind differs."""
        if kind == self._kind:
            return
        if self._block is not None:
            self._finished += self._block.feed(self._filter.close())
            self._finished += self._block.close()
            self._block = None
        if self._kind:
            self._finished.append([])
        self._kind = kind

    def _draw_soon(self) -> None:
        if self._timer is None:
            pause_s = max(_MIN_PAUSE_S, self._cost_s * _PAUSE_PER_COST)
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._draw)

    def _draw(self) -> None:
        self._cancel_timers()
        started = time.monotonic()
        inputs = [
            Text(f"{one_line(name)}({one_line(so_far, _INPUT_CHARS)}…", "dim cyan")
            for name, so_far in self._inputs.values()
        ]
        # The last ones: a model may begin more calls than there are rows.
        growing = [row for line in inputs for row in rows_of(self._console, line)][-self._region.room :]
        if self._block is not None:
            gone, rows = self._block.rows(max(1, self._region.room - len(growing)))
            self._finished += gone
            growing = rows + growing
        if self._is_waiting and not growing:
            growing = self._line(self._waiting_line(), "dim")
            self._ticker = asyncio.get_running_loop().call_later(_TICK_S, self._draw)
        finished, self._finished = self._finished, []
        try:
            self._region.draw(finished, growing)
        # Nothing awaits this callback, so the next `feed` raises the error.
        except OSError as error:
            self._lost = error
        self._cost_s = time.monotonic() - started


def _shortened(delta: str) -> str:
    """Removes the middle of an extremely long fragment."""
    if len(delta) <= _DELTA_CHARS:
        return delta
    half = _DELTA_CHARS // 2
    hidden = len(delta) - 2 * half
    return f"{delta[:half]}\n\n[{hidden} characters not shown]\n\n{delta[-half:]}"


class Region:
    """The lower end of the terminal: finished rows scroll away, growing rows are redrawn.

    Each drawing is one write. The cursor rests behind the last row.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawn: list[int] = []  # widths of the growing rows

    @property
    def room(self) -> int:
        """Number of growing rows that fit."""
        return max(1, self._console.height - _FREE_ROWS)

    def draw(self, finished: Sequence[Row], growing: Sequence[Row]) -> None:
        """Replaces the previous growing rows by finished rows and new growing rows."""
        # The console buffers inside the block, so all of it is one write.
        with self._console as console:
            if self._drawn:
                up = ((ControlType.CURSOR_UP, 1), _ERASE_ROW) * (self._height() - 1)
                console.control(Control(ControlType.CARRIAGE_RETURN, _ERASE_ROW, *up))
            console.print(_Rows(finished, last_open=False), end="")
            console.print(_Rows(growing, last_open=True), end="")
        self._drawn = [Segment.get_line_length(row) for row in growing]
        self._console.file.flush()

    def _height(self) -> int:
        """Rows of the terminal that the growing rows take.

        Terminals wrap the rows that no longer fit when their window becomes narrower; xterm, which
        cuts them, is an exception.
        """
        return sum(max(1, math.ceil(width / self._console.width)) for width in self._drawn)


class _Rows:
    """Rendered rows.

    last_open: no line feed after the last row
    """

    def __init__(self, rows: Sequence[Row], *, last_open: bool) -> None:
        self._rows = rows
        self._last_open = last_open

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return self._segments()

    def _segments(self) -> Iterator[Segment]:
        last = len(self._rows) - 1 if self._last_open else -1
        for index, row in enumerate(self._rows):
            yield from row
            if index != last:
                yield Segment.line()
