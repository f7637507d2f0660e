"""What is different for a model, by its name: tables of what families take and refuse, and changes to quirks.

To add a model, add a row to its family's table, above the row that it would match otherwise, with
the date and the source. A name newer than the table matches the family's last row, which holds the
newest rules. A name of no family gets `unknown`, the common ground.

A dialect's quirks are a frozen struct of frozen structs, one for each concern (thinking, tools, media ...).
`change(ThinkingQuirks, style="effort")` changes some fields of a group, for some of a vendor's models. A type
checker checks it against the group's constructor, so that a misspelt field or a wrong value is found before
anything runs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeVar

import msgspec

__all__ = [
    "CACHED_MODELS",
    "ORDER",
    "Change",
    "ModelQuirks",
    "Row",
    "Table",
    "change",
    "changed",
    "changes_for",
    "nearest_effort",
]


# Tables of what families take and refuse.

T = TypeVar("T")

CACHED_MODELS: Final = 1024
"""How many names are cached: programs use few, but a gateway's callers may invent any number."""


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
            if len(self._found) >= CACHED_MODELS:
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


# Changes to quirks, for some of a vendor's models.

_P = ParamSpec("_P")
_Group = TypeVar("_Group", covariant=True)
_Quirks = TypeVar("_Quirks", bound=msgspec.Struct)


@dataclass(frozen=True)
class Change(Generic[_Group]):
    """Values for some fields of a group; made by `change`, which checks them."""

    group: Callable[..., _Group]
    fields: Mapping[str, Any]


def change(group: Callable[_P, T], *_: _P.args, **fields: _P.kwargs) -> Change[T]:
    """Changes these fields of a group, and no others.

    group:  the class of the group, or of the quirks for fields outside the groups
    raises: TypeError for an unknown field
    """
    group(*_, **fields)
    return Change(group, fields)


@dataclass(frozen=True, init=False)
class ModelQuirks(Generic[_Group]):
    """Changes for the models whose names match.

    pattern: searched in the model's name, in any case
    """

    pattern: str
    changes: tuple[Change[_Group], ...]

    def __init__(self, pattern: str, *changes: Change[_Group]) -> None:
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "changes", changes)


def changes_for(model: str, rules: Iterable[ModelQuirks[_Group]]) -> list[Change[_Group]]:
    """Returns the changes of the rules that match; later ones win."""
    return [one for rule in rules if re.search(rule.pattern, model, re.IGNORECASE) for one in rule.changes]


def changed(quirks: _Quirks, changes: Iterable[Change[Any]]) -> _Quirks:
    """Returns the quirks with these changes; later ones win."""
    groups: dict[Any, dict[str, Any]] = {}
    for one in changes:
        groups.setdefault(one.group, {}).update(one.fields)
    if not groups:
        return quirks
    own = groups.pop(type(quirks), {})
    names = _names(type(quirks))
    for group, fields in groups.items():
        name = names[group]
        own[name] = msgspec.structs.replace(own.get(name, getattr(quirks, name)), **fields)
    return msgspec.structs.replace(quirks, **own)


@functools.cache
def _names(kind: type[msgspec.Struct]) -> dict[Any, str]:
    """Maps the class of each group to its field."""
    usual = kind()
    return {type(getattr(usual, name)): name for name in kind.__struct_fields__}
