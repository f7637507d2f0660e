"""The step that was under way when a run was suspended: it goes on with what was decided."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from llmstream.agent.calls import result_event
from llmstream.agent.course import Course
from llmstream.agent.open_step import OpenStep
from llmstream.agent.planning import prepared
from llmstream.agent.resumption import Resumption, check_continuation
from llmstream.events import Event, Finish
from llmstream.tools import ToolSet

__all__ = ["ResumedStep"]


class ResumedStep(OpenStep):
    """Calls that were done keep their results; those that were decided about run, and no model is asked."""

    def __init__(self, course: Course, resumption: Resumption) -> None:
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
