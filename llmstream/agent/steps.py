"""The steps of a run, and the `RunContext` that they share.

`ModelStep` sends a request, `ResumedStep` continues suspended calls, `StaticStep` takes its response from a
hook. `RunStep` is their common part.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from llmstream.agent.calls import (
    StepCalls,
    in_call_order,
    result_event,
    results_of,
    shown_as_run,
)
from llmstream.agent.durable_steps import Steps
from llmstream.agent.history import SettledPart
from llmstream.agent.hooks import Again, CallGate, StepPlan, Stop, reviewed
from llmstream.agent.journal import RunJournal
from llmstream.agent.model_step import HookResponse, ModelResponse, PlanMemory, no_content_error, prepared
from llmstream.agent.observing import RunWatch
from llmstream.agent.recorded_model import RecordedModel
from llmstream.agent.recorder import Recorder
from llmstream.agent.state import RunState, Step
from llmstream.agent.suspension import Resumption, Suspension, check_continuation
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import LateCopies, Message
from llmstream.errors import InvalidOutput
from llmstream.events import Event, Finish, RetryNotice, StepFinish, StepStart, StreamStart, Timings, Usage
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.streams.call import CallingModel
from llmstream.streams.conversation import Batch
from llmstream.streams.history import Repairs
from llmstream.streams.observations import joined
from llmstream.tools.approval import Approve, Deny
from llmstream.tools.outcome import ToolCallStatus, ToolOutcome
from llmstream.tools.signature import ToolContext
from llmstream.tools.toolset import ToolSet
from llmstream.unique_ids import StepIds

if TYPE_CHECKING:
    from llmstream.agent.config import AgentConfig


__all__ = ["ModelStep", "ResumedStep", "RunContext", "RunStep", "StaticStep"]

# Events of a response at which a step has something to do.
_SPECIAL: Final = frozenset({StreamStart, RetryNotice})


class RunContext:
    """The configuration, state and journal of one run.

    total_s:    time limit of the run in seconds; None for no limit
    recorder:   records the steps of a durable run; None for any other
    run_id:     of a durable run, else random
    settled:    the part of the history in which every call has a result
    repairs:    the part of the history that was already repaired for vendors
    of_plan:    the same for messages from plans
    inbox:      user messages for the next step
    ids:        maps ids of blocks and calls to those in the run's events
    values:     what tools returned to the application, by the id of the call in the events
    watch:      reports to the run's observer; None without one
    stopped_by: the stop condition, tool or hook that ended the run, or None
    limit:      the limit that ended it before the model had finished, as in `LimitExceeded.reason`
    started:    loop time of the first read
    """

    def __init__(
        self, config: AgentConfig, state: RunState, total_s: float | None, steps: Steps | None = None
    ) -> None:
        self.recorder = None if steps is None else Recorder(steps)
        self.run_id = secrets.token_hex(8) if steps is None else steps.run
        self.config = config
        self.state = state
        self.total_s = total_s
        self.journal = RunJournal(config.journal, config.name)
        self.watch = None if config.observe is None else RunWatch(config.observe, config.clock)
        self.settled = SettledPart()
        self.repairs = Repairs()
        self.of_plan = PlanMemory()
        self.inbox: list[Message] = []
        self.ids = StepIds()
        self.values: dict[str, Any] = {}
        self.stopped_by: str | None = None
        self.limit: str | None = None
        self._rejected = 0
        self._recorded: RecordedModel | None = None
        self.started = 0.0

    def begin(self) -> None:
        """Starts the clocks."""
        # Two clocks: tests may replace the state's clock, and deadlines use loop time.
        self.state.started = self.config.clock()
        self.started = asyncio.get_running_loop().time()

    @property
    def deadline(self) -> float | None:
        """The loop time at which the run must be over, or None."""
        return None if self.total_s is None else self.started + self.total_s

    def stop(self, decision: Stop) -> None:
        """Ends the run on behalf of a hook."""
        self.stopped_by = decision.reason or "a hook stopped the run"

    def cut_short(self, by: str, limit: str | None) -> None:
        """Ends the run on behalf of a stop condition; `limit` names it if it is a limit."""
        self.stopped_by, self.limit = by, limit

    def again(self, decision: Again, message: Message) -> None:
        """Requests another response on behalf of a hook.

        message: the rejected response
        raises:  InvalidOutput once `Hooks.max_again` is used up
        """
        given = decision.feedback
        feedback = Message.user(given) if isinstance(given, str) else given
        self._rejected += 1
        if self._rejected > self.config.hooks.max_again:
            error = InvalidOutput(
                f"after_model rejected {self._rejected} answers; the last feedback was: {feedback.text}",
                reason="again",
            )
            error.partial, error.usage = message, self.state.total_usage
            raise error
        self.inbox.append(feedback)

    def delivered(self) -> list[Message]:
        """Removes and returns the messages in the inbox."""
        inbox, self.inbox = self.inbox, []
        return inbox

    def recorded_model(self) -> Callable[[CallingModel], CallingModel] | None:
        """Wraps the model of the current step so that its response is recorded."""
        recorder, number = self.recorder, self.state.step
        self._recorded = None
        if recorder is None:
            return None

        def recorded(model: CallingModel) -> CallingModel:
            self._recorded = recorder.model(model, number, self.state.conversation, self.state.priced)
            return self._recorded

        return recorded

    @property
    def recorded_cost(self) -> float | None:
        """The recorded cost of the current step's response; None if it is not recorded."""
        return None if self._recorded is None else self._recorded.cost

    async def receive(self) -> None:
        """Adds messages sent to a durable run to the inbox."""
        if self.recorder is not None:
            self.inbox += await self.recorder.inbox(self.state.step)

    async def last_call(self) -> bool:
        """Whether the run may end: later messages to a durable run are rejected.

        If some arrived first, they are in the inbox, and the run can still answer them.
        """
        found = [] if self.recorder is None else await self.recorder.last_messages(self.state.step)
        self.inbox += found
        return not found

    async def note(self) -> None:
        """Writes new messages of the conversation to the journal."""
        await self.journal.messages(self.state.step, self.state.conversation)

    def calls(self, tools: ToolSet, decided: Mapping[str, Approve | Deny] | None = None) -> StepCalls:
        """Creates the runner for the calls of the current step.

        decided: decisions of a person from before, by the id of the call
        """
        config = self.config
        gate = CallGate(
            self.state,
            config.hooks,
            approve=config.approve,
            repair=config.repair,
            decided=decided,
            context=self._tool_context,
        )
        return StepCalls(
            tools,
            gate,
            self.state,
            after=config.hooks.after_tool,
            limit=config.tool_limit,
            timeout_s=config.tool_timeout_s,
            context=self._tool_context,
            journal=self.journal,
            watch=self.watch,
            recorder=self.recorder,
            interrupted=config.interrupted,
        )

    def _tool_context(self, call: ToolCall) -> ToolContext:
        state = self.state
        recorder = self.recorder
        return ToolContext(
            call.id,
            call.name,
            state.step,
            LateCopies(state.conversation),
            self.deadline,
            state.deps,
            key=f"{self.run_id}/{state.step}/call/{call.id}",
            steps=None if recorder is None else recorder.scope(state.step, call.id),
            price=state.price,
        )


