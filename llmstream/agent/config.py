"""The configuration of an agent: its arguments, their checks, and the value that its runs share."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

from llmstream.agent.context import ContextEffect
from llmstream.agent.durable_steps import Steps
from llmstream.agent.hooks import Hooks, Instructions, PrepareStep, Repair, call_hook
from llmstream.agent.journal import Journal
from llmstream.agent.observing import ObserveRun
from llmstream.agent.recorder import WhenInterrupted
from llmstream.agent.state import MAX_INVALID_CALLS, Price, RunState, StopCondition, as_conditions
from llmstream.chats.chat import Chat
from llmstream.errors import InvalidRequest
from llmstream.other_sdks import agent_hint, listed
from llmstream.request import Settings
from llmstream.streams.model import Model
from llmstream.streams.observations import joined
from llmstream.streams.options import CallOptions, Options
from llmstream.structured import as_output
from llmstream.tools.approval import Approver
from llmstream.tools.signature import check_arguments
from llmstream.tools.toolset import ToolSet

__all__ = [
    "MAX_STEPS",
    "TOOL_LIMIT",
    "AgentArguments",
    "AgentConfig",
    "RunOptions",
    "at_least_one",
    "at_least_zero",
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
    "when_interrupted",
]


MAX_STEPS: Final = 20
"""Default step limit: above typical runs, low enough to bound cost."""

TOOL_LIMIT: Final = 8
"""Default number of concurrent calls: enough for the calls of one response, gentle on local tools."""

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The checked arguments of an `Agent`; see there for the fields.

    instructions: a function that returns the instructions of each step
    system:       instructions given as text, which are part of the conversation
    clock:        seconds, for timings and time limits
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
    interrupted: WhenInterrupted = "report"
    observe: ObserveRun | None = None
    clock: Callable[[], float] = time.monotonic


# Arguments of `Agent` and of its runs, for type checkers.


class RunOptions(CallOptions, total=False):
    """Keyword arguments of `Agent.stream` and `Agent.run`, except `output` and `deps`."""

    model: str | Model | None
    instructions: str | Instructions | None
    extra_instructions: str | None
    max_steps: int | None
    stop_when: StopCondition | Iterable[StopCondition] | None
    observe: ObserveRun | None
    chat: Chat | None
    steps: Steps | None


class AgentArguments(CallOptions, total=False):
    """Keyword arguments of `Agent`, except `output` and `deps`."""

    name: str
    instructions: str | Instructions | None
    max_steps: int | None
    max_invalid_calls: int | None
    empty_retries: int
    stop_when: StopCondition | Iterable[StopCondition] | None
    prepare_step: PrepareStep | None
    context_effects: ContextEffect | Iterable[ContextEffect] | None
    hooks: Hooks | None
    approve: Approver | None
    approval_key: bytes | None
    approval_ttl_s: float | None
    repair: Repair | None
    price: Price | None
    tool_limit: int | None
    tool_timeout_s: float | None
    journal: Journal | str | os.PathLike[str] | None
    interrupted: WhenInterrupted
    observe: ObserveRun | None


# A run may replace parts of its agent's configuration.


def overridden(
    config: AgentConfig,
    options: Options,
    *,
    model: str | Model | None = None,
    max_steps: int | None = None,
    stop_when: StopCondition | Iterable[StopCondition] | None = None,
    observe: ObserveRun | None = None,
) -> AgentConfig:
    """The agent's configuration with the arguments of one run; None means not given.

    A field of `settings` also replaces the agent's option of that name.

    raises: InvalidRequest for invalid tools, conditions or numbers of steps
    """
    # None is "not given" for every option.
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if "output" in given:
        given["output"] = as_output(given["output"])
    if "tools" in given:
        given["tools"] = ToolSet.of(given["tools"])
    changes: dict[str, Any] = {}
    if given:
        fields = _fields(given.get("settings"))
        # An option overrides a field of `settings`, so the agent's would hide the run's.
        own = {name: value for name, value in config.options.items() if name not in fields}
        changes["options"] = cast(Options, {**own, **given})
    if model is not None:
        changes["model"] = model if isinstance(model, Model) else Model(model)
    if max_steps is not None:
        changes["max_steps"] = at_least_one("max_steps", max_steps, config.max_steps)
    if stop_when is not None:
        changes["stop_when"] = as_conditions(stop_when)
    # Both are called: observing a run must not disable the agent's telemetry.
    if observe is not None:
        changes["observe"] = joined(config.observe, function_or_none("observe", observe))
    return replace(config, **changes) if changes else config


def extended(instructions: str | Instructions, extra: str | None) -> str | Instructions:
    """The instructions, followed by the extra ones."""
    if not extra:
        return instructions
    if isinstance(instructions, str):
        return f"{instructions}\n\n{extra}" if instructions else extra

    async def both(state: RunState) -> str | None:
        text = await call_hook(instructions, state)
        # A non-string value is passed on: the check of the step reports it.
        return f"{text}\n\n{extra}" if isinstance(text, str) and text else text or extra

    return both


def _fields(settings: Settings | Mapping[str, Any] | None) -> set[str]:
    if isinstance(settings, Mapping):
        return set(settings)
    names = Settings.__struct_fields__
    return {name for name in names if getattr(settings, name, None) is not None}


# Checks of arguments: invalid ones fail when the agent is created, not during its first run.


def check_names(options: Set[str], own: Iterable[str]) -> None:
    """Checks that a stream or an agent has each option.

    own:    the options that only an agent has
    raises: InvalidRequest
    """
    unknown = min(options - Options.__annotations__.keys(), default=None)
    if unknown is None:
        return
    known = {*own, *Options.__annotations__}
    hint = agent_hint(unknown, known) or listed(known)
    raise InvalidRequest(f"unknown option {unknown!r} of an agent. {hint}")


def at_least_one(name: str, value: int | None, default: int) -> int:
    """An integer of at least 1; the default for None.

    raises: InvalidRequest
    """
    if value is None:
        return default
    # True is an int.
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(f"{name} must be an integer, got {value!r}")
    if value < 1:
        raise InvalidRequest(f"{name} must be at least 1, got {value}")
    return value


def function_or_none(name: str, value: _F | None, *arguments: str) -> _F | None:
    """A function, or None.

    arguments: names of the arguments that it must accept; none for no check
    raises: InvalidRequest
    """
    if value is not None and not callable(value):
        raise InvalidRequest(f"{name} must be a function, got {value!r}")
    if value is not None and arguments:
        check_arguments(name, value, *arguments)
    return value


def text_or_none(name: str, value: str | None) -> str | None:
    """Valid Unicode text, or None.

    raises: InvalidRequest
    """
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(f"{name} must be a str, got {value!r}")
    try:
        (value or "").encode()
    except UnicodeEncodeError:  # no database and no vendor accepts it
        raise InvalidRequest(f"{name} must be valid Unicode, got {value!r:.80}") from None
    return value


def instructions_of(value: str | Instructions | None) -> str | Instructions | None:
    """Instructions: text, a function, or None.

    raises: InvalidRequest
    """
    if value is not None and not isinstance(value, str) and not callable(value):
        raise InvalidRequest(f"instructions must be a str or a function of the run's state, got {value!r}")
    return value


def at_least_zero(name: str, value: int) -> int:
    """An integer of at least 0.

    raises: InvalidRequest
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidRequest(f"{name} must be an integer of at least 0, got {value!r}")
    return value


