"""The response in one step, as events with timings: from the model, or from a hook in its place."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from llmstream.agent.hooks import StepPlan
from llmstream.agent.nested import OWN_KEY
from llmstream.chats.content import File, Text, ToolCall
from llmstream.chats.copying import RepeatedCopies
from llmstream.chats.message import Message
from llmstream.errors import IncompleteStream, LLMStreamError
from llmstream.events import (
    Event,
    Finish,
    ResponseMetadata,
    RetryNotice,
    StreamStart,
    Timings,
    ToolInputEnd,
    Usage,
)
from llmstream.streams.call import CallingModel
from llmstream.streams.event_stream import EventStream
from llmstream.streams.history import Repairs
from llmstream.streams.options import Options
from llmstream.tools.toolset import ToolSet

__all__ = ["ModelResponse", "PlanMemory", "no_content_error"]

_CONTENT_TAGS: Final = ("text-delta", "reasoning-delta", "tool-input-start", "tool-call", "file")


class PlanMemory:
    """Copies and repairs of messages from plans, reused because each step mostly repeats the history."""

    def __init__(self) -> None:
        self.copies = RepeatedCopies()
        self.repairs = Repairs()


class ModelResponse:
    """Sends one request. `events` yields all events but the stream's finish, which is stored in `finish`.

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

    async def events(self) -> AsyncGenerator[Event]:
        """Yields the events of the response, in order; leaving closes the socket."""
        async with aclosing(aiter(self.stream)) as events:
            async for event in events:
                if isinstance(event, Finish):
                    self.finish = event
                else:
                    self._note(event)
                    yield event
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

    def _note(self, event: Event) -> None:
        # It is ours: the vendor has sent nothing yet that could be timed.
        if isinstance(event, StreamStart):
            return
        if isinstance(event, ToolInputEnd):
            self.cut_call = self.cut_call or bool(event.incomplete)
        # The response that was cut is void.
        elif isinstance(event, RetryNotice):
            self.cut_call = False
        if isinstance(event, ResponseMetadata) and event.provider_metadata:
            own = event.provider_metadata.get(OWN_KEY, {})
            self.model_name = own.get("answered_by", self.model_name)  # set by a fallback
        if "first_event_s" not in self._times:
            self._times["first_event_s"] = self._clock() - self._began
        if "first_content_s" not in self._times and event.__struct_config__.tag in _CONTENT_TAGS:
            self._times["first_content_s"] = self._clock() - self._began


def no_content_error(response: ModelResponse, message: Message) -> LLMStreamError | None:
    """The error of a response that reached its token limit before any content, or in its only call."""
    # Only this reason cuts a response in the middle.
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
