"""The loop itself: step after step, as one sentence of events, until nothing is left to do."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from llmstream.agent.answer import Answer, GivenAnswer
from llmstream.agent.calls import is_empty
from llmstream.agent.config import AgentConfig
from llmstream.agent.history import settled
from llmstream.agent.hooks import Stop, answered
from llmstream.agent.planning import StepEffects, planned
from llmstream.agent.resumption import Resumption
from llmstream.agent.run_context import RunContext
from llmstream.agent.state import RunState
from llmstream.agent.steps import ModelStep, ResumedStep, RunStep, StaticStep
from llmstream.agent.stop import Budget, Misses
from llmstream.agent.suspension import Suspension
from llmstream.chats.message import Message
from llmstream.errors import InvalidOutput, LLMStreamError
from llmstream.events import ErrorEvent, Event, Finish, FinishReason, StreamStart, Warning
from llmstream.streams.model import Model
from llmstream.streams.reading import CUT_SHORT, final_object, may_be_repaired, repair_message
from llmstream.structured import Output, as_output

__all__ = ["Loop"]

_EMPTY: Final = "The answer was empty. Answer in text, or call a tool."
"""What the model reads of an answer in which it gave nothing but thoughts, if anything."""


class Loop:
    """One run. `events` is the sentence of all its steps; `messages` is a whole history at any time.

    course:    what its steps share
    output:    what the final answer has to be, or None
    warnings:  of all steps, each once
    answer:    of the model, in the step under way or the last one that asked it
    suspended: the run as a value, where it ended because calls wait
    repairs:   how often the model may still repair an answer that is not of its type
    cut_short: whether the limit of steps ended it, while there was more to do
    """

    def __init__(
        self,
        config: AgentConfig,
        state: RunState,
        *,
        total_s: float | None,
        resumption: Resumption | None = None,
    ) -> None:
        self.state = state
        self.course = RunContext(config, state, total_s)
        self.finish_reason: FinishReason | None = None
        self.error: LLMStreamError | None = None
        self.suspended: Suspension | None = None
        self.cut_short = False
        self.warnings: list[Warning] = []
        self.answer: Answer | None = None
        self.output: Output | None = as_output(config.options.get("output"))
        self.repairs = 0 if self.output is None else self.output.repair
        self._empty_retries = config.empty_retries
        self._misses = Misses(config.max_invalid_calls)
        self._config = config
        self._prompt = list(state.conversation)
        self._resumption = resumption
        self._effects = StepEffects(config.context_effects)
        self._step: RunStep | None = None
        self._finish = Finish("unknown")

    @property
    def model(self) -> Model:
        """The agent's model."""
        return self._config.model

    @property
    def quiet(self) -> bool:
        """Whether an error is only said and not raised."""
        return self._config.options.get("errors") == "events"

    async def events(self) -> AsyncGenerator[Event]:
        """Every event of the run, with one `stream-start`. Whatever ends it, no task of it is left."""
        began, watch = False, self.course.watch
        if watch is not None:
            watch.began(self._config.name, self._config.model)
        try:
            async with aclosing(self._sentence()) as events:
                async for event in events:
                    is_start = isinstance(event, StreamStart)
                    if isinstance(event, StreamStart):
                        self.warnings += [w for w in event.warnings if w not in self.warnings]
                    if not began and not is_start:
                        yield StreamStart()
                    if not began or not is_start:
                        yield self.course.ids.unique(event, self.state.step)
                    began = True
        finally:
            failure = None if watch is None else self.error or sys.exception()
            try:
                self.course.journal.leave()
                await self.aclose()
            finally:
                if watch is not None:
                    watch.ended(self.state, self.finish_reason, failure, suspended=self.suspended is not None)

    async def _sentence(self) -> AsyncGenerator[Event]:
        """The steps, an error where one failed, and the finish."""
        try:
            async with aclosing(self._steps()) as events:
                async for event in events:
                    yield event
        except LLMStreamError as error:
            self.error = error
            if self.answer is None or error is not self.answer.stream.error:  # whose events have said so
                error.partial = error.partial or self._partial()
                yield ErrorEvent(error.info)
                self._finish = Finish("error")
            if self._step is not None:
                await self._step.aclose()
            yield await self._finished()
            if not self.quiet:
                raise
        else:
            yield await self._finished()

    async def _steps(self) -> AsyncGenerator[Event]:
        self.course.begin()
        while (step := await self._next_step()) is not None:
            self._step = step
            try:
                async with aclosing(step.events()) as events:
                    async for event in events:
                        yield event
            finally:
                self._finish = step.finish
            self.suspended = step.record()
            if await self._is_over(step):
                return

    async def _next_step(self) -> RunStep | None:
        """The step to come; None where a hook stops the run before it."""
        course, resumption = self.course, self._resumption
        if resumption is not None:
            self._resumption = None
            return ResumedStep(course, resumption)
        self.state.conversation += course.delivered()
        plan = await planned(self._config, self.state, self._effects)
        await course.note()
        if isinstance(plan, Stop):
            course.stop(plan)
            return None
        if isinstance(plan, GivenAnswer):
            return StaticStep(course, plan)
        step = ModelStep(course, plan)
        self.answer = step.answer
        return step

    async def _is_over(self, step: RunStep) -> bool:
        """Whether no further step follows."""
        course = self.course
        if self.suspended is not None or course.stopped_by is not None:
            return True
        self._ask_again(step)
        if not step.worked and not course.inbox:
            return True
        for condition in self._config.stop_when:
            if await answered(condition, self.state):
                reason = condition.reason if isinstance(condition, Budget) else None
                course.cut_short(getattr(condition, "__name__", repr(condition)), reason)
                return True
        if self._misses.over(self.state.steps[-1].statuses):
            course.cut_short(f"invalid_calls({self._config.max_invalid_calls})", "invalid_calls")
            return True
        limit = self._config.max_steps
        self.cut_short = self.state.step >= limit
        if self.cut_short:
            course.cut_short(f"step_count({limit})", "max_steps")
        return self.cut_short

    def _ask_again(self, step: RunStep) -> None:
        """Shows the model what is wrong with its answer, if anything is, it may try again and there is time.

        An answer that was cut off would be cut off again.
        """
        course, reason = self.course, step.finish.finish_reason
        if step.worked or course.inbox or reason in CUT_SHORT or self.state.step >= self._config.max_steps:
            return
        if (error := self._invalid(step.message, reason)) is not None:
            self.repairs -= 1
            course.inbox.append(repair_message(error))
        elif self._empty_retries > 0 and is_empty(step.message):
            self._empty_retries -= 1
            course.inbox.append(Message.user(_EMPTY))

    def _invalid(self, message: Message, reason: FinishReason) -> InvalidOutput | None:
        """What is wrong with the answer, where it may be repaired."""
        if self.output is None or self.repairs == 0 or not may_be_repaired(message):
            return None
        try:
            final_object(message, reason, self.output)
        except InvalidOutput as error:
            return error
        return None

    async def _finished(self) -> Finish:
        """The run's own finish: the last step's reason, the tokens of all steps."""
        if self.suspended is None:
            self.state.conversation += self.course.delivered()
        reason: FinishReason = "tool-calls" if self.suspended is not None else self._finish.finish_reason
        self.finish_reason = reason
        await self.course.note()
        await self.course.journal.end()
        return msgspec.structs.replace(self._finish, finish_reason=reason, usage=self.state.total_usage)

    def _partial(self) -> Message | None:
        return None if self.answer is None else self.answer.stream.message

    def own_id(self, shown: str) -> str:
        """The id that the step under way has for what the run's events call so."""
        return self.course.ids.original(shown, self.state.step)

    async def aclose(self) -> None:
        """Leaves at once: the socket closes, tools are cancelled and waited for. May be called again."""
        if self.answer is not None:
            await self.answer.stream.aclose()
        if self._step is not None:
            await self._step.aclose()

    @property
    def asked(self) -> int:
        """How many messages of the history are still those that the run began with."""
        pairs = zip(self._prompt, self.state.conversation, strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], pairs))

    def messages(self) -> list[Message]:
        """The conversation so far, every call with its result; copies."""
        step, found = self._step, self.state.messages
        if step is None:
            return settled(found)
        return settled(found + step.unrecorded(), step.results())
