"""What an agent cannot be made of is said when it is made, not in the middle of its first run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Set
from typing import Any, Final, TypeVar

from llmstream.agent.context.effects import ContextEffect
from llmstream.agent.hooks import Hooks
from llmstream.agent.journal import Journal
from llmstream.agent.plan import Instructions
from llmstream.errors import InvalidRequest
from llmstream.streams.options import Options
from llmstream.tools.signature import check_arguments

__all__ = [
    "MAX_STEPS",
    "TOOL_LIMIT",
    "at_least_one",
    "check_names",
    "effects_of",
    "function_or_none",
    "hooks_of",
    "instructions_of",
    "journal_of",
    "key_or_none",
    "seconds_or_none",
    "text_or_none",
    "whole_number",
]

MAX_STEPS: Final = 20
"""Steps of a run where nobody says how many: more than honest work takes, few enough to afford."""

TOOL_LIMIT: Final = 8
"""Calls at once where nobody says how many."""

_F = TypeVar("_F", bound=Callable[..., Any])


def check_names(options: Set[str], own: Iterable[str]) -> None:
    """Refuses an option that neither a stream nor an agent has.

    own:    what only an agent has
    raises: InvalidRequest
    """
    unknown = min(options - Options.__annotations__.keys(), default=None)
    if unknown is None:
        return
    from llmstream.streams.option_hints import agent_hint  # loaded by those who need one

    known = sorted({*own, *Options.__annotations__})
    hint = agent_hint(unknown, known)
    raise InvalidRequest(
        f"unknown option {unknown!r} of an agent. {hint and hint + ' '}Options: {', '.join(known)}. "
        "What only one vendor knows goes into provider_options."
    )


def at_least_one(name: str, value: int | None, default: int) -> int:
    """A whole number from 1 on, or where it is None the default.

    raises: InvalidRequest
    """
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(f"{name} is a whole number, got {value!r}")
    if value < 1:
        raise InvalidRequest(f"{name} is at least 1, got {value}")
    return value


def function_or_none(name: str, value: _F | None, *arguments: str) -> _F | None:
    """A function, or None.

    arguments: names of those that it will be given, where that is checked

    raises: InvalidRequest
    """
    if value is not None and not callable(value):
        raise InvalidRequest(f"{name} is a function, got {value!r}")
    if value is not None and arguments:
        check_arguments(name, value, *arguments)
    return value


def text_or_none(name: str, value: str | None) -> str | None:
    """A str, or None.

    raises: InvalidRequest
    """
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(f"{name} is a str, got {value!r}")
    return value


def instructions_of(value: str | Instructions | None) -> str | Instructions | None:
    """A text, a function that gives one, or None.

    raises: InvalidRequest
    """
    if value is not None and not isinstance(value, str) and not callable(value):
        raise InvalidRequest(f"instructions is a str, or a function of the run's state; got {value!r}")
    return value


def whole_number(name: str, value: int) -> int:
    """A whole number from 0 on.

    raises: InvalidRequest
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidRequest(f"{name} is a whole number from 0 on, got {value!r}")
    return value


def seconds_or_none(name: str, value: float | None) -> float | None:
    """A time, or None. One that is over already is a time too.

    raises: InvalidRequest
    """
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
        raise InvalidRequest(f"{name} is a number of seconds, or None for no limit; got {value!r}")
    return value


def key_or_none(value: bytes | None) -> bytes | None:
    """A key for HMACs, or None.

    raises: InvalidRequest for anything but bytes, and for none of them: that would protect nothing
    """
    if value is not None and (not isinstance(value, bytes | bytearray) or not value):
        raise InvalidRequest("approval_key is a secret in bytes, and not empty")
    return value


def hooks_of(value: Hooks | None) -> Hooks:
    """The hooks; None for none.

    raises: InvalidRequest
    """
    if value is None:
        return Hooks()
    if not isinstance(value, Hooks):
        raise InvalidRequest(f"hooks is a Hooks(before_tool=...), got {value!r}")
    return value


def effects_of(value: ContextEffect | Iterable[ContextEffect] | None) -> tuple[ContextEffect, ...]:
    """The effects, whether one or several were given, or None.

    raises: InvalidRequest
    """
    if value is None:
        return ()
    if not callable(value) and not isinstance(value, Iterable):
        raise InvalidRequest(f"context_effects is a list of functions, got {value!r}")
    effects = (value,) if callable(value) else tuple(value)
    wrong = next((e for e in effects if not callable(e)), None)
    if wrong is not None:
        raise InvalidRequest(f"a context effect is a function from messages to messages, got {wrong!r}")
    return effects


def journal_of(value: Journal | str | os.PathLike[str] | None) -> Journal | None:
    """The journal, or that of a path.

    raises: InvalidRequest
    """
    if value is None or isinstance(value, Journal):
        return value
    if not isinstance(value, str | os.PathLike):
        raise InvalidRequest(f"journal is a Journal or a path, got {value!r}")
    return Journal(value)
