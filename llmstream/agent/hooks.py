"""Hooks: functions of the application, called before and after each response and each tool call.

`planning` applies them before a request; `reviewed` applies `after_model` to the response.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from llmstream.agent.state import RunState
from llmstream.chats.content import ToolCall
from llmstream.chats.copying import copy_messages
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest, ToolError
from llmstream.request import NamedTool, Settings
from llmstream.streams.call import CallingModel
from llmstream.streams.options import Options
from llmstream.tools.approval import Approve, Deny
from llmstream.tools.outcome import ToolCallStatus
from llmstream.tools.signature import check_arguments
from llmstream.tools.tool import AnyTool

if TYPE_CHECKING:
    from llmstream.agent.recorder import Recorder
    from llmstream.agent.state import RunState
    from llmstream.streams.model import Model

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
    "call_hook",
    "reviewed",
]

# Decisions of hooks and persons, one type each.


@dataclass(frozen=True, slots=True)
class Proceed:
    """Continue without changes; the same as None."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Continue with this value instead; its type depends on the hook, see `Hooks`."""

    value: Any


@dataclass(frozen=True, slots=True)
class Skip:
    """Skip the request or call, and use this as the model's response or the tool's result."""

    result: Any = "Skipped."


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run once its history is complete. Calls that have not run get an error result."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Again:
    """Reject the response: it stays in the history, followed by the feedback, and the model responds again.

    feedback: what is wrong, as a user message to the model
    """

    feedback: str | Message


Decision: TypeAlias = Proceed | Rewrite | Skip | Again | Approve | Deny | Stop | None


_T = TypeVar("_T")

BeforeModel: TypeAlias = "Callable[[RunState], Decision | Awaitable[Decision]]"
AfterModel: TypeAlias = "Callable[[RunState, Message], Decision | Awaitable[Decision]]"
BeforeTool: TypeAlias = "Callable[[RunState, ToolCall], Decision | Awaitable[Decision]]"
AfterTool: TypeAlias = "Callable[[RunState, ToolCall, ToolCallStatus], Decision | Awaitable[Decision]]"
Repair: TypeAlias = Callable[[ToolCall, ToolError], ToolCall | Awaitable[ToolCall | None] | None]
"""Receives a call that cannot run and the reason; returns the call to run instead, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Sync or async functions that are called in each step. Each returns a decision, or None to continue.

    before_model: `Rewrite(messages)` sends these messages in this step; `Skip(text or Message)` is used
                  as the response, and no request is sent; `Stop`
    after_model:  `Rewrite(message)` replaces the response in the history, and its calls run;
                  `Again(feedback)` requests another response, and no call of this one runs; `Stop`
    before_tool:  `Rewrite(arguments)` as a JSON value or text; `Skip(result)`; `Approve` replaces a
                  person's approval; `Deny`; `Stop`. Called again for a call that a person approved
                  while the run was suspended: then `Rewrite` refuses the call, unless it returns
                  the approved arguments
    after_tool:   `Rewrite(result)`, any value that a tool may return; `Stop`
    max_again:    how many times a run may use `Again`; the next one fails with InvalidOutput

    An exception of a hook ends the run and is raised unchanged.

    raises: InvalidRequest if a hook is not a function of these arguments, or max_again is not an integer
    """

    before_model: BeforeModel | None = None
    after_model: AfterModel | None = None
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    max_again: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.max_again, int) or isinstance(self.max_again, bool) or self.max_again < 0:
            raise InvalidRequest(f"max_again must be an integer of at least 0, got {self.max_again!r}")
        for name, arguments in _ARGUMENTS.items():
            # An invalid hook fails here instead of during a run.
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise InvalidRequest(f"the hook {name} must be a function, got {hook!r}")
            if hook is not None:
                check_arguments(f"the hook {name}", hook, *arguments)


_ARGUMENTS: Final = {
    "before_model": ("state",),
    "after_model": ("state", "message"),
    "before_tool": ("state", "call"),
    "after_tool": ("state", "call", "status"),
}


async def call_hook(hook: Callable[..., _T | Awaitable[_T]] | None, *args: Any) -> _T | None:
    """Calls a sync or async hook; None without a hook."""
    if hook is None:
        return None
    returned: Any = hook(*args)
    value: _T | None = await returned if inspect.isawaitable(returned) else returned
    return value


# Options that may change from step to step.


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """Changes for one step; a field that is None keeps the agent's value.

    model:       a `Model` or "provider:model"
    tools:       all tools of the step; only these are offered, and only these run
    tool_choice: as in the options of `stream`
    instructions: the system prompt of the step, instead of the agent's
    messages:    the messages of the request; the run's history does not change
    settings:    instead of the agent's
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
        """The agent's options with the changes for this step."""
        changed: dict[str, Any] = {**options, **self.options}
        for name in ("tools", "tool_choice", "settings"):
            value = getattr(self, name)
            if value is not None:
                changed[name] = value
        return cast(Options, changed)

    def model_over(self, model: CallingModel) -> CallingModel:
        """The model of the step.

        raises: InvalidRequest if the plan's model is neither a `Model` nor "provider:model"
        """
        if self.model is None:
            return model
        return self.model if isinstance(self.model, CallingModel) else model.other(self.model)


PrepareStep: TypeAlias = "Callable[[RunState], StepPlan | Awaitable[StepPlan | None] | None]"
"""Called before each step; sync or async."""

_Text: TypeAlias = str | Awaitable[str | None] | None

Instructions: TypeAlias = "Callable[[RunState], _Text] | Callable[[], _Text]"
"""Returns the system prompt of each step; sync or async; None or "" for none."""


async def reviewed(
    after_model: AfterModel | None, state: RunState, message: Message, recorder: Recorder | None = None
) -> Message | Again | Stop:
    """The response for the history after `after_model`, or its decision to repeat or to stop."""

    async def hook() -> Any:
        # A copy: the hook may modify its argument without changing the response.
        return await call_hook(after_model, state, copy_messages([message])[0])

    if recorder is None or after_model is None:
        decision = await hook()
    else:
        decision = await recorder.decision(f"{state.step}/after_model", hook)
    match decision:
        case None | Proceed():
            return message
        case Rewrite(Message() as changed):
            return changed
        case Stop() | Again(str() | Message()):
            return decision
        case _:
            raise InvalidRequest(
                f"after_model must return Rewrite(Message), Again, Stop, Proceed or None, got {decision!r}"
            )
