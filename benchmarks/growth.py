"""`python -m benchmarks.growth`: how costs grow with size, which no test may time.

Each case is run at one size and at ten times that size; linear code costs about ten times as
much. The exit status is 1 where something costs more than thirty times as much.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from benchmarks.arguments import arguments
from llmstream.accumulate import Accumulator
from llmstream.dialects.tool_calls import ToolCallTracker
from llmstream.events import TextDelta, TextStart
from llmstream.framing.sse import SSEDecoder
from llmstream.partial_json import PartialJSON

_TOO_MUCH = 30.0


def a_line_in_single_bytes(size: int) -> None:
    """One line of server-sent events, a byte a chunk."""
    decoder = SSEDecoder()
    decoder.feed_data(b"data: ")
    for _ in range(size):
        decoder.feed_data(b"x")
    decoder.feed_data(b"\n\n")


def fragments_of_one_call(size: int) -> None:
    """Arguments of a tool call that look complete at every fragment."""
    tracker = ToolCallTracker()
    tracker.add(index=0, id="a", name="f", arguments='{"v":"')
    for _ in range(size):
        tracker.add(index=0, arguments="abc}")


def a_value_at_every_fragment(size: int) -> None:
    """Partial JSON, looked at after each piece."""
    parser = PartialJSON()
    parser.feed('{"text": "')
    for _ in range(size):
        parser.feed("some words ")
        if parser.value is None:
            raise AssertionError("there is a value at every fragment")


def deltas_of_one_message(size: int) -> None:
    """The fold of a long text, read at its end."""
    found = Accumulator()
    found.feed(TextStart("0"))
    found.feed_many(TextDelta("abcd", "0") for _ in range(size))
    if len(found.text) != 4 * size:
        raise AssertionError("every delta is in the text")


CASES: dict[Callable[[int], None], int] = {
    a_line_in_single_bytes: 20_000,
    fragments_of_one_call: 20_000,
    a_value_at_every_fragment: 10_000,
    deltas_of_one_message: 100_000,
}


def seconds(case: Callable[[int], None], size: int) -> float:
    """The best of three."""

    def once() -> float:
        began = time.process_time()
        case(size)
        return time.process_time() - began

    return min(once() for _ in range(3))


def main() -> int:
    """Prints a line a case."""
    worst = 0.0
    for case, size in CASES.items():
        small, large = seconds(case, size), seconds(case, 10 * size)
        worst = max(worst, large / small)
        each = large / (10 * size) * 1e6
        print(f"{case.__name__:28} {size:>8} to {10 * size:>8}: {large / small:5.1f}x, {each:5.2f} us each")
    return 1 if worst > _TOO_MUCH else 0


if __name__ == "__main__":
    arguments("", __doc__)
    sys.exit(main())
