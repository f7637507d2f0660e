"""What an agent is made of, as a value that its runs share."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

from llmstream.agent.context.effects import ContextEffect
from llmstream.agent.hooks import Hooks, Instructions, PrepareStep, Repair, answered
from llmstream.agent.journal import Journal
from llmstream.agent.observing import ObserveRun
from llmstream.agent.state import Price, RunState
from llmstream.agent.stop import MAX_INVALID_CALLS, StopCondition, as_conditions
from llmstream.errors import InvalidRequest
from llmstream.request import Settings
from llmstream.streams.model import Model
from llmstream.streams.observations import joined
from llmstream.streams.options import Options
from llmstream.structured import as_output
from llmstream.tools import ToolSet
from llmstream.tools.approval import Approver
from llmstream.tools.signature import check_arguments

__all__ = [
    "MAX_STEPS",
    "TOOL_LIMIT",
    "AgentConfig",
    "at_least_one",
    "check_names",
    "effects_of",
    "extended",
    "function_or_none",
    "hooks_of",
    "instructions_of",
    "journal_of",
    "key_or_none",
    "overridden",
    "seconds_or_none",
    "text_or_none",
    "whole_number",
]


# What an agent cannot be made of is said when it is made, not in the middle of its first run.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """See `Agent` for what each field means. `clock` gives seconds, for timings and limits of time.

    instructions: those that are asked for at each step
    system:       those that are a text, which stands in the conversation
    """

    model: Model
    name: str = ""
    options: Options = field(default_factory=Options)
    instructions: Instructions | None = None
    system: str = ""
    max_steps: int = MAX_STEPS
    max_invalid_calls: int | None = MAX_INVALID_CALLS
    empty_retries: int = 0
    stop_when: tuple[StopCondition, ...] = ()
    prepare_step: PrepareStep | None = None
    context_effects: tuple[ContextEffect, ...] = ()
    hooks: Hooks = field(default_factory=Hooks)
    approve: Approver | None = None
    repair: Repair | None = None
    price: Price | None = None
    approval_key: bytes | None = None
    approval_ttl_s: float | None = None
    tool_limit: int = TOOL_LIMIT
    tool_timeout_s: float | None = None
    journal: Journal | None = None
    observe: ObserveRun | None = None
    clock: Callable[[], float] = time.monotonic


# What one run has in place of what its agent has.


def overridden(
    config: AgentConfig,
    options: Options,
    *,
    model: str | Model | None = None,
    max_steps: int | None = None,
    stop_when: StopCondition | Iterable[StopCondition] | None = None,
    observe: ObserveRun | None = None,
) -> AgentConfig:
    """What the agent is made of, with these in place of its own; None is as if not given.

    A field of `settings` wins over the agent's, however that was given.

    raises: InvalidRequest for what is no tool, no condition and no number of steps
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if "output" in given:
        given["output"] = as_output(given["output"])
    if "tools" in given:
        given["tools"] = ToolSet.of(given["tools"])
    changes: dict[str, Any] = {}
    if given:
        fields = _fields(given.get("settings"))
        own = {name: value for name, value in config.options.items() if name not in fields}
        changes["options"] = cast(Options, {**own, **given})
    if model is not None:
        changes["model"] = model if isinstance(model, Model) else Model(model)
    if max_steps is not None:
        changes["max_steps"] = at_least_one("max_steps", max_steps, config.max_steps)
    if stop_when is not None:
        changes["stop_when"] = as_conditions(stop_when)
    if observe is not None:
        changes["observe"] = joined(config.observe, function_or_none("observe", observe))
    return replace(config, **changes) if changes else config


def extended(instructions: str | Instructions, extra: str | None) -> str | Instructions:
    """The instructions with more behind them."""
    if not extra:
        return instructions
    if isinstance(instructions, str):
        return f"{instructions}\n\n{extra}" if instructions else extra

    async def both(state: RunState) -> str | None:
        text = await answered(instructions, state)
        # What is no text is left to the check of the step, which names it.
        return f"{text}\n\n{extra}" if isinstance(text, str) and text else text or extra

    return both


def _fields(settings: Settings | Mapping[str, Any] | None) -> set[str]:
    """The names of the settings that are given."""
    if isinstance(settings, Mapping):
        return set(settings)
    names = Settings.__struct_fields__
    return {name for name in names if getattr(settings, name, None) is not None}