class RunStep:
    """One step: its `batches` are read to their end, then `record` adds it to the run or suspends the run.

    message:  the model's message, as stored in the history
    finish:   how the response ended
    calls:    the calls that it runs; None if it runs none
    earlier:  results of its calls from before a suspension
    worked:   whether calls were run or refused, so that the model has results to read
    """

    def __init__(self, context: RunContext) -> None:
        self.number = context.state.step
        self.message = Message.assistant()
        self.finish = Finish("unknown")
        self.model, self.usage, self.timings = "", Usage(), Timings()
        self.cost: float | None = None
        self.calls: StepCalls | None = None
        self.earlier: Mapping[str, ToolResult] = {}
        self.worked = False
        self._context = context

    def batches(self) -> AsyncGenerator[Batch]:
        """Yields the events of the step, in order; `stream-start` comes alone, with each response."""
        raise NotImplementedError

    def unrecorded(self) -> list[Message]:
        """The part of the response that is not in the conversation yet."""
        return []

    def results(self) -> dict[str, ToolResult]:
        """The results of its calls so far; a waiting call has a placeholder result."""
        return results_of(self.calls, self.earlier)

    async def aclose(self) -> None:
        """Cancels its calls and waits for their cleanup. Idempotent."""
        if self.calls is not None:
            await self.calls.aclose()

    def release(self) -> None:
        """Releases references that only running calls need, once all have ended or wait."""
        if self.calls is not None:
            self.calls.release()

    def record(self) -> Suspension | None:
        """Adds the results to the conversation; if calls wait, returns the suspended run instead."""
        context, state, calls = self._context, self._context.state, self.calls
        reason = self.finish.finish_reason
        statuses: tuple[ToolCallStatus, ...] = ()
        if calls is not None:
            state.conversation[-1] = shown_as_run(state.conversation[-1], calls)
            # The first reason applies: later ones are consequences of it.
            context.stopped_by = context.stopped_by or calls.stop
            statuses = in_call_order(calls, state.conversation[-1])
            for status in statuses:
                if status.value is not None:
                    # Keyed by the id in the events: some vendors restart ids in each response.
                    context.values[context.ids.shown(status.tool_call_id, self.number)] = status.value
            # Not counted as a completed step: it continues when the run is resumed.
            if calls.waiting or calls.inner:
                return self._suspension(calls)
            context.settled.settle(state.conversation, self.results())
        # After a content filter, another request would be filtered again.
        self.worked = bool(statuses) and reason != "content-filter"
        state.tool_calls += len(statuses)
        state.steps.append(
            Step(self.number, self.model, self.message, reason, self.usage, self.timings, statuses, self.cost)
        )
        state.step += 1
        return None

    def _suspension(self, calls: StepCalls) -> Suspension:
        """The suspended run, with its waiting calls and the results of finished ones."""
        context, config, state = self._context, self._context.config, self._context.state
        return Suspension.sealed(
            state.conversation,
            calls.waiting.values(),
            # Results of ended calls override those from before the suspension.
            {**self.earlier, **calls.results}.values(),
            inner=calls.inner,
            # They are part of the suspension; left in the inbox, they would be added to this run's history.
            inbox=context.delivered(),
            agent=config.name,
            step=state.step,
            usage_by_model=state.usage_by_model,
            cost_estimate=state.cost_estimate,
            key=config.approval_key,
            ttl_s=config.approval_ttl_s,
        )


