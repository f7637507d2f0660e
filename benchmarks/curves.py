"""Accumulation and growing tool arguments at many lengths: straight lines, or something is quadratic.

Nanoseconds of CPU a fragment, of events that are already made: no network, no decoding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import llmstream as ls
from llmstream.events import ToolInputDelta, ToolInputStart

LENGTHS = (1_000, 10_000, 100_000)
MILLION = 1_000_000
REPARSED = (1_000, 10_000)
"""Re-parsing is quadratic: a call of 100 000 fragments would take it minutes."""


def accumulation(count: int) -> float:
    """Text deltas folded into a message, which is read once."""
    deltas = [ls.TextDelta(" word", id="0") for _ in range(count)]

    def fold() -> None:
        found = ls.Accumulator()
        found.feed_many([ls.StreamStart(), ls.TextStart("0")])
        for at in range(0, count, 100):
            found.feed_many(deltas[at : at + 100])
        if len(found.text) != 5 * count:
            raise SystemExit("the accumulated text is not whole")

    return _ns_each(fold, count)


def partial_values(count: int) -> float:
    """Arguments of a call, whose value is read after each fragment."""
    deltas = [ToolInputDelta(fragment, id="c") for fragment in _arguments(count)]

    def fold() -> None:
        found = ls.Accumulator()
        found.feed_many([ls.StreamStart(), ToolInputStart(id="c", tool_name="write")])
        value = None
        for delta in deltas:
            found.feed(delta)
            value = found.tool_value("c")
        if not isinstance(value, dict) or len(value["lines"]) != count - 2:
            raise SystemExit("the arguments are not whole")

    return _ns_each(fold, count)


def reparsed_values(count: int) -> float:
    """The same values by parsing all that has come anew at each fragment, with jiter."""
    from jiter import from_json

    fragments = list(_arguments(count))

    def parse() -> None:
        text, value = b"", None
        for fragment in fragments:
            text += fragment.encode()
            value = from_json(text, partial_mode="trailing-strings")
        if not isinstance(value, dict) or len(value["lines"]) != count - 2:
            raise SystemExit("the arguments are not whole")

    return _ns_each(parse, count)


def _arguments(count: int) -> Iterator[str]:
    yield '{"lines":['
    for number in range(count - 2):
        yield f'{"," if number else ""}"line {number}"'
    yield "]}"


def _ns_each(work: Callable[[], None], count: int) -> float:
    """The best of some runs, the more the shorter they are: noise only adds."""
    best = float("inf")
    for _ in range(max(1, min(20, MILLION // (3 * count)))):
        started = time.process_time_ns()
        work()
        best = min(best, (time.process_time_ns() - started) / count)
    return best


CURVES = {
    "accumulation": (accumulation, (*LENGTHS, MILLION)),
    "partial values": (partial_values, LENGTHS),
    "values re-parsed by jiter": (reparsed_values, REPARSED),
}
"""Each curve with the lengths at which it is measured."""

if find_spec("jiter") is None:  # no dependency of ours; the openai package brings it
    del CURVES["values re-parsed by jiter"]
