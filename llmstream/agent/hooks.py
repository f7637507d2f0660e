"""Hooks: functions of the application, called before and after each response and each tool call.

`StepPlanner` applies them before a request, `reviewed` after the response, and `CallGate` before a tool call:
it repairs the call, applies `before_tool`, and gets the approval that the call needs.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import msgspec

from llmstream.agent.state import RunState
from llmstream.chats.content import ToolCall
from llmstream.chats.message import Message, copy_messages
from llmstream.errors import InvalidRequest, ToolError
from llmstream.request import NamedTool, Settings, ToolSpec
from llmstream.streams.call import CallingModel
from llmstream.streams.options import Options
from llmstream.tools.approval import (
    Approve,
    Approver,
    Deny,
    PendingCall,
    Run,
    Settled,
    Verdict,
    Wait,
    as_decision,
    asked,
    denied,
)
from llmstream.tools.outcome import ToolCallStatus, ToolOutcome
from llmstream.tools.signature import check_arguments
from llmstream.tools.tool import AnyTool, ContextOf
from llmstream.tools.toolset import ToolSet, unreadable_input

if TYPE_CHECKING:
    from llmstream.agent.recorder import Recorder
    from llmstream.streams.model import Model

__all__ = [
    "AfterTool",
    "Again",
    "Approve",
    "CallGate",
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


Ask: TypeAlias = Callable[[PendingCall], Awaitable[PendingCall]]
"""Called before the approver, to report a request for approval; returns the request to use."""


class CallGate:
    """Decides about the calls of one run, by its tools, hooks, approver and repair function.

    decided: earlier decisions of a person, by the id of the call; only the hook is called again for these,
    because it may now forbid the call
    context: returns the context of a call, for predicates that take one
    """

    def __init__(
        self,
        state: RunState,
        hooks: Hooks,
        *,
        approve: Approver | None,
        repair: Repair | None,
        decided: Mapping[str, Approve | Deny] | None = None,
        context: ContextOf | None = None,
    ) -> None:
        self._state = state
        self._hooks = hooks
        self._approve = approve
        self._repair = repair
        # Used decisions are removed from `_decided`; this set remembers which calls had one.
        self._given = frozenset(decided or {})
        self._decided = dict(decided or {})
        self._context = context

    def decides(self, call: ToolCall, tools: ToolSet) -> bool:
        """Whether the verdict depends on functions or people, and not on the call alone."""
        if call.id in self._decided or self._hooks.before_tool is not None or self._repair is not None:
            return True
        found = tools.find(call.name)
        return found is not None and found.needs_approval is not False

    def was_decided(self, call: ToolCall) -> bool:
        """Whether a person's decision about the call was given."""
        return call.id in self._given

    async def judge(self, call: ToolCall, tools: ToolSet, ask: Ask) -> Verdict:
        """Decides about one call."""
        # It runs outside this process, so there is no decision to make; the run waits for its result.
        if tools.declaration(call.name) is not None:
            return await self._external(call, tools)
        decision = self._decided.pop(call.id, None)
        if decision is not None:  # repaired and rewritten before it was shown
            return await self._decided_before(call, decision, tools)
        # Repaired first: the hook and the person decide about the call that will run.
        call = await self._repaired(call, tools.error_of(call) if self._repair is not None else None)
        reply = await call_hook(self._hooks.before_tool, self._state, call)
        match reply:
            case Rewrite(arguments):
                # A vendor's signature covers the arguments that the model wrote.
                call = msgspec.structs.replace(call, arguments=_as_text(arguments), metadata=None)
            # The hook's approval replaces the person's, so the approver is not called.
            case Approve():
                return self._by_person(call, reply, tools)
            case None | Proceed():
                pass
            case _:
                return _by_hook(call, reply)
        if not await tools.approval_needed(call, self._context):
            return Run(call)
        return await self._ask_person(call, tools, ask)

    async def _external(self, call: ToolCall, tools: ToolSet) -> Verdict:
        """A call of a declared tool waits for its external result; one with unreadable input fails."""
        # The input of a vendor's tool has no schema here.
        spec = isinstance(tools.declaration(call.name), ToolSpec)
        if spec and (error := unreadable_input(call)) is not None:
            call = await self._repaired(call, error)
            error = unreadable_input(call)
            if error is not None:
                return Settled(call, ToolCallStatus.of(call, ToolOutcome.raised(error)))
        return Wait(call, PendingCall(call.id, call.name, call.arguments))

    async def _decided_before(self, call: ToolCall, decision: Approve | Deny, tools: ToolSet) -> Verdict:
        """A call that was decided while the run was suspended. The hook runs again: it may have changed."""
        if isinstance(decision, Deny):
            return Settled(call, denied(call, decision))
        call = tools.approved(call, decision)
        reply = await call_hook(self._hooks.before_tool, self._state, call)
        match reply:
            # A person approved these arguments, not those of the hook.
            case Rewrite(arguments) if not _same_json(_as_text(arguments), call.arguments):
                text = "The call was not run: a hook changed the approved arguments."
                return Settled(call, _refused(call, text))
            case None | Proceed() | Approve() | Rewrite():
                return Run(call, decision.note)
            case _:
                return _by_hook(call, reply)

    async def _ask_person(self, call: ToolCall, tools: ToolSet, ask: Ask) -> Verdict:
        # Unique among all runs: a decision about another call must not match.
        pending = PendingCall(call.id, call.name, call.arguments, f"approval_{secrets.token_hex(8)}")
        # Recorded and reported first: approvers may take days, and readers show the waiting call.
        pending = await ask(pending)
        reply = await asked(self._approve, pending)
        return Wait(call, pending) if reply is None else self._by_person(call, reply, tools)

    async def decisions(self, waiting: Iterable[PendingCall]) -> dict[str, Approve | Deny]:
        """The approver's decisions about calls of a sub-agent, by their `approval_id`."""
        found: dict[str, Approve | Deny] = {}
        for pending in waiting:
            reply = await asked(self._approve, pending) if pending.approval_id else None
            if reply is not None:
                found[pending.approval_id] = reply
        return found

    def _by_person(self, call: ToolCall, reply: Any, tools: ToolSet) -> Verdict:
        decision = as_decision(reply)
        if isinstance(decision, Deny):
            return Settled(call, denied(call, decision))
        return Run(tools.approved(call, decision), decision.note)

    async def _repaired(self, call: ToolCall, error: ToolError | None) -> ToolCall:
        """The call, repaired by the `repair` function if it cannot run; its id stays.

        error: why it cannot run; None if it can
        """
        if error is None or self._repair is None:
            return call
        repaired = await call_hook(self._repair, call, error)
        if repaired is None:
            return call
        if not isinstance(repaired, ToolCall):
            raise InvalidRequest(
                f"repair must return a ToolCall of llmstream.chats or None, got {repaired!r}"
            )
        # The result must have the model's id. Metadata is dropped, because its signature covers the old
        # arguments.
        return ToolCall(call.id, repaired.name, repaired.arguments)


def _by_hook(call: ToolCall, decision: Any) -> Settled:
    """The status of a call that `before_tool` does not allow to run.

    raises: InvalidRequest if the hook returned no decision
    """
    match decision:
        case Skip(result):
            return Settled(call, ToolCallStatus.of(call, ToolOutcome.of(result).fitted()))
        case Stop(reason):
            why = reason or "a hook stopped the run"
            unrun = ToolOutcome.failed(f"The call was not run: {why}.", unrun="cancelled")
            return Settled(call, ToolCallStatus.of(call, unrun), why)
        case Deny():
            return Settled(call, denied(call, decision))
        case _:
            raise InvalidRequest(
                "before_tool must return Rewrite, Skip, Approve, Deny, Stop, Proceed or None, "
                f"got {decision!r}"
            )


def _same_json(one: str, other: str) -> bool:
    try:
        # Compared as values: a hook may have decoded and re-encoded them.
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return one == other


def _as_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"before_tool returned arguments that JSON cannot represent: {error}") from error


def _refused(call: ToolCall, error: str) -> ToolCallStatus:
    return ToolCallStatus.of(call, ToolOutcome.failed(error))
