"""The loop itself: ask, let the calls be judged and run, ask again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import msgspec

from llmstream.agent.answer import Answer, GivenAnswer
from llmstream.agent.calls import StepCalls, result_event
from llmstream.agent.config import AgentConfig
from llmstream.agent.decisions import Stop
from llmstream.agent.history import open_calls, settled
from llmstream.agent.ids import Ids
from llmstream.agent.journal import RunJournal
from llmstream.agent.plan import StepPlan
from llmstream.agent.planning import planned, prepared, reviewed
from llmstream.agent.records import in_call_order, results_of, said_nothing, shown_as_run, suspension_of
from llmstream.agent.resumption import Resumption
from llmstream.agent.state import RunState, Step
from llmstream.agent.suspension import Suspension
from llmstream.agent.verdicts import Judge
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.errors import LLMStreamError
from llmstream.events import (
    Error,
    Event,
    Finish,
    FinishReason,
    StepFinish,
    StepStart,
    StreamStart,
    Timings,
    Usage,
)
from llmstream.events import Retry as RetryEvent
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.streams.options import AnyTool
from llmstream.tools import Tool, ToolCallStatus, ToolContext, ToolOutcome, as_tools

__all__ = ["Loop"]


class Loop:
    """One run. `events` is the sentence of all its steps; `messages` is a whole history at any time.

    inbox:      user messages that wait for the next step
    stopped_by: the stop condition or hook that ended the run, or None
    suspended:  the run as a value, where it ended because calls wait
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
        self.inbox: list[Message] = []
        self.values: dict[str, Any] = {}
        self.finish_reason: FinishReason | None = None
        self.error: LLMStreamError | None = None
        self.stopped_by: str | None = None
        self.suspended: Suspension | None = None
        self.answer: Answer | None = None
        self._config = config
        self._total_s = total_s
        self._resumption = resumption
        self._journal = RunJournal(config.journal, config.name)
        self._ids = Ids()
        self._calls: StepCalls | None = None
        self._asking = False
        self._began = False
        self._worked = False
        self._finish = Finish("unknown")
        self._earlier: dict[str, ToolResult] = {}
        self._loop_started = 0.0

    # -- the sentence

    async def events(self) -> AsyncGenerator[Event]:
        """Every event of the run. Whatever ends it, no task of it is left."""
        self.state.started = self._config.clock()
        self._loop_started = asyncio.get_running_loop().time()
        steps = self._resumed() if self._resumption is not None else self._steps()
        try:
            async with aclosing(steps):
                async for event in steps:
                    yield event
        except LLMStreamError as error:
            if self.error is not error:
                self.error = error
                error.partial = error.partial or self._partial()
                for event in self._begin():
                    yield event
                yield Error(error.info)
                self._finish = Finish("error")
            if self._calls is not None:
                await self._calls.aclose()
            yield self._finished()
            if self._config.options.get("errors") != "events":
                raise
        else:
            finish = self._finished()
            await self._note()
            yield finish
        finally:
            if self._calls is not None:
                await self._calls.aclose()

    async def _resumed(self) -> AsyncGenerator[Event]:
        assert self._resumption is not None  # asked by events
        for event in self._begin():
            yield event
        found = self._resumption
        found.claim()
        self.inbox = found.suspension.unseen + self.inbox
        plan = await prepared(self._config, self.state)
        tools = as_tools(plan.options_over(self._config.options).get("tools") or ())
        calls = self._calls = self._step_calls(tools, found)
        self._earlier = {result.tool_call_id: result for result in found.suspension.results}
        await self._note()
        for result in found.suspension.results:
            await self._journal.result(self.state.step, None, result)
        self._finish = Finish("tool-calls")
        for status in found.answered:
            await self._journal.result(self.state.step, None, status.result)
            calls.statuses[status.tool_call_id] = status
            yield self._ids.unique(result_event(status), self.state.step)
        calls.waiting.update(found.undecided)
        for call in found.decided_calls:
            calls.start(call)
        async with aclosing(calls.events(self._deadline)) as events:
            async for event in events:
                yield self._ids.unique(event, self.state.step)
        self._record(self.state.conversation[-1], "", Usage(), Timings())
        if not self._is_over():
            async with aclosing(self._steps()) as steps:
                async for event in steps:
                    yield event

    async def _steps(self) -> AsyncGenerator[Event]:
        while True:
            self.state.conversation += self._delivered()
            plan = await planned(self._config, self.state)
            await self._note()
            if isinstance(plan, Stop):
                self._stop(plan)
                for event in self._begin():
                    yield event
                return
            step = self._given(plan) if isinstance(plan, GivenAnswer) else self._asked(plan)
            async with aclosing(step) as events:
                async for event in events:
                    yield event
            if self._is_over():
                return

    async def _given(self, given: GivenAnswer) -> AsyncGenerator[Event]:
        number = self.state.step
        for event in (*self._begin(), StepStart(number), *given.events()):
            yield self._ids.unique(event, number)
        self._finish = Finish("stop")
        yield StepFinish(number, "stop")
        message = msgspec.structs.replace(given.message, sender=given.message.sender or self._config.name)
        self.state.conversation.append(message)
        self._calls = None
        self._record(message, "", Usage(), Timings())

    async def _asked(self, plan: StepPlan) -> AsyncGenerator[Event]:
        """One step: the answer of the model, and its calls."""
        number = self.state.step
        answer = self._ask(plan)
        calls = self._calls = self._step_calls(answer.tools, None)
        eager = {tool.name for tool in answer.tools if isinstance(tool, Tool) and tool.eager}
        try:
            async with aclosing(answer.events()) as events:
                async for event in events:
                    if isinstance(event, StreamStart):
                        for first in (*self._begin(event), StepStart(number)):
                            yield first
                        continue
                    if eager and isinstance(event, ToolCallEvent):
                        self._start_eagerly(event, eager)
                    elif eager and isinstance(event, RetryEvent):
                        await calls.superseded()
                    yield self._ids.unique(event, number)
        finally:
            message = self._take(answer)
        failure = answer.stream.error or said_nothing(answer, message)
        if failure is not None:
            for note in await calls.superseded():
                yield self._ids.unique(note, number)
            if failure is answer.stream.error:
                self.error = failure
            raise failure
        yield StepFinish(number, self._finish.finish_reason, self._finish.usage, answer.timings)
        message = await self._review(message)
        await self._note()
        async with aclosing(self._work(calls)) as events:
            async for event in events:
                yield self._ids.unique(event, number)
        self._record(message, answer.model_name, answer.usage, answer.timings)

    async def _work(self, calls: StepCalls) -> AsyncGenerator[Event]:
        """Runs the calls of the last message, if there are any."""
        wanted = [call for _, found in open_calls(self.state.conversation) for call in found]
        refusal = self._refusal()
        if refusal is not None:
            for call in wanted:
                status = ToolCallStatus.of(call, ToolOutcome.failed(refusal))
                calls.calls[call.id], calls.statuses[call.id] = call, status
                yield result_event(status)
            return
        for call in wanted:
            calls.start(call)
        async with aclosing(calls.events(self._deadline)) as events:
            async for event in events:
                yield event

    # -- one step

    def _begin(self, start: StreamStart | None = None) -> list[Event]:
        """The first event of the sentence, once."""
        first = [] if self._began else [start or StreamStart()]
        self._began = True
        return list(first)

    def _ask(self, plan: StepPlan) -> Answer:
        config = self._config
        if self._total_s is not None:
            given = plan.options.get("deadlines") or config.options.get("deadlines")
            deadlines = given or plan.model_over(config.model).deadlines
            capped = msgspec.structs.replace(deadlines, total_s=self._total_s)
            plan = replace(plan, options={**plan.options, "deadlines": capped})
        self.answer = Answer(
            config.model,
            config.options,
            plan,
            self.state.conversation,
            clock=config.clock,
            started=self._loop_started,
        )
        self._asking = True
        return self.answer

    def _take(self, answer: Answer) -> Message:
        """The answer joins the conversation, as far as it came."""
        self._asking = False
        self._finish = answer.finish
        self.state.spend(answer.model_name, answer.usage)
        message = answer.stream.message
        for added in answer.added():
            message = msgspec.structs.replace(added, sender=added.sender or self._config.name)
            self.state.conversation.append(message)
        return message

    async def _review(self, message: Message) -> Message:
        said = await reviewed(self._config, self.state, message)
        if isinstance(said, Stop):
            self._stop(said)
        elif said is not message:
            if message.parts:
                self.state.conversation.pop()
            self.state.conversation.append(said)
            return said
        return message

    def _stop(self, said: Stop) -> None:
        self.stopped_by = said.reason or "a hook stopped the run"

    def _refusal(self) -> str | None:
        """Why no call of this answer may run, for the model to read; None where they may."""
        if self._finish.finish_reason == "content-filter":
            return "The call was not run: the answer was cut by the vendor's filter."
        if self.stopped_by is not None:
            return f"The call was not run: {self.stopped_by}."
        return None

    def _start_eagerly(self, event: ToolCallEvent, eager: set[str]) -> None:
        if event.tool_name in eager and not event.invalid and self._calls is not None:
            self._calls.start(ToolCall(event.tool_call_id, event.tool_name, event.input))

    def _step_calls(self, tools: tuple[AnyTool, ...], resumption: Resumption | None) -> StepCalls:
        config = self._config
        judge = Judge(
            self.state,
            config.hooks,
            approve=config.approve,
            repair=config.repair,
            decided=resumption.decided if resumption is not None else None,
        )
        after = config.hooks.after_tool
        return StepCalls(
            tools,
            judge,
            self.state,
            after=after,
            limit=config.tool_limit,
            context=self._context,
            journal=self._journal,
        )

    def _context(self, call: ToolCall) -> ToolContext:
        state = self.state
        return ToolContext(
            call.id, call.name, state.step, tuple(state.messages), self._deadline, state.context
        )

    async def _note(self) -> None:
        """Journals what is new in the conversation."""
        await self._journal.messages(self.state.step, self.state.conversation)

    def _partial(self) -> Message | None:
        return None if self.answer is None else self.answer.stream.message

    # -- between two steps

    def _record(self, message: Message, model: str, usage: Usage, timings: Timings) -> None:
        """The step is over, or waits: its results join the conversation."""
        calls, state = self._calls, self.state
        self._worked = False
        statuses: tuple[ToolCallStatus, ...] = ()
        if calls is not None:
            state.conversation[-1] = shown_as_run(state.conversation[-1], calls)
            self.stopped_by = self.stopped_by or calls.stop
            statuses = in_call_order(calls, state.conversation[-1])
            self.values |= {s.tool_call_id: s.value for s in statuses if s.value is not None}
            self._worked = bool(statuses) and self._finish.finish_reason != "content-filter"
            if calls.waiting:
                self.suspended = suspension_of(self._config, state, calls, self._earlier, self._delivered())
                return
            state.conversation[:] = settled(state.conversation, results_of(calls, self._earlier))
        cost = state.priced(model, usage) if model else None
        reason = self._finish.finish_reason
        state.steps.append(Step(state.step, model, message, reason, usage, timings, statuses, cost))
        state.step += 1
        self._calls, self._earlier = None, {}

    def _is_over(self) -> bool:
        """Whether no further step follows."""
        if self.suspended is not None or self.stopped_by is not None:
            return True
        if not self._worked and not self.inbox:
            return True
        held = next((c for c in self._config.stop_when if c(self.state)), None)
        if held is not None:
            self.stopped_by = getattr(held, "__name__", repr(held))
        return held is not None

    def _delivered(self) -> list[Message]:
        inbox, self.inbox = self.inbox, []
        return inbox

    def _finished(self) -> Finish:
        """The run's own finish: the last step's reason, the tokens of all steps."""
        if self.suspended is None:
            self.state.conversation += self._delivered()
        reason: FinishReason = "tool-calls" if self.suspended is not None else self._finish.finish_reason
        self.finish_reason = reason
        return msgspec.structs.replace(self._finish, finish_reason=reason, usage=self.state.usage)

    async def aclose(self) -> None:
        """Leaves at once: the socket closes, tools are cancelled and waited for. May be called again."""
        if self.answer is not None:
            await self.answer.stream.aclose()
        if self._calls is not None:
            await self._calls.aclose()

    # -- the history

    def messages(self) -> list[Message]:
        """The conversation so far, every call with its result; copies."""
        found = self.state.messages
        if self._asking and self.answer is not None:
            found += self.answer.added()
        return settled(found, results_of(self._calls, self._earlier))

    @property
    def _deadline(self) -> float | None:
        return None if self._total_s is None else self._loop_started + self._total_s
