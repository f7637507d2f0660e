"""The conversation of a stream, its turns, and its continuation by another model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from llmstream.accumulate.accumulator import Accumulator
from llmstream.accumulate.blocks import merge_metadata
from llmstream.chats.content import OWN_KEY, Text
from llmstream.chats.message import LateCopies, Message, Role, copy_messages
from llmstream.errors import InvalidRequest
from llmstream.events import Event, OtherWarning, StreamStart, TextStart
from llmstream.request import Request
from llmstream.streams.history import Repairs
from llmstream.streams.options import (
    Options,
    StreamOptions,
    asked_settings,
    checked_chat,
    make_request,
    tool_set,
    with_defaults,
    with_system,
)

if TYPE_CHECKING:
    from llmstream.chats.chat import Chat, ChatTurn
    from llmstream.chats.content import ToolCall
    from llmstream.streams.call import CallingModel
    from llmstream.structured import Output
    from llmstream.tools import CallRunner, ToolContext
    from llmstream.transport.deadlines import Deadlines

__all__ = ["CONTINUE_NOTE", "Batch", "ContinuationMarks", "Conversation", "Turn", "to_continue"]

CONTINUE_NOTE: Final = (
    "Your last message was cut off. Go on exactly where it ends: begin with the next character, repeat "
    "nothing of it, and say nothing about the interruption."
)
"""The user message for models that do not accept a prefix of their own answer."""


class Conversation:
    """The messages and options of a stream; each turn is one request.

    messages: owned by the conversation; the caller's are copied first
    options:  of the stream; those of the model are its defaults
    chat:     precedes the messages; receives them and later ones; None without one
    repairs:  of the run that owns this history; otherwise new
    output:   the type of the answers, or None
    deadline: loop time of the total deadline; None without one, or before the start
    """

    def __init__(
        self,
        messages: Sequence[Message],
        options: Options,
        model: CallingModel,
        *,
        repairs: Repairs | None = None,
        chat: Chat | None = None,
    ) -> None:
        defaults = model.options
        self._prompt = messages
        self._chat_turn: ChatTurn | None = None
        if chat is not None:
            messages = [*checked_chat(chat).messages(), *messages]
        self._inherited = tuple(defaults.keys() - options.keys()) if defaults else ()
        options = with_defaults(defaults, options)
        if chat is not None:
            asked = asked_settings(options)
            self._chat_turn = chat.turn(f"{model.provider.name}:{model.name}", asked)
        self.messages = with_system(options.get("instructions"), messages)
        given: dict[str, Any] = dict(options)
        given.pop("instructions", None)
        self.options = cast(Options, given)
        self.output = _as_output(options.get("output"))
        if self.output is not None:
            given["output"] = self.output
        if "tools" in given:
            given["tools"] = tool_set(given["tools"])
        self.deadline: float | None = None
        self._repairs = repairs or Repairs()
        self._turn_number = -1
        self._first: Request | None = None

    def check(self, model: str, *, answered: bool) -> None:
        """Creates the first request early, so that invalid options fail at once.

        raises: as `request`
        """
        self._first = self.request(model, answered=answered)

    def request(self, model: str, *, answered: bool) -> Request:
        """The next request.

        answered: the answer already exists and is only read
        raises:   CallerError for invalid options
        """
        first, self._first = self._first, None
        if first is None:
            # Reuses the repairs of earlier requests: a long run does not examine its history again at each
            # step.
            first = make_request(
                model, self.messages, self.options, answered=answered, listed=self._repairs.growing
            )
            self._repairs.begin()
        return first

    def begin(self) -> None:
        """Adds the prompt to the chat, before anything is sent.

        raises: what the chat raises; it ends the stream
        """
        if self._chat_turn is not None:
            self._chat_turn.begin(self._prompt)

    def feed(self, batch: Sequence[Event]) -> None:
        """Passes events to the chat before the reader gets them."""
        if self._chat_turn is not None:
            self._chat_turn.feed(batch)

    def add(self, messages: Sequence[Message]) -> None:
        """Adds messages at the end; without any, only records a response without content."""
        self.messages += messages
        if self._chat_turn is not None:
            self._chat_turn.add(messages)

    def own_options(self) -> Options:
        """The options of the stream, without the defaults that come from its model."""
        own = {name: value for name, value in self.options.items() if name not in self._inherited}
        return cast(Options, own)

    def continued(
        self, model: CallingModel, options: StreamOptions, *, note: str | None
    ) -> tuple[list[Message], Options]:
        """Messages and options of a request in which another model continues the last answer.

        note:   as in `to_continue`; None asks the question again
        raises: InvalidRequest for an answer with an output type
        """
        given = cast(Options, {**self.own_options(), **options})
        if given.get("output") is not None:
            raise InvalidRequest(
                "continue_with() does not support structured output. Start a new request instead."
            )
        messages = self.messages if note is None else to_continue(self.messages, model, given, note=note)
        return copy_messages(messages), given

    @property
    def has_chat(self) -> bool:
        """Whether a chat receives the messages as they come."""
        return self._chat_turn is not None

    @property
    def quiet(self) -> bool:
        """Whether errors are only reported as events."""
        return self.options.get("errors") == "events"

    def next_turn(self, current: Event | None = None) -> Turn:
        """The next response, not yet read.

        current: the last event read
        """
        self._turn_number += 1
        given = tool_set(self.options.get("tools"))
        if not given:
            return Turn(current=current)
        tools = given.current()
        # Tools may change during a run: a turn uses those offered in its request.
        fold = Accumulator(tools=tools)
        eager = fold.runner(context=self.tool_context) if tools.eager else None
        return Turn(fold, eager, current=current)

    def limit(self, deadlines: Deadlines, started: float) -> None:
        """Sets the total deadline: that of the options, else the model's.

        started: in loop time
        """
        total_s = (self.options.get("deadlines") or deadlines).total_s
        self.deadline = None if total_s is None else started + total_s

    def tool_context(self, call: ToolCall) -> ToolContext:
        """The context that a tool receives."""
        from llmstream.tools import ToolContext  # imported only for tools

        return ToolContext(call.id, call.name, self._turn_number, LateCopies(self.messages), self.deadline)


class Turn:
    """One response of a conversation, up to the reader's position.

    Events are accumulated at the end of a batch, or when a view needs them: batches are cheaper.

    eager: runs the calls of eager tools; None without such tools
    batch: the latest events
    seen:  how many of them were read; the reading loop sets it
    """

    __slots__ = ("_current", "_fold", "_folded", "_message", "batch", "eager", "seen")

    def __init__(
        self,
        fold: Accumulator | None = None,
        eager: CallRunner | None = None,
        *,
        current: Event | None = None,
    ) -> None:
        self.eager = eager
        self.batch: list[Event] = []
        self.seen = 0
        self._folded = 0  # number of accumulated events of the batch
        self._fold = fold
        self._current = current
        self._message: Message | None = None  # the complete message

    @property
    def fold(self) -> Accumulator:
        """Accumulates the events; without tools it is created on first use."""
        if self._fold is None:
            self._fold = Accumulator()
        return self._fold

    @property
    def current(self) -> Event | None:
        """The last event read."""
        return self.batch[self.seen - 1] if self.seen else self._current

    def begin(self, batch: list[Event]) -> None:
        """Sets the next batch; calls of eager tools in it start at once."""
        self.batch, self.seen, self._folded = batch, 0, 0
        if self.eager is not None:
            self.eager.see(batch)

    def read(self, events: Sequence[Event], start: int = 0) -> Iterator[Event]:
        """Yields events of the batch from a position on, and counts them as seen."""
        for self.seen, event in enumerate(events, start + 1):
            yield event

    def catch_up(self) -> bool:
        """Accumulates the events that were read since the last call; whether they completed the message."""
        if self._folded == self.seen:
            return False
        batch = self.batch
        # A reader may access a view, or stop, in the middle of a batch: accumulate only the events it has
        # read.
        self.fold.feed_many(batch[self._folded : self.seen] if len(batch) > 1 else batch)
        self._folded = self.seen
        before, self._message = self._message, self.fold.message
        return self._message is not None and self._message is not before

    def let_go(self) -> None:
        """Drops a batch that was read and accumulated, so that the next one can reuse its memory."""
        self._current = self.current
        self.batch, self.seen, self._folded = [], 0, 0


class Batch(msgspec.Struct, frozen=True):
    """Events that follow each other, for a reader that yields them one by one.

    turn:  of the response that they belong to; None for events that belong to none
    start: their position among the events of the turn's batch
    """

    events: Sequence[Event]
    turn: Turn | None = None
    start: int = 0

    def part(self, start: int, end: int) -> Batch:
        """Returns some of the events."""
        return Batch(self.events[start:end], self.turn, self.start + start)

    def read(self) -> Iterator[Event]:
        """Yields the events; at each, the views of the response end with it."""
        return iter(self.events) if self.turn is None else self.turn.read(self.events, self.start)


def _as_output(value: Any) -> Output | None:
    if value is None:
        return None
    from llmstream.structured import as_output  # imported only for structured output

    return as_output(value)


def to_continue(
    messages: Sequence[Message], model: CallingModel, options: Options, *, note: str
) -> list[Message]:
    """The conversation that requests the rest of its last answer.

    Only the text of that answer is included: ids, signatures and reasoning belong to the interrupted model.

    model, options: of the request for the rest
    note:           the user message for a model that does not continue an answer at the end of its input
    """
    takes_prefix = model.provider.dialect.takes_prefix(make_request(model.name, messages, options))
    if not messages or messages[-1].role != Role.ASSISTANT:
        return list(messages)
    *before, last = messages
    # A call without a result, or another vendor's signature, would make the request invalid.
    begun = Message(last.sender, last.role, (Text(last.text),))
    return [*before, begun] if takes_prefix else [*before, begun, Message.user(note)]


class ContinuationMarks:
    """Marks the events of an answer that continues another.

    The first event has a warning; the first text has `{"llmstream": {"continues": MODEL}}`, which
    becomes the metadata of its part.

    model:  "provider:model" of the interrupted answer
    code:   of the error that interrupted it, or "left"
    length: characters of its text; 0 means that the question is sent again
    """

    def __init__(self, model: str, code: str, length: int) -> None:
        self._model = model
        self._length = length
        self._text = (
            f"this continues an answer of {model}, which was interrupted ({code}) after {length} characters"
            if length
            else f"this is a new answer: that of {model} was interrupted ({code}) before any text"
        )
        self._done = False

    def mark(self, events: list[Event]) -> list[Event]:
        """The same events, with the marks that were not yet set."""
        if self._done:
            return events
        return [event if self._done else self._marked(event) for event in events]

    def _marked(self, event: Event) -> Event:
        match event:
            case StreamStart(warnings):
                # An answer without text is a new one: no text of it continues another.
                self._done = not self._length
                return StreamStart([OtherWarning(self._text), *warnings])
            case TextStart():
                self._done = True
                mark = {OWN_KEY: {"continues": self._model}}
                metadata = merge_metadata(event.provider_metadata, mark)
                return msgspec.structs.replace(event, provider_metadata=metadata)
            case _:
                return event
