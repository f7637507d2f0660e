"""Events as lines for people: a name, then what it says, aligned and without controls."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

import msgspec

from llmstream.cli.terminal import one_line
from llmstream.events import Event, ReasoningDelta, TextDelta, ToolInputDelta

__all__ = ["event_line", "folded", "once_each"]

_WIDTH: Final = 20
"""The longest name, ToolApprovalRequest, and a space."""

_BARE: Final = ("delta", "tool_name", "finish_reason")
"""Fields that come first and say by themselves what they are."""


def event_line(event: Event, *, limit: int = 0) -> str:
    """One event as one line, fields that hold nothing left out.

    limit: longest line in characters; 0 for no limit
    """
    said = []
    for field in event.__struct_fields__:
        value = getattr(event, field)
        if value is None or value is False or (value == [] and field == "warnings"):
            continue
        shown = _value(value)
        said.append(shown if field in _BARE else f"{field}={shown}")
    line = f"{type(event).__name__:<{_WIDTH}}{'  '.join(said)}".rstrip()
    return one_line(line, limit)


def _value(value: Any) -> str:
    match value:
        case bytes():
            return f"<{len(value)} bytes>"
        case datetime.datetime():
            return value.isoformat()
        case msgspec.Struct():
            facts = {f: getattr(value, f) for f in value.__struct_fields__ if f != "raw"}
            said = [f"{f}={_value(v)}" for f, v in facts.items() if v is not None and v is not False]
            return f"({' '.join(said)})"
        case float():
            return f"{value:.3g}"
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            return repr(value)


def folded(events: Iterable[Event], *, deltas: int = 2, limit: int = 0) -> Iterator[str]:
    """Events as lines, of a run of deltas of one block only the first few."""
    for _, run in groupby(events, key=_run_key):
        same = list(run)
        shown = same if len(same) <= deltas + 1 or not _is_delta(same[0]) else same[:deltas]
        for event in shown:
            yield event_line(event, limit=limit)
        if len(shown) < len(same):
            yield f"… {len(same) - len(shown)} more"


def once_each(events: Iterable[Event], *, limit: int = 0) -> Iterator[str]:
    """The first event of each kind as a line, and how many follow that are of kinds seen before."""
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
    """Equal for deltas of one block, and for nothing else."""
    return (type(event), getattr(event, "id", None)) if _is_delta(event) else (None, id(event))
