"""The steps of a run: one that asks the model, one that goes on with suspended calls, and what they share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace

import msgspec

from llmstream.agent.answer import Answer, GivenAnswer
from llmstream.agent.calls import (
    StepCalls,
    in_call_order,
    result_event,
    results_of,
    said_nothing,
    shown_as_run,
    suspension_of,
)
from llmstream.agent.hooks import Again, StepPlan, Stop
from llmstream.agent.planning import prepared, reviewed
from llmstream.agent.resumption import Resumption, check_continuation
from llmstream.agent.run_context import RunContext
from llmstream.agent.state import Step
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import ToolResult
from llmstream.chats.message import Message
from llmstream.events import Event, Finish, RetryNotice, StepFinish, StepStart, StreamStart, Timings, Usage
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.streams.observations import joined
from llmstream.tools import ToolCallStatus, ToolOutcome, ToolSet

__all__ = ["ModelStep", "ResumedStep", "RunStep", "StaticStep"]


# A step under way: what all kinds of steps have in common, and the kind that asks no model.


class RunStep:
    """Its `events` are read to their end; then it is recorded, or the run waits.

    message:  what the model said, as it stands in the history
    finish:   how the answer ended
    calls:    those that it runs; None where it runs none
    earlier:  results of its calls from before a suspension
    worked:   whether calls were run or refused, so that the model has something to read
    """

    def __init__(self, course: RunContext) -> None:
        self.number = course.state.step
        self.message = Message.assistant()
        self.finish = Finish("unknown")
        self.model, self.usage, self.timings = "", Usage(), Timings()
        self.calls: StepCalls | None = None
        self.earlier: Mapping[str, ToolResult] = {}
        self.worked = False
        self._course = course

    def events(self) -> AsyncGenerator[Event]:
        """What happens in it, in order. `stream-start` comes where a model was asked."""
        raise NotImplementedError

    def unrecorded(self) -> list[Message]:
        """What the model has said that is not in the conversation yet."""
        return []

    def results(self) -> dict[str, ToolResult]:
        """The results of its calls so far; of a call that waits, one that says so."""
        return results_of(self.calls, self.earlier)

    async def aclose(self) -> None:
        """Cancels its calls and waits for their cleanup. May be called again."""
        if self.calls is not None:
            await self.calls.aclose()

    def record(self) -> Suspension | None:
        """Its results join the conversation; or, where calls wait, the run as a value."""
        course, state, calls = self._course, self._course.state, self.calls
        reason = self.finish.finish_reason
        statuses: tuple[ToolCallStatus, ...] = ()
        if calls is not None:
            state.conversation[-1] = shown_as_run(state.conversation[-1], calls)
            course.stopped_by = course.stopped_by or calls.stop
            statuses = in_call_order(calls, state.conversation[-1])
            for status in statuses:
                if status.value is not None:
                    course.values[course.ids.shown(status.tool_call_id, self.number)] = status.value
            if calls.waiting or calls.inner:
                return suspension_of(course.config, state, calls, self.earlier, course.delivered())
            course.settled.settle(state.conversation, self.results())
        self.worked = bool(statuses) and reason != "content-filter"
        state.tool_calls += len(statuses)
        cost = state.priced(self.model, self.usage) if self.model else None
        state.steps.append(
            Step(self.number, self.model, self.message, reason, self.usage, self.timings, statuses, cost)
        )
        state.step += 1
        return None


class StaticStep(RunStep):
    """A step whose answer a hook gave in the model's place."""

    def __init__(self, course: RunContext, given: GivenAnswer) -> None:
        super().__init__(course)
        self._given = given

    async def events(self) -> AsyncGenerator[Event]:
        """The answer as one block of text."""
        said = self._given.message
        self.finish = Finish("stop")
        yield StreamStart()
        yield StepStart(self.number)
        for event in self._given.events():
            yield event
        yield StepFinish(self.number, "stop")
        self.message = msgspec.structs.replace(said, sender=said.sender or self._course.config.name)
        self._course.state.conversation.append(self.message)


# A step in which the model is asked: its answer, then the calls that it wants.


class ModelStep(RunStep):
    """One request, one answer, its calls side by side; eager calls begin before the answer is over."""

    calls: StepCalls

    def __init__(self, course: RunContext, plan: StepPlan) -> None:
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


def _within(course: RunContext, plan: StepPlan) -> StepPlan:
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


def _choice_is_spent(course: RunContext, plan: StepPlan) -> bool:
    """Whether the agent's `tool_choice` forces calls that were made: held on to, the run would never end.

    An agent with `stop_when` knows its own end, so its choice holds at each step; a plan's always does.
    """
    config = course.config
    forced = config.options.get("tool_choice") not in (None, "auto", "none")
    of_plan = plan.tool_choice is not None or "tool_choice" in plan.options
    return forced and not of_plan and not config.stop_when and course.state.tool_calls > 0


# The step that was under way when a run was suspended: it goes on with what was decided.


class ResumedStep(RunStep):
    """Calls that were done keep their results; those that were decided about run, and no model is asked."""

    def __init__(self, course: RunContext, resumption: Resumption) -> None:
        super().__init__(course)
        self._found = resumption
        self.finish = Finish("tool-calls")
        self.message = course.state.conversation[-1]
        self.earlier = {result.tool_call_id: result for result in resumption.suspension.results}

    async def events(self) -> AsyncGenerator[Event]:
        """What becomes of the calls.

        raises: InvalidRequest where the suspension was resumed by now, the run of a sub-agent in it
                cannot be, or arguments that a person changed do not fit
        """
        course, found = self._course, self._found
        plan = await prepared(course.config, course.state)
        tools = ToolSet.of(plan.options_over(course.config.options).get("tools") or ()).current()
        found.check_edits(tools)
        for call, continuation in found.continued_calls:
            check_continuation(call, tools, continuation)
        found.claim()
        course.inbox = found.suspension.unseen + course.inbox
        calls = self.calls = course.calls(tools, found.decided)
        await course.note()
        for result in found.suspension.results:
            await course.journal.result(self.number, None, result)
        for status in found.answered:
            await course.journal.result(self.number, None, status.result)
            calls.statuses[status.tool_call_id] = status
            yield result_event(status)
        calls.waiting.update(found.undecided)
        calls.inner.update(found.undecided_inner)
        for call in found.decided_calls:
            calls.start(call)
        for call, continuation in found.continued_calls:
            calls.start(call, continuation)
        async with aclosing(calls.events(course.deadline)) as events:
            async for event in events:
                yield event
        self.message = course.state.conversation[-1]
