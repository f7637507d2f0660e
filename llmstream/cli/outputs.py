"""Displays for programs and scripts: every event as JSON (`--json`), or the answer alone (`--quiet`)."""

from __future__ import annotations

import sys

from llmstream.cli.terminal import write_bytes
from llmstream.display.plain import PlainDisplay
from llmstream.display.terminal_text import TerminalFilter
from llmstream.events import Event, TextDelta, ToolCall, encode

__all__ = ["JsonEvents", "QuietAnswer"]


class JsonEvents:
    """Writes each event as a line of JSON on standard output, as it arrives."""

    def feed(self, event: Event) -> None:
        """Writes one event."""
        write_bytes(encode(event) + b"\n")

    def wait(self, wait: object) -> None:
        """Writes nothing: a wait is no event of the stream."""

    def settle(self) -> None:
        """Does nothing: each event is a complete line."""

    def close(self, *, stopped: bool = False, usd: float | None = None) -> None:
        """Writes nothing: the last event has the usage and how the stream ended."""


class QuietAnswer:
    """Writes the text of the answer on standard output, and nothing else; safe for a terminal."""

    def __init__(self) -> None:
        # Output to a pipe is data, and stays as it is.
        self._filter = TerminalFilter() if sys.stdout.isatty() else None
        self._plain = PlainDisplay(sys.stdout, sys.stderr)

    def feed(self, event: Event) -> None:
        """Writes the text of one event."""
        if isinstance(event, TextDelta):
            text = event.delta if self._filter is None else self._filter.feed(event.delta)
            self._plain.feed(TextDelta(text, event.id))
        elif isinstance(event, ToolCall):  # not shown: it separates the answers of two steps
            self._plain.feed(event)

    def wait(self, wait: object) -> None:
        """Writes nothing."""

    def settle(self) -> None:
        """Does nothing."""

    def close(self, *, stopped: bool = False, usd: float | None = None) -> None:
        """Ends the last line."""
        self._plain.close(stopped=stopped)