class StaticStep(RunStep):
    """A step whose response came from a hook instead of the model."""

    def __init__(self, context: RunContext, given: HookResponse) -> None:
        super().__init__(context)
        self._given = given

    async def batches(self) -> AsyncGenerator[Batch]:
        """Yields the response as one text block."""
        message = self._given.message
        self.finish = Finish("stop")
        yield Batch((StreamStart(),))
        yield Batch((StepStart(self.number), *self._given.events(), StepFinish(self.number, "stop")))
        # The sender distinguishes the agents of a chat.
        self.message = msgspec.structs.replace(message, sender=message.sender or self._context.config.name)
        self._context.state.conversation.append(self.message)


class ModelStep(RunStep):
    """One request, its response, and its calls in parallel; eager calls start before the response ends."""

    calls: StepCalls

    def __init__(self, context: RunContext, plan: StepPlan) -> None:
        super().__init__(context)
        config = context.config
        self.response = ModelResponse(
            config.model,
            config.options,
            _within(context, plan),
            context.state.conversation,
            clock=config.clock,
            started=context.started,
            repairs=context.repairs,
            of_plan=context.of_plan,
            recorded=context.recorded_model(),
        )
        self.calls = context.calls(self.response.tools)
        self._taken = self._rejected = False

    def unrecorded(self) -> list[Message]:
        """The response so far."""
        return [] if self._taken else self.response.added()

    async def batches(self) -> AsyncGenerator[Batch]:
        """Yields the events of the response and of its calls.

        raises: LLMStreamError if the response failed, or was cut off before any content
        """
        response, calls = self.response, self.calls
        special = _SPECIAL | {ToolCallEvent} if response.tools.eager else _SPECIAL
        try:
            async with aclosing(response.batches()) as batches:
                async for batch in batches:
                    if special.isdisjoint(map(type, batch.events)):
                        yield batch
                    else:
                        async for part in self._with_own_events(batch, special):
                            yield part
        finally:
            # Also if the reader closes the run: the history must contain what was shown.
            self._take()
        failure = response.stream.error or no_content_error(response, self.message)
        if failure is not None:
            yield Batch(await calls.superseded())
            raise failure
        finish = self.finish
        yield Batch((StepFinish(self.number, finish.finish_reason, finish.usage, response.timings),))
        # After `StepFinish`: the hook gets a response that is complete for all readers.
        await self._review()
        # On disk before its calls run.
        await self._context.note()
        async with aclosing(self._work()) as events:
            async for event in events:
                yield Batch((event,))

    async def _with_own_events(self, batch: Batch, special: frozenset[type]) -> AsyncGenerator[Batch]:
        """Yields a batch in parts, with the events of this step among them.

        special: types of events that need more than to be passed on
        """
        events, start = batch.events, 0
        for place, event in enumerate(events):
            if type(event) not in special:
                continue
            if start < place:
                yield batch.part(start, place)
            start = place
            if isinstance(event, StreamStart):
                start += 1
                yield batch.part(place, start)
                yield Batch((StepStart(self.number, event.warnings),))
            elif isinstance(event, RetryNotice):  # the stream does not know the step number
                # Results of eager calls of an interrupted response must not answer calls of the next one.
                start += 1
                await self.calls.superseded()
                noted = msgspec.structs.replace(event, discard_step=self.number)
                yield Batch((noted,), batch.turn, batch.start + place)
            else:
                # Its tool declares that it is safe to start before the response is complete.
                self.calls.start_eager(event)
        if start < len(events):
            yield batch.part(start, len(events))

    async def _work(self) -> AsyncGenerator[Event]:
        """Runs the calls of the response, if there are any."""
        calls = self.calls
        wanted = self._context.settled.open_calls(self._context.state.conversation)
        # All calls still get a result: vendors reject a history with unanswered calls.
        refusal = self._refusal()
        if refusal is not None:
            for call in wanted:
                status = ToolCallStatus.of(call, ToolOutcome.failed(refusal))
                calls.settle(call, status)
                yield result_event(status)
            return
        for call in wanted:
            calls.start(call)
        async with aclosing(calls.events(self._context.deadline)) as events:
            async for event in events:
                yield event

    def _take(self) -> None:
        """Adds the response, complete or not, to the conversation."""
        response, state = self.response, self._context.state
        self._taken = True
        self.finish = response.finish
        self.model, self.usage, self.timings = response.model_name, response.usage, response.timings
        # Also for a failed response: it is billed.
        recorded = self._context.recorded_cost
        self.cost = state.priced(self.model, self.usage) if recorded is None else recorded
        state.spend(self.model, self.usage, self.cost)
        self.message = response.stream.message
        # An empty response adds no message.
        for added in response.added():
            self.message = msgspec.structs.replace(added, sender=added.sender or self._context.config.name)
            state.conversation.append(self.message)

    async def _review(self) -> None:
        """Applies the `after_model` hook to the response."""
        context, conversation = self._context, self._context.state.conversation
        decision = await reviewed(
            context.config.hooks.after_model, context.state, self.message, context.recorder
        )
        if isinstance(decision, Stop):
            context.stop(decision)
        elif isinstance(decision, Again):
            self._rejected = True
            context.again(decision, self.message)
        elif decision is not self.message:
            # An empty response was not added to the conversation.
            if self.message.parts:
                conversation.pop()
            conversation.append(decision)
            self.message = decision

    def _refusal(self) -> str | None:
        """The error that the model gets for every call of this response; None if they may run."""
        # Arguments cut by the filter may look complete.
        if self.finish.finish_reason == "content-filter":
            return "The call was not run: the answer was cut by the vendor's filter."
        if self._context.stopped_by is not None:
            return f"The call was not run: {self._context.stopped_by}."
        if self._rejected:
            return "The call was not run: the answer was rejected for the reason given below."
        return None


