"""What is different still for some of a vendor's models, as data of its quirks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

__all__ = ["ModelQuirks", "changes_for"]


class ModelQuirks(msgspec.Struct, frozen=True):
    """Changes for the models whose names match.

    pattern: searched in the model's name, in any case
    changes: fields of `Quirks` and their values
    """

    pattern: str
    changes: Mapping[str, Any]


def changes_for(model: str, rules: Iterable[ModelQuirks]) -> dict[str, Any]:
    """What the rules that fit change; later ones win."""
    changes: dict[str, Any] = {}
    for rule in rules:
        if re.search(rule.pattern, model, re.IGNORECASE):
            changes.update(rule.changes)
    return changes
