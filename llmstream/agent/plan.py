"""What may differ from step to step: the plan of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from llmstream.chats.message import Message
from llmstream.request import NamedTool, Settings
from llmstream.streams.model import Model
from llmstream.streams.options import Options
from llmstream.tools import AnyTool

if TYPE_CHECKING:
    from llmstream.agent.state import RunState

__all__ = ["Instructions", "PrepareStep", "StepPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """Changes for one step; what is None stays as the agent has it.

    model:       a `Model` or "provider:model"
    tools:       all tools of the step; only these are offered, and only these run
    tool_choice: as in the options of `stream`
    instructions: the system prompt of the step, in place of the agent's
    messages:    what the model is shown; the run's own history stays as it is
    settings:    in place of the agent's
    options:     any other option of `stream`, by name
    """

    model: str | Model | None = None
    tools: Iterable[AnyTool] | None = None
    tool_choice: str | NamedTool | None = None
    instructions: str | None = None
    messages: Iterable[Message] | None = None
    settings: Settings | Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def options_over(self, options: Options) -> Options:
        """The options of the step: the agent's with the changes."""
        changed: dict[str, Any] = {**options, **self.options}
        for name in ("tools", "tool_choice", "settings"):
            value = getattr(self, name)
            if value is not None:
                changed[name] = value
        return cast(Options, changed)

    def model_over(self, model: Model) -> Model:
        """The model of the step."""
        if self.model is None:
            return model
        return self.model if isinstance(self.model, Model) else Model(self.model)


PrepareStep: TypeAlias = "Callable[[RunState], StepPlan | Awaitable[StepPlan | None] | None]"
"""Asked before each step; sync or async."""

_Text: TypeAlias = str | Awaitable[str | None] | None

Instructions: TypeAlias = "Callable[[RunState], _Text] | Callable[[], _Text]"
"""Asked for the system prompt of each step; sync or async; None or "" for none."""