def seconds_or_none(name: str, value: float | None) -> float | None:
    """Seconds, or None for no limit. Zero and negative values are allowed: that time is already over.

    raises: InvalidRequest
    """
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
        raise InvalidRequest(f"{name} must be a number of seconds, or None for no limit; got {value!r}")
    return value


def key_or_none(value: bytes | None) -> bytes | None:
    """A key for HMACs, or None.

    raises: InvalidRequest for anything but bytes, and for empty bytes, which protect nothing
    """
    if value is not None and (not isinstance(value, bytes | bytearray) or not value):
        raise InvalidRequest("approval_key must be non-empty bytes")
    return value


def hooks_of(value: Hooks | None) -> Hooks:
    """The hooks; no hooks for None.

    raises: InvalidRequest
    """
    if value is None:
        return Hooks()
    if not isinstance(value, Hooks):
        raise InvalidRequest(f"hooks must be a Hooks, such as Hooks(before_tool=...), got {value!r}")
    return value


def effects_of(value: ContextEffect | Iterable[ContextEffect] | None) -> tuple[ContextEffect, ...]:
    """The effects as a tuple.

    raises: InvalidRequest
    """
    if value is None:
        return ()
    if not callable(value) and not isinstance(value, Iterable):
        raise InvalidRequest(f"context_effects must be a list of functions, got {value!r}")
    # Checked first: an `Effect` is one function, and a class may be both callable and iterable.
    effects = (value,) if callable(value) else tuple(value)
    wrong = next((e for e in effects if not callable(e)), None)
    if wrong is not None:
        raise InvalidRequest(f"a context effect must be a function from messages to messages, got {wrong!r}")
    return effects


def when_interrupted(value: WhenInterrupted) -> WhenInterrupted:
    """The handling of interrupted calls.

    raises: InvalidRequest
    """
    if value not in ("report", "ask", "again"):
        raise InvalidRequest(f'interrupted must be "report", "ask" or "again", got {value!r}')
    return value


def journal_of(value: Journal | str | os.PathLike[str] | None) -> Journal | None:
    """The journal, created from a path if needed.

    raises: InvalidRequest
    """
    if value is None or isinstance(value, Journal):
        return value
    if not isinstance(value, str | os.PathLike):
        raise InvalidRequest(f"journal must be a Journal or a path, got {value!r}")
    return Journal(value)
