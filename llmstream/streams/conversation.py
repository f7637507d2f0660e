"""The conversation that a stream belongs to: its messages, and the options that hold for every turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from llmstream.accumulate import Accumulator
from llmstream.chats.copying import LateCopies
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest
from llmstream.request import Request
from llmstream.streams.history import Growing, Repairs
from llmstream.streams.options import Options, make_request, tool_set, with_system

if TYPE_CHECKING:
    from llmstream.chats.content import ToolCall
    from llmstream.structured import Structured
    from llmstream.tools import CallRunner, ToolContext
    from llmstream.transport.deadlines import Deadlines

__all__ = ["Conversation"]


class Conversation:
    """What is said and wanted; each turn is one request of it.

    messages: its own from now on, so copies of a caller's
    repairs:  of the run whose history this is; else it has its own
    output:   what says of which type the answers are to be, or None
    deadline: when all of it has to be over, in loop time; None where it need not, or has not begun
    """

    def __init__(self, messages: Sequence[Message], options: Options, repairs: Repairs | None = None) -> None:
        self.messages = with_system(options.get("system"), messages)
        given: dict[str, Any] = {k: v for k, v in options.items() if k != "system"}
        self.options = cast(Options, given)
        self.output = _as_structured(options.get("response_format"))
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

    def expect(self, output_type: Any, *, asked: bool) -> None:
        """Takes a type for the answer that was not named before; asks for it unless it is too late."""
        given = _as_structured(output_type)
        if self.output is not None and given is not None and self.output.type != given.type:
            raise InvalidRequest(f"the answer was asked for as {self.output.type!r}, not {given.type!r}")
        if self.output is None:
            self.output = given
            if self.options.get("response_format") is None and not asked:
                self.options["response_format"] = given
                self._first = None  # it does not ask for it

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


def _as_structured(value: Any) -> Structured | None:
    """What says of which type the answer is to be; None where nothing does."""
    if value is None:
        return None
    from llmstream.structured import as_structured  # loaded by those who ask for a type

    return as_structured(value)
