"""What each vendor's models take and refuse: one table a family, found by the model's name.

To add a model, add a row to its family's table, above the row that it would match otherwise, with
the date and the source. A name newer than the table matches the family's last row, which holds the
newest rules. A name of no family gets `unknown`, the common ground.
"""

from __future__ import annotations

import re
from typing import Final, Generic, TypeVar

import msgspec

__all__ = [
    "ORDER",
    "Row",
    "Table",
    "nearest_effort",
]


T = TypeVar("T")

# Programs use few names; a gateway's callers may invent many, which must not fill the memory.
_CACHED_NAMES: Final = 1024


class Row(msgspec.Struct, Generic[T], frozen=True):
    """Rules for the models whose names match.

    models: regular expression, searched in the name without regard to case
    rules:  what these models take and refuse
    seen:   year and month in which the sources were read
    source: pages, issues and packages that document it
    """

    models: str
    rules: T
    seen: str
    source: str


class Table(Generic[T]):
    """Rows in order of precedence. The last row of a family has to match all its names.

    unknown: the rules for a name that no row matches
    """

    def __init__(self, *rows: Row[T], unknown: T) -> None:
        self.rows = rows
        self.unknown = unknown
        self._found: dict[str, T] = {}

    def find(self, model: str) -> T:
        """The rules for a model's name, which may carry a prefix such as "vendor/" or "us.vendor."."""
        found = self._found.get(model)
        if found is None:
            # Compiled at the first use of a name, not at import: a program uses few models of few families.
            matching = (row.rules for row in self.rows if re.search(row.models, model, re.IGNORECASE))
            found = next(matching, self.unknown)
            if len(self._found) >= _CACHED_NAMES:
                # All at once, since it is rare; names in use are added again.
                self._found.clear()
            self._found[model] = found
        return found


# How much thinking is requested of a model: the efforts in order, and the nearest that a model knows.

# From least to most. A vendor's own names are in its dialect.
ORDER: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def nearest_effort(effort: str, known: tuple[str, ...]) -> str:
    """The effort itself if the model knows it, else the next higher, else the highest.

    known: at least one effort, in the order of `ORDER`
    """
    place = ORDER.index(effort)
    return next((name for name in known if ORDER.index(name) >= place), known[-1])
