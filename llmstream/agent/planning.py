"""What the application says before and after an answer of the model: the plan of a step, and its review."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace

from llmstream.agent.answer import GivenAnswer
from llmstream.agent.config import AgentConfig
from llmstream.agent.context.effects import ContextEffect, RunEffects, replaces
from llmstream.agent.decisions import Again, Proceed, Rewrite, Skip, Stop
from llmstream.agent.hooks import answered
from llmstream.agent.plan import Instructions, StepPlan
from llmstream.agent.state import RunState
from llmstream.chats.copying import copy_messages
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest

__all__ = ["StepEffects", "planned", "prepared", "reviewed"]


async def prepared(config: AgentConfig, state: RunState) -> StepPlan:
    """What `prepare_step` wants of the step.

    raises: InvalidRequest where that is no plan
    """
    plan = await answered(config.prepare_step, state)
    if plan is not None and not isinstance(plan, StepPlan):
        raise InvalidRequest(f"prepare_step gives a StepPlan or None, got {plan!r}")
    if plan is None:
        return StepPlan()
    return plan if plan.messages is None else replace(plan, messages=_shown("prepare_step", plan.messages))


async def planned(
    config: AgentConfig, state: RunState, effects: StepEffects
) -> StepPlan | GivenAnswer | Stop:
    """What the next step is to be: a request, an answer that needs none, or none at all."""
    plan = await _wanted(config, state, effects)
    return await _instructed(config, state, plan) if isinstance(plan, StepPlan) else plan


async def _wanted(
    config: AgentConfig, state: RunState, effects: StepEffects
) -> StepPlan | GivenAnswer | Stop:
    plan = await prepared(config, state)
    said = await answered(config.hooks.before_model, state)
    match said:
        case None | Proceed():
            return await effects.kept(state, plan)
        case Rewrite(messages):
            return replace(plan, messages=_shown("before_model", messages))
        case Skip(str() | Message() as result):
            return GivenAnswer(result)
        case Stop():
            return said
        case _:
            raise InvalidRequest(f"before_model gave {said!r}, which is no decision about an answer")


class StepEffects:
    """The context effects of a run; first those that replace the conversation."""

    def __init__(self, effects: Iterable[ContextEffect]) -> None:
        found = tuple(effects)
        self._lasting = RunEffects(effect for effect in found if replaces(effect))
        self._passing = RunEffects(effect for effect in found if not replaces(effect))

    async def kept(self, state: RunState, plan: StepPlan) -> StepPlan:
        """The plan with what the effects leave of the conversation."""
        lasting, passing = self._lasting, self._passing
        if not lasting and not passing:
            return plan
        if lasting:
            found = await lasting.applied(state.conversation, spend=state.spend, state=state)
            state.conversation[:] = found
        shown = state.conversation if plan.messages is None else plan.messages
        found = await passing.applied(shown, spend=state.spend, state=state)
        return replace(plan, messages=tuple(found))


async def _instructed(config: AgentConfig, state: RunState, plan: StepPlan) -> StepPlan:
    """The plan with the instructions of this step before what the model is shown.

    They are no part of the history: the next step, and the next run, has its own.

    raises: InvalidRequest where the function gives no text
    """
    text = plan.instructions
    if text is None:
        asked = config.instructions
        text = await answered(asked, *(() if asked is None or _takes_nothing(asked) else (state,)))
    if text is not None and not isinstance(text, str):
        raise InvalidRequest(f"instructions gives a str or None, got {text!r}")
    if not text:
        return plan
    shown = list(state.conversation if plan.messages is None else plan.messages)
    own = shown[0] if shown else None
    if own is not None and own.role == Role.SYSTEM and own.text == config.system:
        del shown[0]  # the agent's own, in whose place these are
    return replace(plan, messages=(Message.system(text), *shown))


async def reviewed(config: AgentConfig, state: RunState, message: Message) -> Message | Again | Stop:
    """The answer as it is to stand in the history, what is wrong with it, or the end of the run."""
    said = await answered(config.hooks.after_model, state, copy_messages([message])[0])
    match said:
        case None | Proceed():
            return message
        case Rewrite(Message() as changed):
            return changed
        case Stop() | Again(str() | Message()):
            return said
        case _:
            raise InvalidRequest(f"after_model gave {said!r}, which is no decision about an answer")


def _takes_nothing(function: Instructions) -> bool:
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _shown(whose: str, messages: object) -> tuple[Message, ...]:
    """What the model is to be shown.

    raises: InvalidRequest where it is no list of messages
    """
    given = tuple(messages) if isinstance(messages, Iterable) else (messages,)
    if isinstance(messages, str) or not all(isinstance(message, Message) for message in given):
        raise InvalidRequest(f"{whose} shows the model a list of messages, got {messages!r}")
    return given
