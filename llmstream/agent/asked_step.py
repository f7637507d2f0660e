"""A step in which the model is asked: its answer, then the calls that it wants."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import msgspec

from llmstream.agent.answer import Answer
from llmstream.agent.calls import StepCalls, result_event
from llmstream.agent.course import Course
from llmstream.agent.decisions import Again, Stop
from llmstream.agent.open_step import OpenStep
from llmstream.agent.plan import StepPlan
from llmstream.agent.planning import reviewed
from llmstream.agent.records import said_nothing
from llmstream.chats.message import Message
from llmstream.events import Event, RetryNotice, StepFinish, StepStart, StreamStart
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.streams.observations import joined
from llmstream.tools import ToolCallStatus, ToolOutcome

__all__ = ["AskedStep"]


class AskedStep(OpenStep):
    """One request, one answer, its calls side by side; eager calls begin before the answer is over."""

    calls: StepCalls

    def __init__(self, course: Course, plan: StepPlan) -> None:
        super().__init__(course)
        config = course.config
        self.answer = Answer(
            config.model,
            config.options,
            _within(course, plan),
            course.state.conversation,
            clock=config.clock,
            started=course.started,
            repairs=course.repairs,
            of_plan=course.of_plan,
        )
        self.calls = course.calls(self.answer.tools)
        self._taken = self._rejected = False

    def unrecorded(self) -> list[Message]:
        """The answer as far as it has come."""
        return [] if self._taken else self.answer.added()

    async def events(self) -> AsyncGenerator[Event]:
        """The answer of the model, and what becomes of its calls.

        raises: LLMStreamError where the answer failed, or said nothing
        """
        answer, calls = self.answer, self.calls
        eager = answer.tools.eager
        try:
            async with aclosing(answer.events()) as events:
                async for event in events:
                    if eager and isinstance(event, ToolCallEvent):
                        calls.start_eager(event)
                    elif isinstance(event, RetryNotice):  # it knows its answer, not the run
                        event = msgspec.structs.replace(event, discard_step=self.number)
                        await calls.superseded()
                    yield event
                    if isinstance(event, StreamStart):
                        yield StepStart(self.number, event.warnings)
        finally:
            self._take()
        failure = answer.stream.error or said_nothing(answer, self.message)
        if failure is not None:
            for note in await calls.superseded():
                yield note
            raise failure
        yield StepFinish(self.number, self.finish.finish_reason, self.finish.usage, answer.timings)
        await self._review()
        await self._course.note()
        async with aclosing(self._work()) as events:
            async for event in events:
                yield event

    async def _work(self) -> AsyncGenerator[Event]:
        """Runs the calls of the answer, if there are any."""
        calls = self.calls
        wanted = self._course.settled.open_calls(self._course.state.conversation)
        refusal = self._refusal()
        if refusal is not None:
            for call in wanted:
                status = ToolCallStatus.of(call, ToolOutcome.failed(refusal))
                calls.settle(call, status)
                yield result_event(status)
            return
        for call in wanted:
            calls.start(call)
        async with aclosing(calls.events(self._course.deadline)) as events:
            async for event in events:
                yield event

    def _take(self) -> None:
        """The answer joins the conversation, as far as it came."""
        answer, state = self.answer, self._course.state
        self._taken = True
        self.finish = answer.finish
        self.model, self.usage, self.timings = answer.model_name, answer.usage, answer.timings
        state.spend(self.model, self.usage)
        self.message = answer.stream.message
        for added in answer.added():
            self.message = msgspec.structs.replace(added, sender=added.sender or self._course.config.name)
            state.conversation.append(self.message)

    async def _review(self) -> None:
        """What the hook after the model makes of the answer."""
        course, conversation = self._course, self._course.state.conversation
        said = await reviewed(course.config, course.state, self.message)
        if isinstance(said, Stop):
            course.stop(said)
        elif isinstance(said, Again):
            self._rejected = True
            course.again(said, self.message)
        elif said is not self.message:
            if self.message.parts:
                conversation.pop()
            conversation.append(said)
            self.message = said

    def _refusal(self) -> str | None:
        """Why no call of this answer may run, for the model to read; None where they may."""
        if self.finish.finish_reason == "content-filter":
            return "The call was not run: the answer was cut by the vendor's filter."
        if self._course.stopped_by is not None:
            return f"The call was not run: {self._course.stopped_by}."
        if self._rejected:
            return "The call was not run: the answer was rejected, for the reason given below."
        return None


def _within(course: Course, plan: StepPlan) -> StepPlan:
    """The plan, with the total deadline of the run in place of one of its own, and with its observer."""
    config = course.config
    if _choice_is_spent(course, plan):
        plan = replace(plan, options={**plan.options, "tool_choice": None})
    if course.watch is not None:
        observe = joined(plan.options.get("observe"), course.watch.calls(course.state.step))
        plan = replace(plan, options={**plan.options, "observe": observe})
    if course.total_s is None:
        return plan
    given = plan.options.get("deadlines") or config.options.get("deadlines")
    deadlines = given or plan.model_over(config.model).deadlines
    capped = msgspec.structs.replace(deadlines, total_s=course.total_s)
    return replace(plan, options={**plan.options, "deadlines": capped})


def _choice_is_spent(course: Course, plan: StepPlan) -> bool:
    """Whether the agent's `tool_choice` forces calls that were made: held on to, the run would never end.

    An agent with `stop_when` knows its own end, so its choice holds at each step; a plan's always does.
    """
    config = course.config
    forced = config.options.get("tool_choice") not in (None, "auto", "none")
    of_plan = plan.tool_choice is not None or "tool_choice" in plan.options
    return forced and not of_plan and not config.stop_when and course.state.tool_calls > 0
