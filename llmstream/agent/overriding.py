"""What one run has in place of what its agent has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from llmstream.agent.config import AgentConfig
from llmstream.agent.hooks import answered
from llmstream.agent.option_checks import at_least_one, function_or_none
from llmstream.agent.plan import Instructions
from llmstream.agent.state import RunState
from llmstream.agent.stop import StopCondition, as_conditions
from llmstream.agent.watching import ObserveRun
from llmstream.request import Settings
from llmstream.streams.model import Model
from llmstream.streams.observations import joined
from llmstream.streams.options import Options
from llmstream.structured import as_output
from llmstream.tools import ToolSet

__all__ = ["extended", "overridden"]


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
