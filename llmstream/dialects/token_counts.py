"""Token counts as Google's wires write them: whole numbers, sometimes as floats or text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llmstream.dialects.decoder import held_size
from llmstream.usage import Usage

__all__ = ["UsageCounts", "added", "token_count"]


def token_count(value: object) -> int | None:
    """A number of tokens, however it was written; None for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if value == value // 1 and abs(value) < 2**63 else None


def added(a: int | None, b: int | None) -> int | None:
    """The sum of what is known; None where nothing is."""
    if a is None:
        return b
    return a if b is None else a + b


# Token counts as the events of one response state them.


class UsageCounts:
    """Cumulative counts: each field replaces the one before, and what is left out stays.

    Some servers state them with every chunk. They are read when somebody asks, so that a chunk costs
    what it says, however much is known by then.

    read: the vendor's object in our meaning
    hold: is given the bytes of memory by which it grows; see `PayloadDecoder.hold`
    """

    def __init__(
        self, read: Callable[[dict[str, Any]], Usage], hold: Callable[[int], object] = lambda size: None
    ) -> None:
        self._read = read
        self._hold = hold
        self._known: dict[str, Any] = {}
        self._usage: Usage | None = Usage()

    def add(self, stated: object) -> None:
        """One statement; a null replaces nothing, and anything but an object states nothing."""
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
        """The counts so far; a value of its own, which later statements do not change."""
        if self._usage is None:
            self._usage = self._read(dict(self._known))
        return self._usage


def _size(value: object) -> int:
    """Bytes of a value; nearly all are counts, which do not grow."""
    return 0 if isinstance(value, int | None) else held_size(value)