def _within(context: RunContext, plan: StepPlan) -> StepPlan:
    """The plan with the run's total deadline and observer."""
    config = context.config
    if _choice_is_spent(context, plan):
        plan = replace(plan, options={**plan.options, "tool_choice": None})
    if context.watch is not None:
        observe = joined(plan.options.get("observe"), context.watch.calls(context.state.step))
        plan = replace(plan, options={**plan.options, "observe": observe})
    if context.total_s is None:
        return plan
    # In order of precedence: the step's, the agent's, the model's.
    given = plan.options.get("deadlines") or config.options.get("deadlines")
    deadlines = given or plan.model_over(config.model).deadlines
    # One clock for the run: a step must not restart the total deadline.
    if deadlines.total_s == context.total_s:
        return plan
    capped = msgspec.structs.replace(deadlines, total_s=context.total_s)
    return replace(plan, options={**plan.options, "deadlines": capped})


def _choice_is_spent(context: RunContext, plan: StepPlan) -> bool:
    """Whether to drop a forced `tool_choice` because calls were made: repeated, the run would never end.

    With `stop_when` the agent has its own end, so its choice applies to each step. A plan's always applies.
    """
    config = context.config
    forced = config.options.get("tool_choice") not in (None, "auto", "none")
    of_plan = plan.tool_choice is not None or "tool_choice" in plan.options
    return forced and not of_plan and not config.stop_when and context.state.tool_calls > 0


