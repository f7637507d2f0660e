"""The answer as a value of a type: growing, then validated, and mended by the model where it does not fit."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from llmstream.chats.content import Text
from llmstream.chats.message import Message
from llmstream.errors import InvalidOutput
from llmstream.events import Retry
from llmstream.structured import ANSWER_KEY, Structured
from llmstream.structured.growth import Growth

if TYPE_CHECKING:
    from llmstream.streams.event_stream import EventStream

__all__ = ["CUT_SHORT", "final_object", "growing_objects", "is_new", "repair_words"]

CUT_SHORT = {
    "length": "The answer was cut off by max_output_tokens before it was whole.",
    "content-filter": "The answer was withheld by the vendor's content filter.",
}
_UNTYPED = msgspec.json.Decoder()


async def growing_objects(
    stream: EventStream,
    output: Structured | None,
    repair: int,
    next_turn: Callable[[Message], None],
    *,
    quiet: bool,
) -> AsyncGenerator[Any]:
    """What `EventStream.objects` gives.

    next_turn: adds a message to the conversation, so that the stream goes on with another response
    quiet:     whether an answer that does not fit is only said by `EventStream.object`
    """
    items: list[Any] = []  # of a list, what has been given
    by_item = output is not None and output.item_type is not None
    shown: Any = msgspec.UNSET
    while True:
        growth, count = Growth(output), 0
        events = aiter(stream)
        try:
            async for event in events:
                if isinstance(event, Retry):  # what came before it is void
                    growth, count = Growth(output), 0
                for value in growth.feed(event):
                    if not by_item:
                        yield (shown := value)
                    elif is_new(value, items, count):
                        yield value
                    count += 1
        finally:
            await events.aclose()
        if stream.error is not None or stream.pending_calls:
            return
        try:
            final = stream.object
        except InvalidOutput as error:
            if repair > 0 and stream.finish_reason not in (None, *CUT_SHORT):
                repair -= 1
                next_turn(Message.user(repair_words(error)))
                continue
            if quiet:
                return
            raise
        if by_item:
            for index, value in enumerate(final):
                if is_new(value, items, index):
                    yield value
        elif type(shown) is not type(final) or shown != final:
            yield final
        return


def is_new(value: Any, items: list[Any], index: int) -> bool:
    """Whether an element was not given yet, at its place; after a repair the answer begins again."""
    if index < len(items):
        if items[index] == value:
            return False
        items[index] = value
    else:
        items.append(value)
    return True


def final_object(message: Message, reason: str | None, output: Structured | None) -> Any:
    """The value that a whole message says.

    raises: InvalidOutput
    """
    marked = [p for p in message.parts if isinstance(p, Text) and _is_answer(p)]
    text = marked[0].text if marked else "".join(p.text for p in message.parts if isinstance(p, Text))
    try:
        if output is not None:
            return output.read(text)
        return _UNTYPED.decode(text)
    except msgspec.DecodeError as error:
        raised = InvalidOutput(f"The answer is not JSON: {error}.", reason="json")
    except InvalidOutput as error:
        raised = error
    if reason in CUT_SHORT:
        raised = InvalidOutput(CUT_SHORT[reason], reason=reason)
    raise raised from None


def repair_words(error: InvalidOutput) -> str:
    """What the model is told of an answer that does not fit."""
    return f"{error.message} Give the whole answer again, mended, and nothing else."


def _is_answer(part: Text) -> bool:
    return ANSWER_KEY in (part.metadata or {}).get("llmstream", {})
