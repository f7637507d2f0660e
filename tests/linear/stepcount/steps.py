"""Counts what Python code does, so that a test can say that twice the input costs twice the work.

No clock: the same code gives nearly the same count on every machine.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

__all__ = ["GROWTH", "Counting", "Steps", "assert_linear", "steps_of"]

GROWTH = 2.1
"""How many times as much twice the input may cost. A linear loop is at 2.0, a square at 4."""

LEAPS_BYTES = 256 * 1024
"""What dicts and lists may take beyond that, which grow by leaps."""

OBJECT_BYTES = 512
"""What a line may take without being counted: the objects that it makes. A copy of all that came is more."""


class Steps(NamedTuple):
    """What a piece of work cost.

    lines: executed lines of Python, of every module; each turn of a loop counts
    bytes: memory that lines took which took much of it, in sum. It shows the loops that are hidden in
           C: a dict or a list that is copied, a text that grows by `+=`
    """

    lines: int
    bytes: int


class Counting:
    """Counts while it is entered. One at a time, for it takes the place of a debugger."""

    def __init__(self) -> None:
        self.lines = 0
        self.bytes = 0

    def __enter__(self) -> Counting:
        before = 0
        traced, reset = tracemalloc.get_traced_memory, tracemalloc.reset_peak

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal before
            if event == "line":
                self.lines += 1
            current, peak = traced()
            if peak - before > OBJECT_BYTES:
                self.bytes += peak - before
            reset()
            before = current
            return trace

        self._known, self._collecting = sys.gettrace(), gc.isenabled()
        gc.collect()
        gc.disable()
        tracemalloc.start()
        before = traced()[0]
        sys.settrace(trace)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(self._known)
        tracemalloc.stop()
        if self._collecting:
            gc.enable()


def steps_of(work: Callable[[], Any]) -> Steps:
    """Runs it, and counts."""
    with Counting() as counted:
        work()
    return Steps(counted.lines, counted.bytes)


def assert_linear(work: Callable[[int], Callable[[], Any]], n: int) -> None:
    """Twice the input costs at most a little more than twice the steps.

    work: makes the work for an input of a size; making it is not counted
    n:    large enough that a square would show beside what each item costs
    """
    work(8)()  # what is made once and kept does not count
    small, large = steps_of(work(n)), steps_of(work(2 * n))
    assert large.lines <= GROWTH * small.lines, f"lines: {small.lines} for {n}, {large.lines} for {2 * n}"
    allowed = GROWTH * small.bytes + LEAPS_BYTES
    if large.bytes > allowed:  # memory of other threads is counted too: pytest-xdist has one that listens
        large = steps_of(work(2 * n))
    assert large.bytes <= allowed, f"bytes: {small.bytes} for {n}, {large.bytes} for {2 * n}"