class ResumedStep(RunStep):
    """The suspended step: finished calls keep their results, decided calls run, no request is sent."""

    def __init__(self, context: RunContext, resumption: Resumption) -> None:
        super().__init__(context)
        self._found = resumption
        self.finish = Finish("tool-calls")
        self.message = context.state.conversation[-1]
        self.earlier = {result.tool_call_id: result for result in resumption.suspension.results}

    async def batches(self) -> AsyncGenerator[Batch]:
        """Yields the events of the calls.

        raises: InvalidRequest if the suspension was resumed meanwhile, a sub-agent's run in it cannot
                continue, or edited arguments do not fit
        """
        context, found = self._context, self._found
        # Only its tools are used: this step sends no request.
        plan = await prepared(context.config.prepare_step, context.state)
        tools = ToolSet.of(plan.options_over(context.config.options).get("tools") or ()).current()
        found.check_edits(tools)
        for call, continuation in found.continued_calls:
            check_continuation(call, tools, continuation)
        # The last check: from here on the suspension counts as used.
        if context.recorder is None:
            found.claim()
        # In the order in which they were sent.
        context.inbox = found.suspension.unseen + context.inbox
        calls = self.calls = context.calls(tools, found.decided)
        await context.note()
        # A resumed run has its own journal lines, which must be complete without earlier ones.
        for result in found.suspension.results:
            await context.journal.result(self.number, None, result)
        for status in found.answered:
            await context.journal.result(self.number, None, status.result)
            calls.statuses[status.tool_call_id] = status
            yield Batch((result_event(status),))
        calls.waiting.update(found.undecided)
        for call, inner in found.undecided_inner_calls:
            calls.suspend(call, inner)
        for call in found.decided_calls:
            calls.start(call)
        for call, continuation in found.continued_calls:
            calls.start(call, continuation)
        async with aclosing(calls.events(context.deadline)) as events:
            async for event in events:
                yield Batch((event,))
        self.message = context.state.conversation[-1]
