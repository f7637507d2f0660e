"""Displays for programs and scripts: every event as JSON or on a line, or the answer alone (`--quiet`)."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

import msgspec

from llmstream.cli.terminal import write_bytes
from llmstream.display.plain import PlainDisplay
from llmstream.display.terminal_text import TerminalFilter, one_line
from llmstream.events import Event, ReasoningDelta, TextDelta, ToolCall, ToolInputDelta, encode

__all__ = ["JsonEvents", "QuietAnswer", "event_line", "folded", "once_each"]


class JsonEvents:
    """Writes each event as a line of JSON on standard output, as it arrives."""

    def feed(self, event: Event) -> None:
        """Writes one event."""
        write_bytes(encode(event) + b"\n")

    def wait(self, wait: object) -> None:
        """Writes nothing: a wait is not an event of the stream."""

    def settle(self) -> None:
        """Does nothing: each event is a complete line."""

    def close(self, *, stopped: bool = False, usd: float | None = None) -> None:
        """Writes nothing: the last event has the usage and the finish reason."""


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


# Formats events as lines: the name, then its fields, aligned and without control characters.


# Width of the longest name, ToolApprovalRequest, and a space.
_WIDTH: Final = 20

# Fields shown without their names.
_BARE: Final = ("delta", "tool_name", "finish_reason")


def event_line(event: Event, *, limit: int = 0) -> str:
    """Formats one event as one line, without its empty fields.

    limit: maximum length of the line in characters; 0 for no limit
    """
    facts = []
    for field in event.__struct_fields__:
        value = getattr(event, field)
        if value is None or value is False or (value == [] and field == "warnings"):
            continue
        shown = _value(value)
        facts.append(shown if field in _BARE else f"{field}={shown}")
    line = f"{type(event).__name__:<{_WIDTH}}{'  '.join(facts)}".rstrip()
    return one_line(line, limit)


def _value(value: Any) -> str:
    match value:
        case bytes():
            return f"<{len(value)} bytes>"
        case datetime.datetime():
            return value.isoformat()
        case msgspec.Struct():
            # The vendor's own object would fill the line.
            fields = {f: getattr(value, f) for f in value.__struct_fields__ if f != "raw"}
            facts = [f"{f}={_value(v)}" for f, v in fields.items() if v is not None and v is not False]
            return f"({' '.join(facts)})"
        case float():
            return f"{value:.3g}"
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            return repr(value)


def folded(events: Iterable[Event], *, deltas: int = 2, limit: int = 0) -> Iterator[str]:
    """Formats events as lines; of consecutive deltas of one block only the first few."""
    for _, run in groupby(events, key=_run_key):
        same = list(run)
        shown = same if len(same) <= deltas + 1 or not _is_delta(same[0]) else same[:deltas]
        for event in shown:
            yield event_line(event, limit=limit)
        if len(shown) < len(same):
            yield f"… {len(same) - len(shown)} more"


def once_each(events: Iterable[Event], *, limit: int = 0) -> Iterator[str]:
    """Formats the first event of each type as a line, and counts the others."""
    seen: set[type[Event]] = set()
    more = 0
    for event in events:
        if type(event) in seen:
            more += 1
            continue
        seen.add(type(event))
        if more:
            yield f"… {more} more"
            more = 0
        yield event_line(event, limit=limit)
    if more:
        yield f"… {more} more"


def _is_delta(event: Event) -> bool:
    return isinstance(event, TextDelta | ReasoningDelta | ToolInputDelta)


def _run_key(event: Event) -> tuple[object, object]:
    """Returns a key that is equal for deltas of one block only."""
    return (type(event), getattr(event, "id", None)) if _is_delta(event) else (None, id(event))
