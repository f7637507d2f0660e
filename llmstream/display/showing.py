"""Shows a stream or run while it is read: in a notebook, on a terminal, or as plain text."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from html import escape
from typing import Any, Final, Protocol, TypeAlias

from llmstream.accumulate.blocks import file_part, result_part, source_part
from llmstream.chats import content
from llmstream.chats.markdown import code_span, folded_line, parts_markdown, plain_text
from llmstream.display.plain import (
    Display,
    Stopwatch,
    Wait,
    display_for,
    status_line,
    wait_line,
    warning_line,
)
from llmstream.events import (
    Event,
    File,
    ReasoningDelta,
    RetryNotice,
    Source,
    StepStart,
    StreamStart,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)

__all__ = ["NotebookDisplay", "in_notebook", "notebook_output", "show"]

# Displays a run in a notebook: Markdown in one output that is replaced while it grows.


Output: TypeAlias = Callable[[str, str], None]
"""Shows Markdown, and plain text for front ends without it, replacing the earlier content."""

# Each update sends all of the output, and the front end renders it again.
_MIN_PAUSE_S: Final = 0.1
# Pause after a drawing, as a multiple of the time that it took.
_PAUSE_PER_COST: Final = 9
_INPUT_CHARS: Final = 200
# No JSON has a line of so many tildes, so the text inside cannot end it.
_FENCE: Final = "~" * 12


def in_notebook() -> bool:
    """Whether this code runs in a kernel, whose front end shows Markdown; IPython on a terminal does not."""
    # Looked up, not imported: a kernel has it already, and it is large.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    kinds = {kind.__name__ for kind in type(shell).__mro__}
    return shell is not None and "TerminalInteractiveShell" not in kinds


def notebook_output() -> Output:
    """An output of the current cell."""
    display = importlib.import_module("IPython.display").display
    handle: Any = None

    def show(markdown: str, text: str) -> None:
        nonlocal handle
        bundle = {"text/markdown": markdown, "text/plain": text}
        if handle is None:
            handle = display(bundle, raw=True, display_id=True)
        else:
            handle.update(bundle, raw=True)

    return show


class NotebookDisplay:
    """Displays one run by an `Output`. Created and used inside a running event loop.

    markdown: whether text is Markdown; else it is shown as a block of code
    """

    def __init__(self, output: Output, *, markdown: bool = True) -> None:
        self._output = output
        self._markdown = markdown
        self._watch = Stopwatch()
        self._steps: list[list[content.Part]] = [[]]
        self._growing: list[str] = []  # of the last part, which is text or reasoning
        self._inputs: dict[str, tuple[str, str]] = {}
        self._warnings: list[str] = []
        self._waits: str | None = "…"
        self._timer: asyncio.TimerHandle | None = None
        self._cost_s = 0.0
        self._draw()

    def feed(self, event: Event) -> None:
        """Shows one event with the next drawing."""
        self._watch.feed(event)
        match event:
            case TextDelta(delta) if delta:
                self._grow(content.Text, delta)
            case ReasoningDelta(delta) if delta:
                self._grow(content.Reasoning, delta)
            case ToolInputStart(name):
                self._inputs[event.id] = (name, "")
            case ToolInputDelta(delta) if event.id in self._inputs:
                name, so_far = self._inputs[event.id]
                self._inputs[event.id] = (name, (so_far + delta)[:_INPUT_CHARS])
            case ToolInputEnd():
                self._inputs.pop(event.id, None)
            case ToolCall():
                self._add(content.ToolCall(event.tool_call_id, event.tool_name, event.input), waits="…")
            case ToolResult(preliminary=False):
                self._add(result_part(event), waits="…")
            case File():
                self._add(file_part(event))
            case Source():
                self._add(source_part(event))
            case StreamStart(warnings):
                self._warnings += [warning_line(warning) for warning in warnings]
            case StepStart():
                self._settle()
                self._steps.append([])
            case RetryNotice():
                self._settle()
                # What the failed attempt wrote comes again.
                self._steps[-1] = []
                self._inputs, self._waits = {}, "…"
            case _:
                return
        if self._timer is None:
            pause_s = max(_MIN_PAUSE_S, self._cost_s * _PAUSE_PER_COST)
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._draw)

    def wait(self, wait: Wait | None) -> None:
        """Shows the wait until the next content."""
        if wait is not None:
            self._watch.retries += 1
        self._waits = "…" if wait is None else wait_line(wait)
        self._draw()

    def settle(self) -> None:
        """Shows everything so far."""
        self._draw()

    def close(self, *, stopped: bool = False, usd: float | None = None) -> None:
        """Shows the complete run and its status."""
        self._inputs, self._waits = {}, None
        self._draw(status_line(self._watch, stopped=stopped, usd=usd))

    def _grow(self, kind: type[content.Text | content.Reasoning], delta: str) -> None:
        self._waits = None
        if not self._growing or type(self._steps[-1][-1]) is not kind:
            self._settle()
            self._steps[-1].append(kind(""))
        self._growing.append(delta)

    def _add(self, part: content.Part, waits: str | None = None) -> None:
        self._settle()
        self._steps[-1].append(part)
        self._waits = waits

    def _settle(self) -> None:
        """Ends the growing part."""
        if self._growing:
            self._join()
            self._growing = []

    def _join(self) -> None:
        """Puts the deltas so far into the last part."""
        last = self._steps[-1][-1]
        if self._growing and isinstance(last, content.Text | content.Reasoning):
            # Joined to one piece, so that each drawing joins only new fragments.
            self._growing = ["".join(self._growing)]
            self._steps[-1][-1] = type(last)(self._growing[0])

    def _draw(self, status: str = "") -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        started = time.monotonic()
        if self._growing:
            self._join()
        thinks = bool(self._growing) and isinstance(self._steps[-1][-1], content.Reasoning)
        inputs = [code_span(folded_line(f"{name}({text}")) + "…" for name, text in self._inputs.values()]
        blocks = [
            *[f"*warning: {plain_text(warning)}*" for warning in self._warnings],
            *[parts_markdown(self._shown(parts), folded=not thinks) for parts in self._steps],
            *inputs,
            self._waits if self._waits and not inputs else "",
            f"<small>{escape(status)}</small>" if status else "",
        ]
        text = "\n\n".join(
            [part.text for parts in self._steps for part in parts if isinstance(part, content.Text)]
        )
        # A message of a kernel is UTF-8, which has no lone surrogates.
        self._output("\n\n".join(filter(None, blocks)), text.encode("utf-8", "replace").decode())
        self._cost_s = time.monotonic() - started

    def _shown(self, parts: list[content.Part]) -> list[content.Part]:
        if self._markdown:
            return parts
        return [
            content.Text(f"{_FENCE}json\n{part.text}\n{_FENCE}") if isinstance(part, content.Text) else part
            for part in parts
        ]


class Readable(Protocol):
    """An `EventStream` or an `AgentRun`."""

    def __aiter__(self) -> AsyncGenerator[Event]: ...


async def show(handle: Readable, *, markdown: bool) -> None:
    """Reads the events and shows them.

    markdown: whether text is Markdown; otherwise it is shown unchanged
    raises:   as reading does, after everything was shown
    """
    async with aclosing(aiter(handle)) as events:
        display = _display(markdown=markdown)
        stopped = False
        try:
            async for event in events:
                display.feed(event)
        except asyncio.CancelledError:
            stopped = True
            raise
        finally:
            display.close(stopped=stopped)


def _display(*, markdown: bool) -> Display:
    if in_notebook():
        return NotebookDisplay(notebook_output(), markdown=markdown)
    return display_for(sys.stdout, reasoning=None, color="NO_COLOR" not in os.environ, markdown=markdown)
