"""One run of an agent: its events, its state so far, and steering."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, overload

from llmstream.agent.history import is_empty
from llmstream.agent.state import Price, RunState, Step
from llmstream.agent.suspension import Suspension
from llmstream.chats.message import Message
from llmstream.errors import (
    ContentFiltered,
    InvalidOutput,
    InvalidRequest,
    LimitExceeded,
    LLMStreamError,
    RunSuspended,
)
from llmstream.events import Event, FinishReason, Usage, Warning
from llmstream.other_sdks import STREAM, suggests
from llmstream.short_forms import amount, counted, quoted
from llmstream.streams.call import ResponseInfo
from llmstream.streams.model import Model
from llmstream.streams.reading import (
    AsyncOnly,
    Reading,
    final_object,
    growing_objects,
    require_asyncio,
    required_output,
    text_deltas,
)
from llmstream.streams.showing import short_form, state_of
from llmstream.tools.outcome import ToolCallStatus

__all__ = ["AgentRun", "answer_of", "check_finished"]


if TYPE_CHECKING:
    from typing_extensions import TypeVar  # a default (PEP 696) is what type checkers know

    from llmstream.agent.loop import Loop

    T = TypeVar("T", default=Any)
    Item = TypeVar("Item")
else:
    from typing import TypeVar

    T = TypeVar("T")


# Deadlines must be positive; with this one, a run without time left ends in its first step.
_MIN_S: Final = 1e-6


@suggests(STREAM)
class AgentRun(AsyncOnly, Generic[T]):
    """Yields the events of all steps. Leaving it stops everything at once, tools included.

    Ids that an earlier step used are prefixed with the step's number. Results of local tools are
    `tool-result` events, preceded by preliminary ones. A run that a stop condition ends finishes with
    the reason of its last step. A run that waits for a decision, or for calls that cannot run here,
    finishes with "tool-calls" and has a `suspended` value.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        # A weak reference: a reader abandoned by `break` is then finalised, which stops the run. A strong one
        # would keep the run going.
        self._reader: weakref.ref[AsyncGenerator[Event]] | None = None
        self._held: AsyncGenerator[Event] | None = None  # by `async with`, which closes it
        self._entered = self._begun = self._over = False
        self._reading = Reading("run")
        self._current: Event | None = None

    def __repr__(self) -> str:
        model, state = self.model, self.state
        counts = ((len(state.steps), "step"), (state.tool_calls, "tool call"))
        facts = [counted(count, noun) for count, noun in counts if count]
        if state.cost_estimate is not None:
            facts.append(f"cost {amount(state.cost_estimate)}")
        name = f"{model.provider.name}:{model.name}"
        return short_form(self, name, self._condition, facts, self.total_usage)

    def _repr_html_(self) -> str | None:
        """The completed steps as a table, for notebooks; None before the first."""
        from llmstream.agent.state import run_table  # imported only for notebooks

        over = self.suspended is not None or self.error is not None
        return run_table(self) if over or self.state.steps else None

    @property
    def _condition(self) -> str:
        """The state of the run in a few words."""
        end: str | None = self.finish_reason or ("left" if self._over else None)
        if self.suspended is not None:
            end = "suspended"
        elif self.finish_reason is not None and self.stopped_by is not None:
            end = f"stopped by {quoted(self.stopped_by)}"
        return state_of(self.error, end, begun=self._begun)

    def __aiter__(self) -> AsyncGenerator[Event]:
        self._check_unread()
        return self._events()

    def _check_unread(self) -> None:
        """Refuses to read a completed run again; iterating a run that was left yields nothing.

        raises: InvalidRequest
        """
        if self._over and self.finish_reason is not None:
            raise InvalidRequest(
                "this run has been read to its end, and a run can be read only once. Its results are in "
                "`message` and `messages()`; start a new run with those."
            )

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leaves the run: closes the socket at once, cancels tools and waits for their cleanup."""
        reader = self._reader() if self._reader is not None else None
        self._over, self._held = True, None
        # A generator that runs cannot be closed.
        if reader is not None and not self._reading.stepping:  # otherwise its reader ends it
            await reader.aclose()
        self._reading.events = None
        await self._loop.aclose()

    async def next(self) -> bool:
        """Reads the next event into `current`; False when the run is over."""
        return await self._reading.next(self._events)

    def text_deltas(self) -> AsyncGenerator[str]:
        """Yields only the text deltas, of all steps."""
        return text_deltas(self.__aiter__)

    async def collect(self) -> Message:
        """Runs to the end and returns `message`.

        raises: LLMStreamError if a step failed, with the content so far in `.partial`; InvalidRequest if
                the run was left, because `message` is incomplete then
        """
        # Not through `__aiter__`, which rejects a completed run: its message may be collected twice.
        async for _ in self._events():
            pass
        if self.error is not None and not self._loop.quiet:
            raise self.error
        if self.finish_reason is None:
            raise InvalidRequest(
                "the run was closed before its end; the content so far is in `message` and `messages()`"
            )
        return self.message

    async def display(self) -> T:
        """Shows the run as it grows, and returns its `object` if it has an output type, else its `message`.

        Shown as by `EventStream.display`, with the calls and their results. A run that waits for a decision
        returns its message so far; see `suspended`.

        raises: as `collect`, after what has arrived was shown; InvalidOutput if the answer does not fit
        """
        from llmstream.display.showing import show  # imported only on use

        await show(self, markdown=not self.typed)
        message: Any = await self.collect()
        return self.object if self.typed and self.suspended is None else message

    @overload
    def objects(self: AgentRun[list[Item]]) -> AsyncGenerator[Item]: ...

    @overload
    def objects(self) -> AsyncGenerator[T]: ...

    def objects(self) -> AsyncGenerator[Any]:
        """Yields the run's final answer as a growing value of `output`'s type.

        Works as `EventStream.objects`, over all steps: values restart with each step, the last value is
        validated and also available as `object`. An answer that does not fit is returned to the model with
        the validation error, and the run continues unless something else stops it, in whatever way the run
        is read. A suspended run ends this iterator without an error.

        raises: InvalidOutput if the repairs failed; LLMStreamError if a step failed
        """
        return growing_objects(
            self,
            self._events,
            required_output(self._loop.output),
            waits=lambda: self.suspended is not None,
            ask_again=lambda error: False,  # the loop already does this, in a separate step
            quiet=self._loop.quiet,
        )

    @property
    def typed(self) -> bool:
        """Whether the run has an `output` type, and so an `object` at its end."""
        return self._loop.output is not None

    @property
    def object(self) -> T:
        """The validated answer, of `output`'s type, once the run is over.

        raises: InvalidOutput if it does not fit, with the message in `partial`; the run's own error
                if it failed; InvalidRequest while it is not read to its end, or is suspended
        """
        output = required_output(self._loop.output)
        if self.finish_reason is None or self.suspended is not None:
            raise InvalidRequest("the run is not complete. Read it with objects() or collect() first.")
        if self.error is not None:
            raise self.error
        # From the last step: `message` may belong to an earlier step that has content.
        message = self.steps[-1].message if self.steps else self.message
        try:
            found: T = final_object(message, self.finish_reason, output)
            return found
        except InvalidOutput as error:
            error.partial, error.usage = message, self.total_usage
            raise

    def _limit(self, seconds: float | None) -> None:
        """Lowers the run's time limit, counted from its first read; None changes nothing."""
        context = self._loop.context
        if seconds is not None and (context.total_s is None or seconds < context.total_s):
            context.total_s = max(seconds, _MIN_S)

    def send(self, message: str | Message) -> None:
        """Adds a user message before the next step, and makes sure that there is a next step.

        If `max_steps` ends the run first, the message stays in its history without a response.

        raises: InvalidRequest if the run is over, or records its steps (`steps=`): a crash would lose the
                message; or for anything but a str or Message
        """
        if self._over:
            raise InvalidRequest(
                "the run has ended. Start a new run with its messages(), followed by this message."
            )
        if not isinstance(message, str | Message):
            raise InvalidRequest(f"send() takes a str or a Message, got {message!r}")
        if self._loop.context.recorder is not None:
            # A message must be recorded before its sender continues, and this method cannot await that.
            raise InvalidRequest(
                "this run records its steps, and a crash would lose a message by AgentRun.send(). Use `await "
                "runs.send(run_id, message)` of llmstream.durable.Runs, or `await steps.send(message)` of "
                "the steps of a journal."
            )
        self._loop.context.inbox.append(Message.user(message) if isinstance(message, str) else message)

    async def steer(self, message: str | Message) -> None:
        """Interrupts the current response with a user message; see `EventStream.steer`.

        `send` waits for the next step instead, and works with every model.

        raises: as `EventStream.steer`; also InvalidRequest while tools run, because no response is in
                progress then
        """
        response = self._loop.response
        if response is None:
            raise InvalidRequest(
                "no response is in progress that could be steered; send() reaches the next step."
            )
        await response.stream.steer(message)

    def tool_input(self, call_id: str) -> Any:
        """The input so far of a call in the current step, as a JSON value; see `EventStream.tool_input`.

        call_id: the id in the run's events
        """
        response = self._loop.response
        return None if response is None else response.stream.tool_input(self._loop.own_id(call_id))

    def _events(self) -> AsyncGenerator[Event]:
        if self._over:  # yields nothing, so it may be read again
            return self._read()
        alive = self._reader is not None and self._reader() is not None
        if alive or self._begun:
            raise InvalidRequest(
                "this run is already being read, or was just left by `break`. Use one reader at a time; "
                "the content so far is in `messages()`, and `async with` leaves the run at once."
            )
        events = self._read()
        self._reader = weakref.ref(events)
        self._held = events if self._entered else None
        return events

    async def _read(self) -> AsyncGenerator[Event]:
        # A run closed before it was read.
        if self._over:
            return
        require_asyncio()
        self._begun = True
        batches = self._loop.batches()
        try:
            async for batch in batches:
                for event in batch.read():
                    self._current = event
                    yield event
        finally:
            self._over, self._held = True, None
            await batches.aclose()

    # The state of the run so far.

    @property
    def model(self) -> Model:
        """The agent's model; `Step.model` names the one that a step used."""
        return self._loop.model

    @property
    def current(self) -> Event | None:
        """The event that was read last, by `next()` or by iteration."""
        return self._current

    @property
    def step(self) -> int:
        """The number of the current step, or of the last one, from 0."""
        over = self._loop.finish_reason is not None and self._loop.suspended is None
        return max(0, self.state.step - 1) if over and self.state.steps else self.state.step

    @property
    def state(self) -> RunState:
        """The state that stop conditions and hooks receive."""
        return self._loop.state

    @property
    def steps(self) -> tuple[Step, ...]:
        """The completed steps."""
        return tuple(self.state.steps)

    @property
    def statuses(self) -> tuple[ToolCallStatus, ...]:
        """The statuses of the calls of all completed steps, in order."""
        return tuple([status for step in self.state.steps for status in step.statuses])

    @property
    def values(self) -> Mapping[str, Any]:
        """What tools returned to the application, by the id of the call in the events; see `ToolOutput`."""
        return self._loop.context.values

    def messages(self) -> list[Message]:
        """The complete conversation so far; every call in it has exactly one result."""
        return self._loop.messages()

    def added(self) -> list[Message]:
        """Copies of the messages after the prompt: responses, tool results, and messages sent to the run.

        If a context effect replaced part of the history, everything from the first replaced message on.
        """
        return self._loop.messages()[self._loop.unchanged_prompt :]

    @property
    def message(self) -> Message:
        """The message of the current step; once the run is over, the last message with content."""
        response = self._loop.response
        current = Message.assistant() if response is None else response.stream.message
        # A step may follow that has no content yet.
        if self._loop.finish_reason is None:
            return current
        if self.error is not None:
            return current
        messages = [step.message for step in self.state.steps]
        with_content = (m for m in reversed(messages) if not is_empty(m))
        return next(with_content, messages[-1] if messages else current)

    @property
    def text(self) -> str:
        """The text of `message`."""
        return self.message.text

    @property
    def reasoning(self) -> str:
        """The text of the reasoning of `message`."""
        return self.message.reasoning

    @property
    def warnings(self) -> list[Warning]:
        """Warnings about what was omitted or changed in the requests of all steps, each once, in order."""
        return list(self._loop.warnings)

    @property
    def response(self) -> ResponseInfo | None:
        """The model, ids and rate limits of the last response; None before the first request."""
        return None if self._loop.response is None else self._loop.response.stream.response

    @property
    def usage(self) -> Usage:
        """Tokens of the response in the current step, or in the last one."""
        response = self._loop.response
        return Usage() if response is None else response.stream.usage

    @property
    def total_usage(self) -> Usage:
        """Tokens of all completed steps, including those of sub-agents."""
        return self.state.total_usage

    def cost(self, price: Price) -> float | None:
        """The estimated cost of the steps in this process, by the given price; None if it knows no price."""
        known = [cost for model, usage, _ in self.state.spent if (cost := price(model, usage)) is not None]
        return sum(known) if known else None

    @property
    def usage_by_model(self) -> Mapping[str, Usage]:
        """`total_usage` by "provider:model"."""
        return self.state.usage_by_model

    @property
    def cost_estimate(self) -> float | None:
        """The estimated cost of the run, by the agent's `price`; None if that knows no price."""
        return self.state.cost_estimate

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the run ended; None before its end."""
        return self._loop.finish_reason

    @property
    def stopped_by(self) -> str | None:
        """A description of the stop condition, tool or hook that ended the run; or None."""
        return self._loop.context.stopped_by

    @property
    def cut_short(self) -> bool:
        """Whether `max_steps` ended the run while calls or messages still needed a response."""
        return self._loop.cut_short

    @property
    def limit_reached(self) -> str | None:
        """The limit that ended the run before the model had finished, or None.

        "max_steps", "invalid_calls", or the name of a condition of `llmstream.agent.state`: "tokens_over",
        "cost_over", "elapsed_over", "tool_calls_over", "no_progress", "step_count". `Agent.run` raises
        LimitExceeded with this as its reason.
        """
        return self._loop.context.limit

    @property
    def suspended(self) -> Suspension | None:
        """The run as a value if it waits for a decision or for external results, else None."""
        return self._loop.suspended

    @property
    def error(self) -> LLMStreamError | None:
        """Why the run failed, or None."""
        return self._loop.error


# `Agent.run` and sub-agent tools return only the answer, so a run without one becomes an error here.


def answer_of(run: AgentRun) -> Any:
    """The result of a completed run: the value if it has an output type, else the message.

    raises: as `check_finished`; InvalidOutput if the answer does not fit the type
    """
    check_finished(run)
    return run.object if run.typed else run.message


def check_finished(run: AgentRun) -> None:
    """Raises an error for a completed run without an answer.

    A run that the application ended by a hook, a tool or its own stop condition counts as answered, unless
    it has neither content nor calls.

    raises: the run's own error; RunSuspended if it waits; LimitExceeded if a limit ended it, named in
            `reason`; ContentFiltered if the vendor's filter did; InvalidOutput if the answer is empty
    """
    if run.error is not None:  # `errors="events"` does not raise it while reading
        raise run.error
    error = _suspended(run) or _over_limit(run)
    if error is None:
        error = _no_answer(run) if run.stopped_by is None else _stopped(run)
    if error is not None:
        error.partial, error.usage = run.message, run.total_usage
        raise error


def _suspended(run: AgentRun) -> LLMStreamError | None:
    if run.suspended is None:
        return None
    waiting = ", ".join(map(str, run.suspended.pending))
    error = RunSuspended(
        f"the run waits for {waiting}, and there is no approver. Pass approve= to the agent, or use "
        "stream() and its `suspended`; this error has the same value in `suspension`.",
        reason="suspended",
    )
    error.suspension = run.suspended
    return error


def _over_limit(run: AgentRun) -> LLMStreamError | None:
    match run.limit_reached:
        case None:
            return None
        case "max_steps":
            limit = counted(len(run.steps), "step")
            what = f"the run reached its limit of {limit} before the model had finished."
            remedy = "Raise max_steps, or use stream() and its messages() to continue."
        case "invalid_calls":
            what = "the model repeated the same invalid calls after it had received the errors."
            remedy = "See the results in `partial` and messages(); max_invalid_calls= raises the limit."
        case _:
            what = f"the run was stopped by {run.stopped_by} before the model had finished."
            remedy = "Raise the limit, or use stream() and its messages() to continue."
    return LimitExceeded(f"{what} {remedy}", reason=run.limit_reached)


def _stopped(run: AgentRun) -> LLMStreamError | None:
    message = run.message
    if message.tool_calls or not is_empty(message):
        return None
    return InvalidOutput(
        f"the run was ended before the model responded: {run.stopped_by}.",
        provider=run.model.provider.name,
        reason="stopped",
    )


def _no_answer(run: AgentRun) -> LLMStreamError | None:
    provider = run.model.provider.name
    if run.finish_reason == "content-filter":
        return ContentFiltered(
            "the vendor's filter withheld the answer; the content before it is in `partial`.",
            provider=provider,
            reason="content-filter",
        )
    if is_empty(run.message):
        return InvalidOutput(
            "the answer is empty: the model returned neither text nor a file. empty_retries= retries it.",
            provider=provider,
            reason="empty",
        )
    return None
