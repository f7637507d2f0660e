"""The model part of a step: its plan before the request, and the processing of its response."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from llmstream.agent.context import ContextEffect, RunEffects, replaces
from llmstream.agent.hooks import (
    BeforeModel,
    Instructions,
    PrepareStep,
    Proceed,
    Rewrite,
    Skip,
    StepPlan,
    Stop,
    call_hook,
)
from llmstream.agent.state import Expense, RunState
from llmstream.chats.content import File, Text, ToolCall, own_values
from llmstream.chats.message import Message, RepeatedCopies, Role
from llmstream.errors import IncompleteStream, InvalidRequest, LLMStreamError
from llmstream.events import (
    DELTAS,
    Event,
    Finish,
    ReasoningDelta,
    ResponseMetadata,
    RetryNotice,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    Timings,
    ToolInputEnd,
    ToolInputStart,
    Usage,
)
from llmstream.events import File as FileEvent
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.streams.call import CallingModel
from llmstream.streams.conversation import Batch
from llmstream.streams.event_stream import EventStream
from llmstream.streams.history import Repairs
from llmstream.streams.options import Options
from llmstream.tools.toolset import ToolSet

if TYPE_CHECKING:
    from llmstream.agent.recorder import Recorder

__all__ = ["HookResponse", "ModelResponse", "PlanMemory", "StepPlanner", "no_content_error", "prepared"]


async def prepared(prepare_step: PrepareStep | None, state: RunState) -> StepPlan:
    """The plan of `prepare_step`.

    raises: InvalidRequest if it returned anything but a plan
    """
    plan = await call_hook(prepare_step, state)
    # Anything else would fail later, with an error that does not name the function.
    if plan is not None and not isinstance(plan, StepPlan):
        raise InvalidRequest(f"prepare_step must return a StepPlan or None, got {plan!r}")
    if plan is None:
        return StepPlan()
    return plan if plan.messages is None else replace(plan, messages=_shown("prepare_step", plan.messages))


class HookResponse:
    """A response that a hook returned instead of the model."""

    def __init__(self, given: object) -> None:
        self.message = given if isinstance(given, Message) else Message.assistant(str(given))

    def events(self) -> list[Event]:
        """The text as one block."""
        text = self.message.text
        return [TextStart("given"), TextDelta(text, "given"), TextEnd("given")] if text else []


class StepEffects:
    """The context effects of a run; those that replace the history apply first."""

    def __init__(self, effects: Iterable[ContextEffect]) -> None:
        found = tuple(effects)
        self._lasting = RunEffects(effect for effect in found if replaces(effect))
        self._passing = RunEffects(effect for effect in found if not replaces(effect))

    async def last(self, state: RunState, recorder: Recorder | None, asked: bool) -> None:
        """Applies the effects that replace the history, once in a run that is recorded.

        asked: whether the response of the step is recorded
        """
        if not self._lasting:
            return
        if recorder is None:
            await self._replace(state)
            return
        spent = await recorder.history(
            state.step, state.conversation, lambda: self._replace(state), asked=asked
        )
        for expense in spent:
            state.spend(*expense)

    async def _replace(self, state: RunState) -> tuple[Expense, ...]:
        before = len(state.spent)
        found = await self._lasting.applied(state.conversation, spend=state.spend, state=state)
        # Modified in place: the state, its readers and the loop share the list.
        state.conversation[:] = found
        return tuple(state.spent[before:])

    async def applied(self, state: RunState, plan: StepPlan, recorder: Recorder | None) -> StepPlan:
        """The plan with the messages that the other effects return."""
        passing, before = self._passing, len(state.spent)
        if not self._lasting and not passing:
            return plan
        shown = state.conversation if plan.messages is None else plan.messages
        found = await passing.applied(shown, spend=state.spend, state=state)
        if recorder is not None:
            await recorder.shown(state.step, tuple(state.spent[before:]))
        return replace(plan, messages=tuple(found))


class StepPlanner:
    """Plans the steps of a run.

    instructions: a function that returns those of each step, or None
    system:       instructions given as text, which are part of the conversation
    """

    def __init__(
        self,
        prepare_step: PrepareStep | None,
        before_model: BeforeModel | None,
        effects: Iterable[ContextEffect],
        *,
        instructions: Instructions | None,
        system: str,
    ) -> None:
        self._prepare_step = prepare_step
        self._before_model = before_model
        self._effects = StepEffects(effects)
        self._instructions = instructions
        self._system = system

    async def plan(self, state: RunState, recorder: Recorder | None = None) -> StepPlan | HookResponse | Stop:
        """The plan of the next step; or a response from a hook; or the decision to stop.

        If the response is recorded, only the tools of the plan are needed: nothing else is evaluated again.
        """
        plan = await prepared(self._prepare_step, state)
        if recorder is not None:
            for expense in await recorder.spent_on_shown(state.step):
                state.spend(*expense)
            if await recorder.has_response(state.step):
                await self._effects.last(state, recorder, asked=True)
                return plan
        decision = await self._decided(state, recorder)
        match decision:
            case None | Proceed():
                await self._effects.last(state, recorder, asked=False)
                plan = await self._effects.applied(state, plan, recorder)
            case Rewrite(messages):
                plan = replace(plan, messages=_shown("before_model", messages))
            case Skip(str() | Message() as result):
                return HookResponse(result)
            case Stop():
                return decision
            case _:
                raise InvalidRequest(
                    f"before_model must return Rewrite, Skip, Stop, Proceed or None, got {decision!r}"
                )
        return await self._instructed(state, plan)

    async def _decided(self, state: RunState, recorder: Recorder | None) -> Any:
        """The decision of `before_model`."""
        if recorder is None or self._before_model is None:
            return await call_hook(self._before_model, state)
        return await recorder.decision(
            f"{state.step}/before_model", lambda: call_hook(self._before_model, state)
        )

    async def _instructed(self, state: RunState, plan: StepPlan) -> StepPlan:
        """The plan with the instructions of this step as its first message.

        They are not added to the history: the next step, and the next run, has its own.

        raises: InvalidRequest if the function returns anything but text
        """
        text = plan.instructions
        if text is None:
            function = self._instructions
            # The instructions function may take the state or no argument.
            arguments = () if function is None or _takes_nothing(function) else (state,)
            text = await call_hook(function, *arguments)
        if text is not None and not isinstance(text, str):
            raise InvalidRequest(f"instructions must return a str or None, got {text!r}")
        if not text:
            return plan
        shown = list(state.conversation if plan.messages is None else plan.messages)
        own = shown[0] if shown else None
        # Only the agent's own: a system message of the prompt stays.
        if own is not None and own.role == Role.SYSTEM and own.text == self._system:
            del shown[0]  # replaced by this step's instructions
        return replace(plan, messages=(Message.system(text), *shown))


def _takes_nothing(function: Instructions) -> bool:
    try:
        # Some functions written in C have no signature.
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _shown(source: str, messages: object) -> tuple[Message, ...]:
    """The messages for the request.

    source: the function that returned them
    raises: InvalidRequest for anything but messages
    """
    given = tuple(messages) if isinstance(messages, Iterable) else (messages,)
    # A str is also iterable.
    if isinstance(messages, str) or not all(isinstance(message, Message) for message in given):
        raise InvalidRequest(f"{source} must give a list of messages, got {messages!r}")
    return given


# The response in one step, as events with timings: from the model, or from a hook instead.


_CONTENT: Final = frozenset({TextDelta, ReasoningDelta, ToolInputStart, ToolCallEvent, FileEvent})


class PlanMemory:
    """Copies and repairs of messages from plans, reused because each step mostly repeats the history."""

    def __init__(self) -> None:
        self.copies = RepeatedCopies()
        self.repairs = Repairs()


class ModelResponse:
    """Sends one request. `batches` yields all events but the stream's finish, which is stored in `finish`.

    repairs:    of the run's history, used if the plan has no messages of its own
    of_plan:    copies and repairs of the messages from earlier plans
    recorded:   makes a model whose response is recorded; None for a run that is not durable
    model_name: "provider:model"
    tools:      the tools offered to the model
    cut_call:   whether the response ended in the middle of a tool call
    """

    def __init__(
        self,
        model: CallingModel,
        options: Options,
        plan: StepPlan,
        conversation: list[Message],
        *,
        clock: Callable[[], float],
        started: float,
        repairs: Repairs,
        of_plan: PlanMemory,
        recorded: Callable[[CallingModel], CallingModel] | None = None,
    ) -> None:
        model, options = plan.model_over(model), plan.options_over(options)
        if recorded is not None:
            model = recorded(model)
        shown = conversation if plan.messages is None else of_plan.copies.of(plan.messages)
        self.model_name = f"{model.provider.name}:{model.name}"
        self.tools = ToolSet.of(options.get("tools") or ()).current()
        self.finish = Finish("unknown")
        self.cut_call = False
        # The stream gets only declarations: the step runs the tools.
        # Errors as events: the run has a finish to make before it raises them.
        requested: Options = {**options, "tools": self.tools.declared(), "errors": "events"}
        own = repairs if plan.messages is None else of_plan.repairs
        self.stream = EventStream(model, shown, requested, started=started, repairs=own)
        self._clock = clock
        self._began = clock()
        self._times: dict[str, float] = {}

    async def batches(self) -> AsyncGenerator[Batch]:
        """Yields the events of the response, in order; leaving closes the socket."""
        async with aclosing(self.stream._batches()) as batches:
            async for batch in batches:
                last, end = batch.events[-1], len(batch.events) - 1
                if type(last) is not Finish:
                    self._note(batch.events)
                    yield batch
                    continue
                if end:  # the finish is the last event of every stream
                    self._note(batch.events[:end])
                    yield batch.part(0, end)
                self.finish = last
        self._times["total_s"] = self._clock() - self._began

    @property
    def timings(self) -> Timings:
        """Times to the first event, to the first content and to the end."""
        return Timings(**self._times)

    @property
    def usage(self) -> Usage:
        """Tokens of the response, as reported so far."""
        return self.stream.usage

    def added(self) -> list[Message]:
        """The messages that the response adds to the conversation; of a broken one, the usable part."""
        return self.stream.added()

    def _note(self, events: Sequence[Event]) -> None:
        times = self._times
        if "first_content_s" in times and DELTAS.issuperset(map(type, events)):
            return
        kinds = set(map(type, events))
        # Created here: the vendor has not sent anything yet that could be timed.
        if "first_event_s" not in times and not kinds <= {StreamStart}:
            times["first_event_s"] = self._clock() - self._began
        if "first_content_s" not in times and not kinds.isdisjoint(_CONTENT):
            times["first_content_s"] = self._clock() - self._began
        for event in events:
            if isinstance(event, ToolInputEnd):
                self.cut_call = self.cut_call or bool(event.incomplete)
            # The incomplete response is void.
            elif isinstance(event, RetryNotice):
                self.cut_call = False
            elif isinstance(event, ResponseMetadata) and event.provider_metadata:
                own = own_values(event.provider_metadata)
                self.model_name = own.get("answered_by", self.model_name)  # set by a fallback


def no_content_error(response: ModelResponse, message: Message) -> LLMStreamError | None:
    """The error of a response that reached its token limit before any content, or in its only call."""
    # Only this finish reason means an incomplete response.
    if response.finish.finish_reason != "length":
        return None
    if response.cut_call and not any(isinstance(part, ToolCall) for part in message.parts):
        text = "the response reached its token limit inside a tool call. Raise max_output_tokens."
    elif not any(isinstance(part, Text | ToolCall | File) for part in message.parts):
        text = "the response reached its token limit before any content. Raise max_output_tokens."
    else:
        return None
    error = IncompleteStream(text, provider=response.stream.model.provider.name, retryable=False)
    error.partial, error.usage = message, response.usage
    return error
