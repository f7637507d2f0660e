"""A bound on calls that cannot run: the same mistake, made step after step, ends the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llmstream.errors import InvalidToolInput, UnknownTool
from llmstream.tools import ToolCallStatus

__all__ = ["MAX_INVALID_CALLS", "Misses"]

MAX_INVALID_CALLS: Final = 3
"""Steps in which a tool may be called wrongly: models that read the error are right at the second try."""

_UNKNOWN: Final = ""
"""Counts calls of tools that do not exist, whatever they are called."""


class Misses:
    """Counts steps in which a tool was called with arguments that do not fit, since it was called well.

    limit: steps after which it is enough; None for never
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}

    def over(self, statuses: Iterable[ToolCallStatus]) -> bool:
        """Whether the calls of one more step are too many; a call that ran begins the count anew."""
        missed: set[str] = set()
        ran: set[str] = set()
        for status in statuses:
            match status.exception:
                case UnknownTool():
                    missed.add(_UNKNOWN)
                case InvalidToolInput():
                    missed.add(status.name)
                case _:
                    ran.add(status.name)
        for name in ran:
            self._counts.pop(name, None)
        if ran and _UNKNOWN not in missed:
            self._counts.pop(_UNKNOWN, None)
        for name in missed - ran:
            self._counts[name] = self._counts.get(name, 0) + 1
        return self._limit is not None and any(self._counts[n] >= self._limit for n in missed - ran)
