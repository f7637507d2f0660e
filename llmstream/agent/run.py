"""One run of an agent: its events, views of what it has done, and a way to steer it."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, overload

from llmstream.agent.loop import Loop
from llmstream.agent.records import is_empty
from llmstream.agent.state import Price, RunState, Step
from llmstream.agent.suspension import Suspension
from llmstream.chats.message import Message
from llmstream.errors import InvalidOutput, InvalidRequest, LLMStreamError
from llmstream.events import Event, FinishReason, Usage, Warning
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
from llmstream.tools import ToolCallStatus

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # a default (PEP 696) is what type checkers know

    T = TypeVar("T", default=Any)
    Item = TypeVar("Item")
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["AgentRun"]

_LEAST_S: Final = 1e-6
"""A run whose time is over already ends with its first step; deadlines are positive."""


class AgentRun(AsyncOnly, Generic[T]):
    """Iterate it for the events of all steps; leave it and everything stops at once, tools included.

    Ids of later steps are prefixed with the step's number where they would occur twice. The
    results of our tools are `tool-result` events, preliminary ones before them. A run that a
    stop condition ends finishes with the reason of its last step; one that waits for a decision,
    or for calls that nothing here can run, with "tool-calls", and is a value in `suspended`.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._reader: weakref.ref[AsyncGenerator[Event]] | None = None
        self._held: AsyncGenerator[Event] | None = None  # by `async with`, which closes it
        self._entered = self._begun = self._over = False
        self._reading = Reading("run")
        self._current: Event | None = None

    def __aiter__(self) -> AsyncGenerator[Event]:
        self._check_unread()
        return self._events()

    def _check_unread(self) -> None:
        """Refuses a second reader of a run; one that was left simply has nothing more to give.

        raises: InvalidRequest
        """
        if self._over and self.finish_reason is not None:
            raise InvalidRequest(
                "this run was read to its end, and a run is read once. What came is in `message` and "
                "`messages()`; start another with those."
            )

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leaves the run: the socket closes now, tools are cancelled and waited for."""
        reader = self._reader() if self._reader is not None else None
        self._over, self._held = True, None
        if reader is not None and not self._reading.stepping:  # else its reader ends it
            await reader.aclose()
        self._reading.events = None
        await self._loop.aclose()

    async def next(self) -> bool:
        """Goes on to the next event, which is then `current`; False when the run is over."""
        return await self._reading.next(self._events)

    def text_deltas(self) -> AsyncGenerator[str]:
        """Only the fragments of text, of all steps."""
        return text_deltas(self.__aiter__)

    async def collect(self) -> Message:
        """Runs to the end and gives its `message`.

        raises: LLMStreamError where a step failed; `.partial` holds what came. InvalidRequest where the
                run was left: half of an answer is in `message`, and is not the answer
        """
        async for _ in self._events():
            pass
        if self.error is not None and not self._loop.quiet:
            raise self.error
        if self.finish_reason is None:
            raise InvalidRequest(
                "the run was left before its end; what came is in `message` and `messages()`"
            )
        return self.message

    @overload
    def objects(self: AgentRun[list[Item]]) -> AsyncGenerator[Item]: ...

    @overload
    def objects(self) -> AsyncGenerator[T]: ...

    def objects(self) -> AsyncGenerator[Any]:
        """The run's final answer as a value of `output`'s type, as it grows.

        As `EventStream.objects`, over all steps: values begin anew with each, so what the last step
        gives is the answer, and the last value is the validated one, also kept as `object`. An answer
        that does not fit is shown to the model with what is wrong, and the run goes on, if nothing
        else stops it; so it is however the run is read. A run that is suspended ends this quietly.

        raises: InvalidOutput when that did not help; LLMStreamError where a step failed
        """
        return growing_objects(
            self,
            self._events,
            required_output(self._loop.output),
            waits=lambda: self.suspended is not None,
            ask_again=lambda error: False,  # the loop has done so, in a step of its own
            quiet=self._loop.quiet,
        )

    @property
    def typed(self) -> bool:
        """Whether an `output` was asked for, so that there will be an `object`."""
        return self._loop.output is not None

    @property
    def object(self) -> T:
        """The validated answer, of `output`'s type, once the run is over.

        raises: InvalidOutput where it does not fit, with the message in `partial`; the run's own error
                where it failed; InvalidRequest while it is still to be read, or waits
        """
        output = required_output(self._loop.output)
        if self.finish_reason is None or self.suspended is not None:
            raise InvalidRequest("the run is not over: read it, by objects() or collect(), then ask again")
        if self.error is not None:
            raise self.error
        message = self.steps[-1].message if self.steps else self.message
        try:
            found: T = final_object(message, self.finish_reason, output)
            return found
        except InvalidOutput as error:
            error.partial, error.usage = message, self.total_usage
            raise

    def _limit(self, seconds: float | None) -> None:
        """Has the run take no longer than that, counted from its first read; None changes nothing."""
        course = self._loop.course
        if seconds is not None and (course.total_s is None or seconds < course.total_s):
            course.total_s = max(seconds, _LEAST_S)

    def send(self, message: str | Message) -> None:
        """Steers the run: the model sees this user message before its next step, which there will be.

        Where `max_steps` ends the run first, the message stands in its history, unanswered.

        raises: InvalidRequest where the run is over, and for what is no message
        """
        if self._over:
            raise InvalidRequest(
                "the run is over. Start another with its messages() and this one behind them."
            )
        if not isinstance(message, str | Message):
            raise InvalidRequest(f"a run is sent a str or a Message, got {message!r}")
        self._loop.course.inbox.append(Message.user(message) if isinstance(message, str) else message)

    async def steer(self, message: str | Message) -> None:
        """Interrupts the answer of the step under way with a word of the user; see `EventStream.steer`.

        `send` waits for the next step instead, and does so with every model.

        raises: as there; InvalidRequest too while tools run, when no answer is under way
        """
        answer = self._loop.answer
        if answer is None:
            raise InvalidRequest(
                "no answer is under way that could be steered; send() reaches the next step."
            )
        await answer.stream.steer(message)

    def tool_input(self, call_id: str) -> Any:
        """The input of a call of the step under way so far, as a JSON value; see `EventStream.tool_input`.

        call_id: as the run's events have it
        """
        answer = self._loop.answer
        return None if answer is None else answer.stream.tool_input(self._loop.own_id(call_id))

    def _events(self) -> AsyncGenerator[Event]:
        alive = self._reader is not None and self._reader() is not None
        if alive or (self._begun and not self._over):
            raise InvalidRequest(
                "this run is being read already, or was left by `break` just now. One reader at a time; "
                "what has come is in `messages()`, and `async with` leaves at once."
            )
        events = self._read()
        self._reader = weakref.ref(events)
        self._held = events if self._entered else None
        return events

    async def _read(self) -> AsyncGenerator[Event]:
        if self._over:
            return
        require_asyncio()
        self._begun = True
        events = self._loop.events()
        try:
            async for event in events:
                self._current = event
                yield event
        finally:
            self._over, self._held = True, None
            await events.aclose()

    # -- views

    @property
    def model(self) -> Model:
        """The agent's model; of a step that asked another, see `Step.model`."""
        return self._loop.model

    @property
    def current(self) -> Event | None:
        """The event read last, by `next()` or by iteration."""
        return self._current

    @property
    def step(self) -> int:
        """The number of the step under way, or of the last one, from 0."""
        over = self._loop.finish_reason is not None and self._loop.suspended is None
        return max(0, self.state.step - 1) if over and self.state.steps else self.state.step

    @property
    def state(self) -> RunState:
        """What stop conditions and hooks see."""
        return self._loop.state

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that are over."""
        return tuple(self.state.steps)

    @property
    def statuses(self) -> tuple[ToolCallStatus, ...]:
        """How the calls of all steps went, in order."""
        return tuple([status for step in self.state.steps for status in step.statuses])

    @property
    def values(self) -> Mapping[str, Any]:
        """What the tools gave to the application, by the id of the call in the events; see `ToolOutput`."""
        return self._loop.course.values

    def messages(self) -> list[Message]:
        """The whole conversation so far; every call in it has exactly one result, whatever happened."""
        return self._loop.messages()

    def added(self) -> list[Message]:
        """What has come behind the prompt: answers, tool results, and what was sent to the run. Copies.

        Of a history that a context effect has replaced, everything from the first replaced message on.
        """
        return self._loop.messages()[self._loop.asked :]

    @property
    def message(self) -> Message:
        """The message of the step under way; of a run that is over, the last one that says something."""
        answer = self._loop.answer
        current = Message.assistant() if answer is None else answer.stream.message
        if self._loop.finish_reason is None:
            return current
        said = [step.message for step in self.state.steps]
        speaking = (m for m in reversed(said) if not is_empty(m))
        return current if self.error is not None else next(speaking, said[-1] if said else current)

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
        """What was left out of the requests of all steps or changed in them, each once, in order."""
        return list(self._loop.warnings)

    @property
    def response(self) -> ResponseInfo | None:
        """Who answered last, and its ids and rate limits; None before a model was asked."""
        return None if self._loop.answer is None else self._loop.answer.stream.response

    @property
    def usage(self) -> Usage:
        """Tokens of the answer in the step under way, or in the last one."""
        answer = self._loop.answer
        return Usage() if answer is None else answer.stream.usage

    @property
    def total_usage(self) -> Usage:
        """Tokens of all steps that are over, sub-agents' included."""
        return self.state.total_usage

    def cost(self, price: Price) -> float | None:
        """What the steps in this process may have cost by any price; None where none is known."""
        known = [cost for model, usage in self.state.spent if (cost := price(model, usage)) is not None]
        return sum(known) if known else None

    @property
    def usage_by_model(self) -> Mapping[str, Usage]:
        """`total_usage` by "provider:model"."""
        return self.state.usage_by_model

    @property
    def cost_estimate(self) -> float | None:
        """What the run may have cost, by the agent's `price`; None where that knows no price."""
        return self.state.cost_estimate

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the run ended; None while it has not."""
        return self._loop.finish_reason

    @property
    def stopped_by(self) -> str | None:
        """The stop condition, tool or hook that ended the run, in words; or None."""
        return self._loop.course.stopped_by

    @property
    def cut_short(self) -> bool:
        """Whether `max_steps` ended the run, while the model still wanted tools or had a message to read."""
        return self._loop.cut_short

    @property
    def limit_reached(self) -> str | None:
        """The limit that ended the run before the model was done, or None.

        "max_steps", "invalid_calls", or the name of a condition of `llmstream.agent.stop`: "tokens_over",
        "cost_over", "elapsed_over", "tool_calls_over", "no_progress", "step_count". `Agent.run` raises
        LimitExceeded with this as its reason.
        """
        return self._loop.course.limit

    @property
    def suspended(self) -> Suspension | None:
        """The run as a value, where it waits for a decision or for results from elsewhere."""
        return self._loop.suspended

    @property
    def error(self) -> LLMStreamError | None:
        """Why the run failed, or None."""
        return self._loop.error
