"""Hooks: an application's say before and after each answer of the model and each tool call."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from llmstream.chats.content import ToolCall
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest, ToolError
from llmstream.request import NamedTool, Settings
from llmstream.streams.model import Model
from llmstream.streams.options import Options
from llmstream.tools import AnyTool, ToolCallStatus
from llmstream.tools.approval import Approve, Deny
from llmstream.tools.signature import check_arguments

if TYPE_CHECKING:
    from llmstream.agent.state import RunState

__all__ = [
    "AfterTool",
    "Again",
    "Approve",
    "Deny",
    "Hooks",
    "Instructions",
    "PrepareStep",
    "Proceed",
    "Repair",
    "Rewrite",
    "Skip",
    "StepPlan",
    "Stop",
    "answered",
]


# What a hook or a person may decide: values, one type each.


@dataclass(frozen=True, slots=True)
class Proceed:
    """Go on as if nobody had been asked; the same as None."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Go on with this in place of what was there; what it is depends on the hook, see `Hooks`."""

    value: Any


@dataclass(frozen=True, slots=True)
class Skip:
    """Do not do it; this stands as what it gave: a tool's result, or the model's answer."""

    result: Any = "Skipped."


@dataclass(frozen=True, slots=True)
class Stop:
    """The run ends as soon as its history is whole. What has not run gets a result that says so."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Again:
    """The answer will not do: it stands in the history, this behind it, and the model answers again.

    feedback: what is wrong, as the model reads it; a user message
    """

    feedback: str | Message


Decision: TypeAlias = Proceed | Rewrite | Skip | Again | Approve | Deny | Stop | None


_T = TypeVar("_T")

BeforeModel: TypeAlias = "Callable[[RunState], Decision | Awaitable[Decision]]"
AfterModel: TypeAlias = "Callable[[RunState, Message], Decision | Awaitable[Decision]]"
BeforeTool: TypeAlias = "Callable[[RunState, ToolCall], Decision | Awaitable[Decision]]"
AfterTool: TypeAlias = "Callable[[RunState, ToolCall, ToolCallStatus], Decision | Awaitable[Decision]]"
Repair: TypeAlias = Callable[[ToolCall, ToolError], ToolCall | Awaitable[ToolCall | None] | None]
"""Given a call that cannot run and why; gives the call to run in its place, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Functions, sync or async, that are asked on the way. Each gives a decision, or None to go on.

    before_model: `Rewrite(messages)` shows the model those, for this step; `Skip(text or Message)`
                  stands as its answer, and it is not asked; `Stop`
    after_model:  `Rewrite(message)` stands in the history in place of what the model said, and its
                  calls are those that run; `Again(feedback)` has the model answer once more, and no
                  call of the answer runs; `Stop`
    before_tool:  `Rewrite(arguments)` as a JSON value or text; `Skip(result)`; `Approve` spares the
                  call a person's approval; `Deny`; `Stop`. Asked again before a call runs that a person
                  approved while the run was suspended: then `Rewrite` refuses the call, unless it gives
                  the arguments that were approved
    after_tool:   `Rewrite(result)`, any value that a tool may return; `Stop`
    max_again:    how often a run may be told `Again`; the next time it fails with InvalidOutput

    An exception of a hook ends the run and is raised as it is.

    raises: InvalidRequest where one is no function or takes other arguments, or max_again is no number
    """

    before_model: BeforeModel | None = None
    after_model: AfterModel | None = None
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    max_again: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.max_again, int) or isinstance(self.max_again, bool) or self.max_again < 0:
            raise InvalidRequest(f"max_again is a whole number from 0 on, got {self.max_again!r}")
        for name, arguments in _ARGUMENTS.items():
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise InvalidRequest(f"the hook {name} is a function, got {hook!r}")
            if hook is not None:
                check_arguments(f"the hook {name}", hook, *arguments)


_ARGUMENTS: Final = {
    "before_model": ("state",),
    "after_model": ("state", "message"),
    "before_tool": ("state", "call"),
    "after_tool": ("state", "call", "status"),
}


async def answered(hook: Callable[..., _T | Awaitable[_T]] | None, *args: Any) -> _T | None:
    """What a hook says, sync or async; None where there is no hook."""
    if hook is None:
        return None
    said: Any = hook(*args)
    found: _T | None = await said if inspect.isawaitable(said) else said
    return found


# What may differ from step to step: the plan of one.


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
