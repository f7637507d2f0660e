"""A step under way: what all kinds of steps have in common, and the kind that asks no model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import msgspec

from llmstream.agent.answer import GivenAnswer
from llmstream.agent.calls import StepCalls
from llmstream.agent.course import Course
from llmstream.agent.records import in_call_order, results_of, shown_as_run, suspension_of
from llmstream.agent.state import Step
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import ToolResult
from llmstream.chats.message import Message
from llmstream.events import Event, Finish, StepFinish, StepStart, StreamStart, Timings, Usage
from llmstream.tools import ToolCallStatus

__all__ = ["GivenStep", "OpenStep"]


class OpenStep:
    """Its `events` are read to their end; then it is recorded, or the run waits.

    message:  what the model said, as it stands in the history
    finish:   how the answer ended
    calls:    those that it runs; None where it runs none
    earlier:  results of its calls from before a suspension
    worked:   whether calls were run or refused, so that the model has something to read
    """

    def __init__(self, course: Course) -> None:
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


class GivenStep(OpenStep):
    """A step whose answer a hook gave in the model's place."""

    def __init__(self, course: Course, given: GivenAnswer) -> None:
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
