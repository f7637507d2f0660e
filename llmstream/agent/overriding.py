"""Options of one run in place of the agent's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from llmstream.agent import option_checks as checks
from llmstream.agent.config import AgentConfig
from llmstream.request import Settings
from llmstream.streams.options import Options
from llmstream.tools import wrapped

__all__ = ["overridden"]


def overridden(config: AgentConfig, options: Options, max_steps: int | None) -> AgentConfig:
    """What the agent is made of, with these options in place of its own; None is as if not given.

    A field of `settings` wins over the agent's, however that was given.

    raises: InvalidRequest for what is no tool, and no number of steps
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if "tools" in given:
        given["tools"] = wrapped(given["tools"])
    if not given and max_steps is None:
        return config
    fields = _fields(given.get("settings"))
    own = {name: value for name, value in config.options.items() if name not in fields}
    return replace(
        config,
        options=cast(Options, {**own, **given}),
        max_steps=checks.at_least_one("max_steps", max_steps, config.max_steps),
    )


def _fields(settings: Settings | Mapping[str, Any] | None) -> set[str]:
    """The names of the settings that are given."""
    if isinstance(settings, Mapping):
        return set(settings)
    names = Settings.__struct_fields__
    return {name for name in names if getattr(settings, name, None) is not None}
