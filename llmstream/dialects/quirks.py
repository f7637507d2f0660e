"""Quirks in groups, and changes to them for some of a vendor's models.

A dialect's quirks are a frozen struct of frozen structs, one for each concern (thinking, tools, media ...).
`change(ThinkingQuirks, style="effort")` changes some fields of a group. A type checker checks it against the
group's constructor, so that a misspelt field or a wrong value is found before anything runs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeVar

import msgspec

__all__ = ["CACHED_MODELS", "Change", "ModelQuirks", "change", "changed", "changes_for"]

# Number of models whose quirks a dialect caches: callers of a gateway may invent any number of names.
CACHED_MODELS: Final = 1024

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Group = TypeVar("_Group", covariant=True)
_Quirks = TypeVar("_Quirks", bound=msgspec.Struct)


@dataclass(frozen=True)
class Change(Generic[_Group]):
    """Values for some fields of a group; made by `change`, which checks them."""

    group: Callable[..., _Group]
    fields: Mapping[str, Any]


def change(group: Callable[_P, _T], *_: _P.args, **fields: _P.kwargs) -> Change[_T]:
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
