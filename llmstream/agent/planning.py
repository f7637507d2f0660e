"""The plan of a step: `prepare_step`, `before_model`, effects and instructions, before its request."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llmstream.agent.context.effects import ContextEffect, RunEffects, replaces
from llmstream.agent.hooks import (
    BeforeModel,
    Instructions,
    PrepareStep,
    Proceed,
    Rewrite,
    Skip,
    StepPlan,
    Stop,
    call_hook,
)
from llmstream.agent.state import Expense, RunState
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.events import Event, TextDelta, TextEnd, TextStart

if TYPE_CHECKING:
    from llmstream.agent.recorder import Recorder

__all__ = ["HookResponse", "StepPlanner", "prepared"]


async def prepared(prepare_step: PrepareStep | None, state: RunState) -> StepPlan:
    """The plan of `prepare_step`.

    raises: InvalidRequest if it returned anything but a plan
    """
    plan = await call_hook(prepare_step, state)
    # Anything else would fail later, with an error that does not name the function.
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
        for expense in spent:
            state.spend(*expense)

    async def _replace(self, state: RunState) -> tuple[Expense, ...]:
        before = len(state.spent)
        found = await self._lasting.applied(state.conversation, spend=state.spend, state=state)
        # In place: the state, its readers and the loop share the list.
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
            # Instructions may be a function of the state or of nothing.
            arguments = () if function is None or _takes_nothing(function) else (state,)
            text = await call_hook(function, *arguments)
        if text is not None and not isinstance(text, str):
            raise InvalidRequest(f"instructions must return a str or None, got {text!r}")
        if not text:
            return plan
        shown = list(state.conversation if plan.messages is None else plan.messages)
        own = shown[0] if shown else None
        # Only the agent's own: a system message of the prompt stays.
        if own is not None and own.role == Role.SYSTEM and own.text == self._system:
            del shown[0]  # replaced by the instructions of this step
        return replace(plan, messages=(Message.system(text), *shown))


def _takes_nothing(function: Instructions) -> bool:
    try:
        # Some functions written in C have no signature.
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _shown(source: str, messages: object) -> tuple[Message, ...]:
    """The messages for the request.

    source: the function that returned them
    raises: InvalidRequest for anything but messages
    """
    given = tuple(messages) if isinstance(messages, Iterable) else (messages,)
    # A str is iterable too.
    if isinstance(messages, str) or not all(isinstance(message, Message) for message in given):
        raise InvalidRequest(f"{source} must give a list of messages, got {messages!r}")
    return given
