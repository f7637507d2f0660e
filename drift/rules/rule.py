"""What a rule is, and the two that every table of efforts makes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from drift.requests import Sent, Wanted

__all__ = [
    "Check",
    "Efforts",
    "Rule",
    "effort_rules",
    "first_of",
    "kind_of",
    "other_effort",
    "unknown_effort",
]

Check: TypeAlias = Callable[[Wanted, Sent], bool]
Efforts: TypeAlias = Mapping[str, tuple[str, ...]]
"""Patterns of models to the efforts that they know; the first that is found counts.

A name that none is found in has no rule. () is a model that takes no effort at all.
"""


class Rule(NamedTuple):
    """One thing that is refused, lost or left unsaid.

    name:      what goes wrong, in short
    providers: whose requests it is about
    models:    pattern, searched in the name
    fails:     whether a request breaks it
    source:    where it was read
    refused:   whether it is about requests that llmstream refuses to encode, too
    """

    name: str
    providers: tuple[str, ...]
    models: str
    fails: Check
    source: str
    refused: bool = False

    def is_about(self, provider: str, model: str) -> bool:
        """Whether the rule is about this model."""
        return provider in self.providers and re.search(self.models, model) is not None


def kind_of(sent: Sent) -> str | None:
    """How thinking is switched, such as "adaptive" or "disabled"; None where the field is absent."""
    kind = sent.thinking.get("type")
    return kind if isinstance(kind, str) else None


def first_of(rows: Efforts, model: str) -> tuple[str, ...] | None:
    """The efforts of a model; None where the table does not know it."""
    return next((value for pattern, value in rows.items() if re.search(pattern, model)), None)


def unknown_effort(rows: Efforts, *refused: str) -> Check:
    """An effort is sent that the model does not know."""

    known_by = functools.cache(functools.partial(first_of, rows))

    def fails(wanted: Wanted, sent: Sent) -> bool:
        known = known_by(wanted.model)
        if sent.effort is None or known is None:
            return False
        return sent.effort not in known or sent.effort in refused

    return fails


def other_effort(rows: Efforts, *refused: str) -> Check:
    """The model knows the effort that is asked for, and another or none is sent."""

    known_by = functools.cache(functools.partial(first_of, rows))

    def fails(wanted: Wanted, sent: Sent) -> bool:
        known = known_by(wanted.model) or ()
        effort = wanted.effort
        if effort is None or effort not in known or effort in refused or effort == "none":
            return False
        left_out = sent.effort is None and len(known) == 1  # it is what the model does anyway
        return sent.effort != effort and not left_out

    return fails


def effort_rules(
    name: str, providers: tuple[str, ...], rows: Efforts, source: str, *refused: str
) -> tuple[Rule, Rule]:
    """Both rules for the models of a table.

    refused: efforts that this wire does not take of any model
    """
    return (
        Rule(f"{name} gets an effort that it refuses", providers, "", unknown_effort(rows, *refused), source),
        Rule(
            f"{name} gets another effort than the one it knows and is asked for",
            providers,
            "",
            other_effort(rows, *refused),
            source,
        ),
    )
