"""Hooks: functions of the application, called before and after each response and each tool call.

`StepPlanner` applies `prepare_step`, hooks, effects and instructions before a request; `reviewed` applies
`after_model` to the response.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from llmstream.agent.context.effects import ContextEffect, RunEffects, replaces
from llmstream.agent.state import RunState
from llmstream.chats.content import ToolCall
from llmstream.chats.copying import copy_messages
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest, ToolError
from llmstream.events import Event, TextDelta, TextEnd, TextStart
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
    from llmstream.usage import Usage

__all__ = [
    "AfterTool",
    "Again",
    "Approve",
    "Deny",
    "HookResponse",
    "Hooks",
    "Instructions",
    "PrepareStep",
    "Proceed",
    "Repair",
    "Rewrite",
    "Skip",
    "StepPlan",
    "StepPlanner",
    "Stop",
    "call_hook",
    "prepared",
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


async def prepared(prepare_step: PrepareStep | None, state: RunState) -> StepPlan:
    """The plan of `prepare_step`.

    raises: InvalidRequest if it returned anything but a plan
    """
    plan = await call_hook(prepare_step, state)
    if plan is not None and not isinstance(plan, StepPlan):
        raise InvalidRequest(f"prepare_step must return a StepPlan or None, got {plan!r}")
    if plan is None:
        return StepPlan()
    return plan if plan.messages is None else replace(plan, messages=_shown("prepare_step", plan.messages))


class HookResponse:
    """A response that a hook returned instead of the model."""

    def __init__(self, given: object) -> None:
        self.message = given if isinstance(given, Message) else Message.assistant(str(given))

    def events(self) -> list[Event]:
        """The text as one block."""
        text = self.message.text
        return [TextStart("given"), TextDelta(text, "given"), TextEnd("given")] if text else []


class StepEffects:
    """The context effects of a run; those that replace the history apply first."""

    def __init__(self, effects: Iterable[ContextEffect]) -> None:
        found = tuple(effects)
        self._lasting = RunEffects(effect for effect in found if replaces(effect))
        self._passing = RunEffects(effect for effect in found if not replaces(effect))

    async def last(self, state: RunState, recorder: Recorder | None, asked: bool) -> None:
        """Applies the effects that replace the history, once in a run that is recorded.

        asked: whether the response of the step is recorded
        """
        if not self._lasting:
            return
        if recorder is None:
            await self._replace(state)
            return
        spent = await recorder.history(
            state.step, state.conversation, lambda: self._replace(state), asked=asked
        )
        for model, usage in spent:
            state.spend(model, usage)

    async def _replace(self, state: RunState) -> tuple[tuple[str, Usage], ...]:
        before = len(state.spent)
        found = await self._lasting.applied(state.conversation, spend=state.spend, state=state)
        state.conversation[:] = found
        return tuple(state.spent[before:])

    async def applied(self, state: RunState, plan: StepPlan) -> StepPlan:
        """The plan with the messages that the other effects return."""
        passing = self._passing
        if not self._lasting and not passing:
            return plan
        shown = state.conversation if plan.messages is None else plan.messages
        found = await passing.applied(shown, spend=state.spend, state=state)
        return replace(plan, messages=tuple(found))


class StepPlanner:
    """Plans the steps of a run.

    instructions: a function that returns those of each step, or None
    system:       instructions given as text, which are part of the conversation
    """

    def __init__(
        self,
        prepare_step: PrepareStep | None,
        before_model: BeforeModel | None,
        effects: Iterable[ContextEffect],
        *,
        instructions: Instructions | None,
        system: str,
    ) -> None:
        self._prepare_step = prepare_step
        self._before_model = before_model
        self._effects = StepEffects(effects)
        self._instructions = instructions
        self._system = system

    async def plan(self, state: RunState, recorder: Recorder | None = None) -> StepPlan | HookResponse | Stop:
        """The plan of the next step; or a response from a hook; or the decision to stop.

        A step whose response is recorded needs of its plan the tools: nothing else is asked again.
        """
        plan = await prepared(self._prepare_step, state)
        if recorder is not None and await recorder.has_response(state.step):
            await self._effects.last(state, recorder, asked=True)
            return plan
        decision = await self._decided(state, recorder)
        match decision:
            case None | Proceed():
                await self._effects.last(state, recorder, asked=False)
                plan = await self._effects.applied(state, plan)
            case Rewrite(messages):
                plan = replace(plan, messages=_shown("before_model", messages))
            case Skip(str() | Message() as result):
                return HookResponse(result)
            case Stop():
                return decision
            case _:
                raise InvalidRequest(
                    f"before_model must return Rewrite, Skip, Stop, Proceed or None, got {decision!r}"
                )
        return await self._instructed(state, plan)

    async def _decided(self, state: RunState, recorder: Recorder | None) -> Any:
        """The decision of `before_model`."""
        if recorder is None or self._before_model is None:
            return await call_hook(self._before_model, state)
        return await recorder.decision(
            f"{state.step}/before_model", lambda: call_hook(self._before_model, state)
        )

    async def _instructed(self, state: RunState, plan: StepPlan) -> StepPlan:
        """The plan with the instructions of this step as its first message.

        They are not added to the history: the next step, and the next run, has its own.

        raises: InvalidRequest if the function returns anything but text
        """
        text = plan.instructions
        if text is None:
            function = self._instructions
            arguments = () if function is None or _takes_nothing(function) else (state,)
            text = await call_hook(function, *arguments)
        if text is not None and not isinstance(text, str):
            raise InvalidRequest(f"instructions must return a str or None, got {text!r}")
        if not text:
            return plan
        shown = list(state.conversation if plan.messages is None else plan.messages)
        own = shown[0] if shown else None
        if own is not None and own.role == Role.SYSTEM and own.text == self._system:
            del shown[0]  # replaced by the instructions of this step
        return replace(plan, messages=(Message.system(text), *shown))


async def reviewed(
    after_model: AfterModel | None, state: RunState, message: Message, recorder: Recorder | None = None
) -> Message | Again | Stop:
    """The response for the history after `after_model`, or its decision to repeat or to stop."""

    async def hook() -> Any:
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


def _takes_nothing(function: Instructions) -> bool:
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _shown(source: str, messages: object) -> tuple[Message, ...]:
    """The messages for the request.

    source: the function that returned them
    raises: InvalidRequest for anything but messages
    """
    given = tuple(messages) if isinstance(messages, Iterable) else (messages,)
    if isinstance(messages, str) or not all(isinstance(message, Message) for message in given):
        raise InvalidRequest(f"{source} must give a list of messages, got {messages!r}")
    return given
