"""A map from 8-byte digests to places in a file, in a third of the memory of a dict."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator
from typing import Final

__all__ = ["NOWHERE", "Places"]

NOWHERE: Final = 2**64 - 1
"""No file is that long. Marks a slot that was never used."""

# Marks a slot whose entry was removed: a search continues after it.
_TAKEN: Final = NOWHERE - 1

_SMALLEST: Final = 16
_TOP_BYTE: Final = 56


class Places:
    """Places by digest: 24 to 48 bytes an entry, where a dict of integers needs about 110.

    There are 256 tables, by the first byte of a digest: to enlarge one takes a few milliseconds with a
    million entries, instead of blocking the event loop for a second.
    """

    def __init__(self) -> None:
        self._tables = [_Table() for _ in range(256)]

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    def __iter__(self) -> Iterator[int]:
        """The places, in no order."""
        return itertools.chain.from_iterable(self._tables)

    def add(self, digest: int, place: int) -> None:
        """Adds the place of a digest that has none."""
        self._tables[digest >> _TOP_BYTE].add(digest, place)

    def get(self, digest: int) -> int | None:
        """The place of a digest; None if there is none."""
        table = self._tables[digest >> _TOP_BYTE]
        slot = table.slot(digest)
        return None if slot is None else table.places[slot]

    def take(self, digest: int) -> int | None:
        """The same, and removes it."""
        return self._tables[digest >> _TOP_BYTE].take(digest)


class _Table:
    """Open addressing with linear probing. Digests are evenly spread: their low bits are the slot."""

    __slots__ = ("_digests", "_mask", "_taken", "_used", "places")

    def __init__(self) -> None:
        self._renew(_SMALLEST)

    def _renew(self, size: int) -> None:
        self._digests = array("Q", bytes(8 * size))
        self.places = array("Q", b"\xff" * (8 * size))  # NOWHERE
        self._mask = size - 1
        self._used = 0  # slots, those of taken places included
        self._taken = 0

    def __len__(self) -> int:
        return self._used - self._taken

    def __iter__(self) -> Iterator[int]:
        return (place for place in self.places if place < _TAKEN)

    def add(self, digest: int, place: int) -> None:
        if 3 * self._used >= 2 * len(self.places):
            self._resize()
        self._insert(digest, place)

    def slot(self, digest: int) -> int | None:
        """The slot of a digest."""
        digests, places, slot = self._digests, self.places, digest & self._mask
        while (place := places[slot]) != NOWHERE:
            if place != _TAKEN and digests[slot] == digest:
                return slot
            slot = (slot + 1) & self._mask
        return None

    def take(self, digest: int) -> int | None:
        slot = self.slot(digest)
        if slot is None:
            return None
        place, self.places[slot] = self.places[slot], _TAKEN
        self._taken += 1
        return place

    def _insert(self, digest: int, place: int) -> None:
        places, slot = self.places, digest & self._mask
        while places[slot] != NOWHERE:
            slot = (slot + 1) & self._mask
        self._digests[slot], places[slot] = digest, place
        self._used += 1

    def _resize(self) -> None:
        """Makes room, without the slots of places that were taken."""
        digests, places, size = self._digests, self.places, _SMALLEST
        while size < 2 * len(self):
            size *= 2
        self._renew(size)
        for digest, place in zip(digests, places, strict=True):
            if place < _TAKEN:
                self._insert(digest, place)
