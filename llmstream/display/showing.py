"""Shows a stream or run while it is read: in a notebook, on a terminal, or as plain text."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from llmstream.display.notebook import NotebookDisplay, in_notebook, notebook_output
from llmstream.display.plain import Display, display_for
from llmstream.events import Event

__all__ = ["show"]


class Readable(Protocol):
    """An `EventStream` or an `AgentRun`."""

    def __aiter__(self) -> AsyncGenerator[Event]: ...


async def show(handle: Readable, *, markdown: bool) -> None:
    """Reads the events and shows them.

    markdown: whether text is Markdown; else it is shown as it is
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
