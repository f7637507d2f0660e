"""Ids that are given once: a repeated one gets a number, without a search from the beginning."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

__all__ = ["UniqueIds"]

_ENTRY_BYTES: Final = 64
"""What a set takes for one."""


class UniqueIds:
    """The ids that are taken, and the next number of each that was wanted again.

    A server that repeats one id n times costs n steps: the number goes on from the last one, and a
    name that somebody has taken himself is passed over once.

    separator: stands between the id and its number, which counts from 2
    hold:      is given the bytes of memory that a fresh id takes; see `PayloadDecoder.hold`
    """

    def __init__(self, separator: str = ".", hold: Callable[[int], object] = lambda size: None) -> None:
        self._separator = separator
        self._hold = hold
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._taken

    def __len__(self) -> int:
        return len(self._taken)

    def add(self, name: str) -> None:
        """Takes a name as it is."""
        self._taken.add(name)

    def take(self, name: str) -> bool:
        """Takes a name as it is; False where it is taken already."""
        if name in self._taken:
            return False
        self._taken.add(name)
        self._hold(sys.getsizeof(name) + _ENTRY_BYTES)
        return True

    def copy(self) -> UniqueIds:
        """The same ids, counted for the same holder."""
        made = UniqueIds(self._separator, self._hold)
        made._taken, made._numbers = set(self._taken), dict(self._numbers)
        return made

    def names(self) -> frozenset[str]:
        """Those that are taken by now."""
        return frozenset(self._taken)

    def fresh(self, wanted: str) -> str:
        """Takes the requested name, or the next free one with a number."""
        name = wanted
        while name in self._taken:
            number = self._numbers.get(wanted, 1) + 1
            self._numbers[wanted] = number
            name = f"{wanted}{self._separator}{number}"
        self._taken.add(name)
        self._hold(sys.getsizeof(name) + _ENTRY_BYTES)
        return name
