"""The answer as a value of a type: growing, then validated, and mended by the model where it does not fit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from llmstream.chats.content import Text
from llmstream.chats.message import Message
from llmstream.errors import InvalidOutput
from llmstream.events import Event, RetryNotice
from llmstream.structured import ANSWER_KEY, Output
from llmstream.structured.growth import Growth

if TYPE_CHECKING:
    from llmstream.streams.event_stream import EventStream

__all__ = ["CUT_SHORT", "Elements", "final_object", "growing_objects", "may_be_repaired", "repair_words"]

CUT_SHORT = {
    "length": "The answer was cut off by max_output_tokens before it was whole.",
    "content-filter": "The answer was withheld by the vendor's content filter.",
}
_REPAIRED_CHARS: Final = 512 * 1024
"""The longest answer that is sent back: about what the largest models can write at a time."""


async def growing_objects(
    stream: EventStream[Any],
    read: Callable[[], AsyncGenerator[Event]],
    output: Output,
    next_turn: Callable[[Message], None],
    *,
    quiet: bool,
) -> AsyncGenerator[Any]:
    """What `EventStream.objects` gives.

    read:      the events that are still to come; none of a response that was read
    next_turn: adds a message to the conversation, so that the stream goes on with another response
    quiet:     whether an answer that does not fit is only said by `EventStream.object`
    """
    elements, repair = Elements(output), output.repair
    shown: Any = msgspec.UNSET
    while True:
        growth, count = Growth(output), 0
        events = read()
        try:
            async for event in events:
                if growth.turn_due():
                    await asyncio.sleep(0)
                if isinstance(event, RetryNotice):  # what came before it is void
                    growth, count = Growth(output), 0
                for value in growth.feed(event):
                    if not elements.wanted:
                        yield (shown := value)
                    elif elements.is_new(value, count):
                        yield value
                    count += 1
        finally:
            await events.aclose()
        if stream.error is not None or stream.pending_calls:
            return
        try:
            final = stream.object
        except InvalidOutput as error:
            reason = stream.finish_reason
            if repair > 0 and reason not in (None, *CUT_SHORT) and may_be_repaired(stream.message):
                repair -= 1
                next_turn(Message.user(repair_words(error)))
                continue
            if quiet:
                return
            raise
        if elements.wanted:
            for index, value in enumerate(final):
                if elements.is_new(value, index):
                    yield value
        elif type(shown) is not type(final) or shown != final:
            yield final
        return


class Elements:
    """Which elements of a list, set or open tuple have been given: each is once, also after a repair.

    wanted: whether the answer is given by its elements
    """

    def __init__(self, output: Output) -> None:
        self.wanted = output.item_type is not None
        self._is_set = output.is_set
        self._by_place: list[Any] = []
        self._by_value: set[Any] = set()

    def is_new(self, value: Any, index: int) -> bool:
        """Whether an element was not given yet: at its place, or at all where there are no places."""
        return self._is_new_value(value) if self._is_set else self._is_new_at(value, index)

    def _is_new_at(self, value: Any, index: int) -> bool:
        given = self._by_place
        if index < len(given):
            if given[index] == value:
                return False
            given[index] = value
        else:
            given.append(value)
        return True

    def _is_new_value(self, value: Any) -> bool:
        if not isinstance(value, Hashable) or value in self._by_value:
            return False
        self._by_value.add(value)
        return True


def final_object(message: Message, reason: str | None, output: Output) -> Any:
    """The value that a whole message says.

    raises: InvalidOutput
    """
    marked = [p for p in message.parts if isinstance(p, Text) and _is_answer(p)]
    text = marked[0].text if marked else "".join(p.text for p in message.parts if isinstance(p, Text))
    try:
        return output.read(text)
    except InvalidOutput as error:
        raised = error
    if reason in CUT_SHORT:
        raised = InvalidOutput(CUT_SHORT[reason], reason=reason)
    raise raised from None


def may_be_repaired(message: Message) -> bool:
    """Whether an answer is short enough to go back to the model, which has to write it again."""
    return sum(len(part.text) for part in message.parts if isinstance(part, Text)) <= _REPAIRED_CHARS


def repair_words(error: InvalidOutput) -> str:
    """What the model is told of an answer that does not fit."""
    return f"{error.message} Give the whole answer again, mended, and nothing else."


def _is_answer(part: Text) -> bool:
    return ANSWER_KEY in (part.metadata or {}).get("llmstream", {})
