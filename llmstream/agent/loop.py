"""The agent loop: runs step after step as one event sequence, until no calls or messages remain."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from llmstream.agent.config import AgentConfig
from llmstream.agent.durable_steps import Steps
from llmstream.agent.history import ChatHistory, is_empty, settled
from llmstream.agent.hooks import Stop, call_hook
from llmstream.agent.model_step import HookResponse, ModelResponse, StepPlanner
from llmstream.agent.nested import in_step, turn_calls
from llmstream.agent.state import Budget, Misses, RunState
from llmstream.agent.steps import ModelStep, ResumedStep, RunContext, RunStep, StaticStep
from llmstream.agent.suspension import Resumption, Suspension
from llmstream.chats.message import Message, copy_messages
from llmstream.errors import InvalidOutput, LLMStreamError
from llmstream.events import ErrorEvent, Finish, FinishReason, StreamStart, Warning
from llmstream.streams.conversation import Batch
from llmstream.streams.model import Model
from llmstream.streams.reading import CUT_SHORT, final_object, may_be_repaired, repair_message
from llmstream.structured import Output, as_output
from llmstream.unique_ids import StepIds

__all__ = ["Loop"]

# Message to the model after a response without text, files or calls.
_EMPTY: Final = "The answer was empty. Answer in text, or call a tool."


class Loop:
    """One run. `batches` yields one event sequence for all steps; `messages` is complete at any time.

    context:   what the steps share
    output:    the type of the final answer, or None
    warnings:  of all steps, each once
    response:  the response in the current step, or in the last step with a request
    suspended: the run as a value if it ended because calls wait
    repairs:   how many more times the model may repair an answer that does not fit its type
    cut_short: whether the step limit ended it before the model had finished
    """

    def __init__(
        self,
        config: AgentConfig,
        state: RunState,
        *,
        total_s: float | None,
        resumption: Resumption | None = None,
        chat: ChatHistory | None = None,
        steps: Steps | None = None,
    ) -> None:
        self.state = state
        self.context = RunContext(config, state, total_s, steps)
        # The last message of a suspended run belongs to the current step.
        self.context.ids = StepIds(turn_calls(state.conversation[: -1 if resumption is not None else None]))
        self.finish_reason: FinishReason | None = None
        self.error: LLMStreamError | None = None
        self.suspended: Suspension | None = None
        self.cut_short = False
        self.warnings: list[Warning] = []
        self.response: ModelResponse | None = None
        self.output: Output | None = as_output(config.options.get("output"))
        self.repairs = 0 if self.output is None else self.output.repair
        self._empty_retries = config.empty_retries
        self._misses = Misses(config.max_invalid_calls)
        self._config = config
        # The same objects: `unchanged_prompt` compares identities.
        self._prompt = list(state.conversation)
        self._resumption = resumption
        self._chat = chat
        self._planner = StepPlanner(
            config.prepare_step,
            config.hooks.before_model,
            config.context_effects,
            instructions=config.instructions,
            system=config.system,
        )
        self._step: RunStep | None = None
        self._finish = Finish("unknown")

    @property
    def model(self) -> Model:
        """The agent's model; a step may use another."""
        return self._config.model

    @property
    def quiet(self) -> bool:
        """Whether an error is only reported as an event and not raised."""
        return self._config.options.get("errors") == "events"

    async def batches(self) -> AsyncGenerator[Batch]:
        """Yields every event of the run, with one `stream-start`. No task remains when it ends."""
        began, watch, chat = False, self.context.watch, self._chat
        if chat is not None:
            chat.begin()
        if watch is not None:
            model = self._config.model
            watch.began(self._config.name, model.provider.name, model.name, model.known_secrets)
        try:
            async with aclosing(self._all_steps()) as batches:
                async for batch in batches:
                    first = batch.events[0] if batch.events else None
                    # Each step starts a stream, and a run is one.
                    if type(first) is StreamStart:
                        # Each step starts a stream, and most repeat the warning about the same option.
                        self.warnings += [w for w in first.warnings if w not in self.warnings]
                        if began:
                            continue
                    elif not began:
                        # A hook may replace the model's response, or the run may fail before a request.
                        yield Batch((StreamStart(),))
                    began = True
                    events = in_step(batch.events, self.state.step, self.context.ids)
                    if chat is not None:
                        chat.feed(events)
                    yield batch if events is batch.events else Batch(events, batch.turn, batch.start)
        finally:
            # In a finally block: also runs if the reader closed the run or was cancelled.
            failure = None if watch is None else self.error or sys.exception()
            try:
                # Before closing, which may wait for tools: from here on compaction may drop this run's lines.
                self.context.journal.leave()
                await self.aclose()
            finally:
                if chat is not None:
                    # Placeholders for calls that wait are not for the chat: their results come when the run
                    # is resumed.
                    chat.add(self._history(settle=self.suspended is None))
                if watch is not None:
                    watch.ended(self.state, self.finish_reason, failure, suspended=self.suspended is not None)

    async def _all_steps(self) -> AsyncGenerator[Batch]:
        """Yields the events of the steps, an error if one failed, and the finish."""
        try:
            async with aclosing(self._steps()) as batches:
                async for batch in batches:
                    yield batch
        except LLMStreamError as error:
            self.error = error
            # The events of the response have already reported its own error.
            if self.response is None or error is not self.response.stream.error:
                error.partial = error.partial or self._partial()
                yield Batch((ErrorEvent(error.info),))
                self._finish = Finish("error")
            # Its calls are cancelled first, so that the history has their results at the finish.
            if self._step is not None:
                await self._step.aclose()
            try:
                await self._close_inbox()
            except LLMStreamError:  # such as an unavailable database; it is the error of the run
                pass
            yield Batch((await self._finished(),))
            if not self.quiet:
                raise
        else:
            yield Batch((await self._finished(),))

    async def _steps(self) -> AsyncGenerator[Batch]:
        self.context.begin()
        while (step := await self._next_step()) is not None:
            self._step = step
            try:
                async with aclosing(step.batches()) as batches:
                    async for batch in batches:
                        yield batch
            finally:
                # Also for a failed or closed step: the finish of the run reports its reason.
                self._finish = step.finish
            self.suspended = step.record()
            step.release()
            if self._chat is not None:
                self._chat.add(self.state.conversation)
            # For a durable run the decision may already be recorded.
            if self.suspended is not None and await self._can_continue(self.suspended):
                self.suspended = None
                continue
            if await self._is_over(step):
                break
        await self._close_inbox()

    async def _close_inbox(self) -> None:
        """Rejects further messages; those that get no response stay in the history."""
        while self.suspended is None and not await self.context.last_call():
            pass

    async def _can_continue(self, made: Suspension) -> bool:
        """Whether a waiting durable run has received its decisions; the next step then continues this one."""
        recorder, config, number = self.context.recorder, self._config, self.state.step
        if recorder is None:
            return False
        self.suspended, key = await recorder.suspended(number, made)
        given, before = await recorder.resume_input(number, key, self.suspended.pending)
        if not given.decisions and not given.results:
            return False
        # Whoever records a decision refuses a late one; here it may be read long after it was given.
        self._resumption = Resumption.of(
            self.suspended,
            given.as_decisions(),
            given.results,
            agent=config.name,
            key=config.approval_key,
            again=before,
            in_time=True,
        )
        # A decision found in the record was used by the process that died.
        if not before:
            await recorder.record_resumption(key, given)
        return True

    async def _next_step(self) -> RunStep | None:
        """The next step; None if a hook stops the run before it."""
        context, resumption = self.context, self._resumption
        if resumption is not None:
            self._resumption = None
            return ResumedStep(context, resumption)
        await context.receive()
        # Before the plan: hooks and effects get the messages that the model will get.
        self.state.conversation += context.delivered()
        plan = await self._planner.plan(self.state, context.recorder)
        # On disk before the request: after a crash the journal shows what was sent.
        await context.note()
        if isinstance(plan, Stop):
            context.stop(plan)
            return None
        if isinstance(plan, HookResponse):
            return StaticStep(context, plan)
        step = ModelStep(context, plan)
        self.response = step.response
        return step

    async def _is_over(self, step: RunStep) -> bool:
        """Whether the run ends with this step."""
        context = self.context
        if self.suspended is not None or context.stopped_by is not None:
            return True
        self._ask_again(step)
        # After the loop's own repair message, which responds to the answer: messages of others follow it.
        await context.receive()
        # Not evaluated again if the run has continued from here before: the result may have changed since.
        recorder = context.recorder
        has_continued = recorder is not None and await recorder.has_step(self.state.step)
        if not step.worked and not context.inbox and await context.last_call():
            return True
        # After repairs were queued: a condition ends the run even then.
        for condition in () if has_continued else self._config.stop_when:
            if await call_hook(condition, self.state):
                reason = condition.reason if isinstance(condition, Budget) else None
                context.cut_short(getattr(condition, "__name__", repr(condition)), reason)
                return True
        if self._misses.over(self.state.steps[-1].statuses) and not has_continued:
            context.cut_short(f"invalid_calls({self._config.max_invalid_calls})", "invalid_calls")
            return True
        limit = self._config.max_steps
        self.cut_short = self.state.step >= limit and not has_continued
        if self.cut_short:
            context.cut_short(f"step_count({limit})", "max_steps")
        return self.cut_short

    def _ask_again(self, step: RunStep) -> None:
        """Requests a repair of an invalid or empty answer while retries and steps remain.

        Not after a cut-off answer: it would be cut off again.
        """
        context, reason = self.context, step.finish.finish_reason
        if step.worked or context.inbox or reason in CUT_SHORT or self.state.step >= self._config.max_steps:
            return
        if (error := self._invalid(step.message, reason)) is not None:
            self.repairs -= 1
            context.inbox.append(repair_message(error))
        elif self._empty_retries > 0 and is_empty(step.message):
            self._empty_retries -= 1
            context.inbox.append(Message.user(_EMPTY))

    def _invalid(self, message: Message, reason: FinishReason) -> InvalidOutput | None:
        """The validation error of an answer that may be repaired, else None."""
        if self.output is None or self.repairs == 0 or not may_be_repaired(message):
            return None
        try:
            final_object(message, reason, self.output)
        except InvalidOutput as error:
            return error
        return None

    async def _finished(self) -> Finish:
        """Ends the run: the finish has the last step's reason and the tokens of all steps."""
        if self.suspended is None:
            # The run ended before a step could answer them; a suspended run delivers them when it is resumed.
            self.state.conversation += self.context.delivered()
        # A suspended run waits for results of calls, whatever the last response reported.
        reason: FinishReason = "tool-calls" if self.suspended is not None else self._finish.finish_reason
        self.finish_reason = reason
        await self.context.note()
        # After the last messages: recovery treats a run with an end as complete.
        await self.context.journal.end()
        return msgspec.structs.replace(self._finish, finish_reason=reason, usage=self.state.total_usage)

    def _partial(self) -> Message | None:
        return None if self.response is None else self.response.stream.message

    def own_id(self, shown: str) -> str:
        """The id within the current step for an id in the run's events."""
        return self.context.ids.original(shown, self.state.step)

    async def aclose(self) -> None:
        """Closes the socket, cancels tools and waits for their cleanup. Idempotent."""
        if self.response is not None:
            await self.response.stream.aclose()
        if self._step is not None:
            await self._step.aclose()

    @property
    def unchanged_prompt(self) -> int:
        """How many messages at the start of the history are still those of the prompt."""
        # By identity: a message created by an effect may be equal.
        pairs = zip(self._prompt, self.state.conversation, strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], pairs))

    def messages(self) -> list[Message]:
        """Copies of the conversation so far, with a result for every call."""
        return copy_messages(self._history())

    def _history(self, *, settle: bool = True) -> list[Message]:
        """The conversation so far, usually with a result for every call."""
        step, found = self._step, self.state.conversation
        if step is not None:
            found = found + step.unrecorded()
        if not settle:
            return found
        return settled(found) if step is None else settled(found, step.results())
