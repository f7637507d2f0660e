"""One answer of the model as the events of a step, timed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from llmstream.agent.nested import OWN_KEY
from llmstream.agent.plan import StepPlan
from llmstream.chats.copying import RepeatedCopies
from llmstream.chats.message import Message
from llmstream.events import (
    Event,
    Finish,
    ResponseMetadata,
    RetryNotice,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    Timings,
    ToolInputEnd,
    Usage,
)
from llmstream.streams.event_stream import EventStream
from llmstream.streams.history import Repairs
from llmstream.streams.model import Model
from llmstream.streams.options import Options
from llmstream.tools import ToolSet

__all__ = ["Answer", "GivenAnswer", "PlanMemory"]

_CONTENT_TAGS: Final = ("text-delta", "reasoning-delta", "tool-input-start", "tool-call", "file")


class PlanMemory:
    """Copies and repairs of what plans showed the model: mostly the history, a little longer each time."""

    def __init__(self) -> None:
        self.copies = RepeatedCopies()
        self.repairs = Repairs()


class Answer:
    """Asks a model once. `events` gives all but the stream's finish, which is in `finish` then.

    repairs:    of the run's history, for a plan that shows the model that
    of_plan:    the same of what plans of earlier steps showed it in place of that
    model_name: "provider:model"
    tools:      what was offered
    cut_call:   whether the answer ended in the middle of a tool call
    """

    def __init__(
        self,
        model: Model,
        options: Options,
        plan: StepPlan,
        conversation: list[Message],
        *,
        clock: Callable[[], float],
        started: float,
        repairs: Repairs,
        of_plan: PlanMemory,
    ) -> None:
        model, options = plan.model_over(model), plan.options_over(options)
        shown = conversation if plan.messages is None else of_plan.copies.of(plan.messages)
        self.model_name = f"{model.provider.name}:{model.name}"
        self.tools = ToolSet.of(options.get("tools") or ()).current()
        self.finish = Finish("unknown")
        self.cut_call = False
        asked: Options = {
            **options,
            "tools": self.tools.declared(),
            "errors": "events",
        }  # they run elsewhere
        own = repairs if plan.messages is None else of_plan.repairs
        self.stream = EventStream(model, shown, asked, started=started, repairs=own)
        self._clock = clock
        self._began = clock()
        self._times: dict[str, float] = {}

    async def events(self) -> AsyncGenerator[Event]:
        """The events of the answer, in order; leaving closes the socket."""
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
        """When the first event and the first content came, and how long it all took."""
        return Timings(**self._times)

    @property
    def usage(self) -> Usage:
        """Tokens of the answer as far as the vendor has said."""
        return self.stream.usage

    def added(self) -> list[Message]:
        """What the answer adds to the conversation: its message, or what is kept of one that broke off."""
        return self.stream.added()

    def _note(self, event: Event) -> None:
        if isinstance(event, StreamStart):
            return
        if isinstance(event, ToolInputEnd):
            self.cut_call = self.cut_call or bool(event.incomplete)
        elif isinstance(event, RetryNotice):
            self.cut_call = False
        if isinstance(event, ResponseMetadata) and event.provider_metadata:
            own = event.provider_metadata.get(OWN_KEY, {})
            self.model_name = own.get("answered_by", self.model_name)  # of a chain of models
        if "first_event_s" not in self._times:
            self._times["first_event_s"] = self._clock() - self._began
        if "first_content_s" not in self._times and event.__struct_config__.tag in _CONTENT_TAGS:
            self._times["first_content_s"] = self._clock() - self._began


class GivenAnswer:
    """The events of an answer that a hook gave in the model's place."""

    def __init__(self, given: object) -> None:
        self.message = given if isinstance(given, Message) else Message.assistant(str(given))

    def events(self) -> list[Event]:
        """Its text as one block."""
        text = self.message.text
        return [TextStart("given"), TextDelta(text, "given"), TextEnd("given")] if text else []
