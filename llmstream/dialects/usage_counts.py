"""Token counts as the events of one response state them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llmstream.usage import Usage

__all__ = ["UsageCounts"]


class UsageCounts:
    """Cumulative counts: each field replaces the one before, and what is left out stays.

    Some servers state them with every chunk. They are read when somebody asks, so that a chunk costs
    what it says, however much is known by then.

    read: the vendor's object in our meaning
    """

    def __init__(self, read: Callable[[dict[str, Any]], Usage]) -> None:
        self._read = read
        self._known: dict[str, Any] = {}
        self._usage: Usage | None = Usage()

    def add(self, stated: object) -> None:
        """One statement; a null replaces nothing, and anything but an object states nothing."""
        if not isinstance(stated, dict) or not stated:
            return
        known = self._known
        for name, value in stated.items():
            if value is not None or name not in known:
                known[name] = value
        self._usage = None

    @property
    def usage(self) -> Usage:
        """The counts so far; a value of its own, which later statements do not change."""
        if self._usage is None:
            self._usage = self._read(dict(self._known))
        return self._usage
