"""Applies `prepare_step`, hooks, effects and instructions before a request, and `after_model` after it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace

from llmstream.agent.context.effects import ContextEffect, RunEffects, replaces
from llmstream.agent.hooks import (
    AfterModel,
    Again,
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
from llmstream.agent.model_response import HookResponse
from llmstream.agent.state import RunState
from llmstream.chats.copying import copy_messages
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest

__all__ = ["StepPlanner", "prepared", "reviewed"]


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


class StepEffects:
    """The context effects of a run; those that replace the history apply first."""

    def __init__(self, effects: Iterable[ContextEffect]) -> None:
        found = tuple(effects)
        self._lasting = RunEffects(effect for effect in found if replaces(effect))
        self._passing = RunEffects(effect for effect in found if not replaces(effect))

    async def applied(self, state: RunState, plan: StepPlan) -> StepPlan:
        """The plan with the messages that the effects return."""
        lasting, passing = self._lasting, self._passing
        if not lasting and not passing:
            return plan
        if lasting:
            found = await lasting.applied(state.conversation, spend=state.spend, state=state)
            state.conversation[:] = found
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

    async def plan(self, state: RunState) -> StepPlan | HookResponse | Stop:
        """The plan of the next step; or a response from a hook; or the decision to stop."""
        plan = await prepared(self._prepare_step, state)
        decision = await call_hook(self._before_model, state)
        match decision:
            case None | Proceed():
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
    after_model: AfterModel | None, state: RunState, message: Message
) -> Message | Again | Stop:
    """The response for the history after `after_model`, or its decision to repeat or to stop."""
    decision = await call_hook(after_model, state, copy_messages([message])[0])
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
