"""Token counts: numbers in any form, and cumulative counts of one response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llmstream.dialects.decoder import held_size
from llmstream.usage import Usage

__all__ = ["UsageCounts", "added", "token_count"]


def token_count(value: object) -> int | None:
    """Reads a number of tokens, also from a float or text; None for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if value == value // 1 and abs(value) < 2**63 else None


def added(a: int | None, b: int | None) -> int | None:
    """Adds the known counts; None if neither is known."""
    if a is None:
        return b
    return a if b is None else a + b


class UsageCounts:
    """Cumulative counts: a later value of a field replaces the earlier one.

    Some servers report them with every chunk. They are converted on access, so that the cost of a chunk
    depends on its own size only.

    read: converts the vendor's object to `Usage`
    hold: called with the memory by which it grows, in bytes; see `PayloadDecoder.hold`
    """

    def __init__(
        self, read: Callable[[dict[str, Any]], Usage], hold: Callable[[int], object] = lambda size: None
    ) -> None:
        self._read = read
        self._hold = hold
        self._known: dict[str, Any] = {}
        self._usage: Usage | None = Usage()

    def add(self, stated: object) -> None:
        """Adds one report; nulls, and reports that are not objects, are ignored."""
        if not isinstance(stated, dict) or not stated:
            return
        known, grown = self._known, 0
        for name, value in stated.items():
            if name not in known:
                grown += held_size(name) + _size(value)
            elif value is not None:
                grown += _size(value) - _size(known[name])
            else:
                continue
            known[name] = value
        self._usage = None
        if grown:
            self._hold(grown)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def usage(self) -> Usage:
        """Returns the counts so far; later reports do not change the value."""
        if self._usage is None:
            self._usage = self._read(dict(self._known))
        return self._usage


def _size(value: object) -> int:
    # Nearly all values are counts, which do not grow.
    return 0 if isinstance(value, int | None) else held_size(value)
