"""The conversation that a stream belongs to, and how another model continues it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from llmstream.accumulate import Accumulator
from llmstream.accumulate.blocks import OWN_KEY, merge_metadata
from llmstream.chats.content import Text
from llmstream.chats.copying import LateCopies
from llmstream.chats.message import Message, Role
from llmstream.events import Event, OtherWarning, StreamStart, TextStart
from llmstream.request import Request
from llmstream.streams.history import Growing, Repairs
from llmstream.streams.options import Options, make_request, tool_set, with_system

if TYPE_CHECKING:
    from llmstream.chats.content import ToolCall
    from llmstream.structured import Output
    from llmstream.tools import CallRunner, ToolContext
    from llmstream.transport.deadlines import Deadlines

__all__ = ["CONTINUE_NOTE", "Continuation", "Conversation", "going_on"]

CONTINUE_NOTE: Final = (
    "Your last message was cut off. Go on exactly where it ends: begin with the next character, repeat "
    "nothing of it, and say nothing about the interruption."
)
"""What a model is told that takes no beginning of its own answer."""


class Conversation:
    """What is said and wanted; each turn is one request of it.

    messages: its own from now on, so copies of a caller's
    repairs:  of the run whose history this is; else it has its own
    output:   what the answers are to be, or None
    deadline: when all of it has to be over, in loop time; None where it need not, or has not begun
    """

    def __init__(self, messages: Sequence[Message], options: Options, repairs: Repairs | None = None) -> None:
        self.messages = with_system(options.get("instructions"), messages)
        given: dict[str, Any] = {k: v for k, v in options.items() if k != "instructions"}
        self.options = cast(Options, given)
        self.output = given["output"] = _as_output(options.get("output"))
        if "tools" in given:
            given["tools"] = tool_set(given["tools"])
        self.deadline: float | None = None
        self._repairs = repairs or Repairs()
        self._turn = -1
        self._first: Request | None = None

    def check(self, model: str, *, answered: bool) -> None:
        """Makes the first request, before anybody asks for it.

        raises: as `request`
        """
        self._first = self.request(model, answered=answered)

    def request(self, model: str, *, answered: bool) -> Request:
        """What is asked next.

        answered: the answer is there already and is only read on
        raises:   CallerError for options that make none
        """
        first, self._first = self._first, None
        if first is None:
            first = make_request(model, self.messages, self.options, answered=answered)
            messages = Growing.of(first.messages, self._repairs)
            first = msgspec.structs.replace(first, messages=messages)
        return first

    @property
    def quiet(self) -> bool:
        """Whether errors are only events."""
        return self.options.get("errors") == "events"

    def outfit(self) -> tuple[Accumulator | None, CallRunner | None]:
        """For the answer to come: a fold that knows the tools as they are now, and what runs eager ones.

        None where there are no tools, and where none is eager.
        """
        self._turn += 1
        given = tool_set(self.options.get("tools"))
        if not given:
            return None, None
        tools = given.current()
        fold = Accumulator(tools=tools)
        return fold, fold.runner(context=self.tool_context) if tools.eager else None

    def limit(self, deadlines: Deadlines, started: float) -> None:
        """Takes the total deadline: the option's, or else the model's.

        started: in loop time
        """
        total_s = (self.options.get("deadlines") or deadlines).total_s
        self.deadline = None if total_s is None else started + total_s

    def tool_context(self, call: ToolCall) -> ToolContext:
        """What a tool may know of its call."""
        from llmstream.tools import ToolContext  # loaded by those who use tools

        return ToolContext(call.id, call.name, self._turn, LateCopies(self.messages), self.deadline)


def _as_output(value: Any) -> Output | None:
    """The form of the response; None where no form was requested."""
    if value is None:
        return None
    from llmstream.structured import as_output  # loaded by those who ask for a form

    return as_output(value)


def going_on(messages: Sequence[Message], *, takes_prefix: bool, note: str = CONTINUE_NOTE) -> list[Message]:
    """The conversation that asks for the rest of its last answer.

    Of that answer only the text stays: ids, signatures and reasoning are of the model that was cut off.

    takes_prefix: the model goes on with an answer that the conversation ends in; any other is told by
                  `note`, as the user
    """
    if not messages or messages[-1].role != Role.ASSISTANT:
        return list(messages)
    *before, last = messages
    begun = Message(last.sender, last.role, (Text(last.text),))
    return [*before, begun] if takes_prefix else [*before, begun, Message.user(note)]


class Continuation:
    """Marks the events of an answer that goes on with another.

    The first event says so in a warning; the first text carries `{"llmstream": {"continues": MODEL}}`,
    which becomes its part's metadata.

    model:  "provider:model" of the answer that broke off
    code:   of the error with which it did, or "left"
    length: characters of text that had come; 0 means that it is asked for anew
    """

    def __init__(self, model: str, code: str, length: int) -> None:
        self._model = model
        self._length = length
        self._words = (
            f"this goes on with an answer of {model} that broke off ({code}) after {length} characters"
            if length
            else f"this is asked anew: the answer of {model} broke off ({code}) before any text"
        )
        self.done = False

    def mark(self, events: list[Event]) -> list[Event]:
        """The same events, marked as far as that is still to be done."""
        return [event if self.done else self._marked(event) for event in events]

    def _marked(self, event: Event) -> Event:
        match event:
            case StreamStart(warnings):
                self.done = not self._length
                return StreamStart([OtherWarning(self._words), *warnings])
            case TextStart():
                self.done = True
                mark = {OWN_KEY: {"continues": self._model}}
                metadata = merge_metadata(event.provider_metadata, mark)
                return msgspec.structs.replace(event, provider_metadata=metadata)
            case _:
                return event
