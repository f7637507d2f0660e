"""Unique ids: a repeated one gets a number, without a search from the beginning; or that of its step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["StepIds", "UniqueIds"]

# Memory of one id in a dict, including spare capacity, and of its text without the characters.
_ENTRY_BYTES: Final = 64
_HELD_BYTES: Final = _ENTRY_BYTES + sys.getsizeof("")


class UniqueIds:
    """The ids in use, and the next number of each that was requested again.

    A server that repeats one id n times costs n steps: the number continues from the last one, and a
    name with a number that is in use is skipped once.

    separator: text between the id and its number, which counts from 2
    hold:      called with the memory that a new id takes, in bytes; see `PayloadDecoder.hold`

    taken: the ids in use; hot loops look here without a call
    """

    __slots__ = ("_hold", "_numbers", "_separator", "taken")

    def __init__(self, separator: str = ".", hold: Callable[[int], object] | None = None) -> None:
        self._separator = separator
        self._hold = hold
        # Not a set, which takes 216 bytes while it is empty: each open stream has several of these.
        self.taken: dict[str, None] = {}
        self._numbers: dict[str, int] | None = None  # of ids that were requested again

    def __contains__(self, name: object) -> bool:
        return name in self.taken

    def __len__(self) -> int:
        return len(self.taken)

    def add(self, name: str) -> None:
        """Adds an id."""
        self.taken[name] = None

    def take(self, name: str) -> bool:
        """Adds an id; returns False if it is in use."""
        if name in self.taken:
            return False
        self.taken[name] = None
        if self._hold is not None:
            # Nearly all are ASCII; without another call, since each call of a tool comes here.
            self._hold(_HELD_BYTES + len(name) if name.isascii() else _held(name))
        return True

    def copy(self) -> UniqueIds:
        """The same ids, counted for the same holder."""
        made = UniqueIds(self._separator, self._hold)
        made.taken, made._numbers = dict(self.taken), self._numbers and dict(self._numbers)
        return made

    def names(self) -> frozenset[str]:
        """Returns the ids in use."""
        return frozenset(self.taken)

    def fresh(self, wanted: str) -> str:
        """Adds and returns the requested id, or the next free one with a number."""
        name = wanted
        while not self.take(name):
            if self._numbers is None:
                self._numbers = {}
            number = self._numbers.get(wanted, 1) + 1
            self._numbers[wanted] = number
            name = f"{wanted}{self._separator}{number}"
        return name


def _held(name: str) -> int:
    return _ENTRY_BYTES + sys.getsizeof(name)


class StepIds:
    """Ids in a run of several steps, which may use an id again: it gets the number of the step in front.

    earlier: ids of steps before the first
    """

    def __init__(self, earlier: Iterable[str] = ()) -> None:
        self._step_of = dict.fromkeys(earlier, -1)

    def shown(self, name: str, step: int) -> str:
        """Returns the id that stands for this one of a step; no other step has it."""
        shown = name
        while self._step_of.setdefault(shown, step) != step:
            shown = f"{step}/{shown}"
        return shown

    def original(self, shown: str, step: int) -> str:
        """Returns the id within the step, without what `shown` may have added."""
        bare, prefix = shown, f"{step}/"
        while bare.startswith(prefix):
            bare = bare.removeprefix(prefix)
        return bare if self._step_of.get(bare, step) != step else shown
