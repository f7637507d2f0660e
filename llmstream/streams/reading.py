"""How the events of a stream or of a run are read: one by one, as text, or as values of a type.

`EventStream` and `AgentRun` give their events and say when they are over; the rest of their reading is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias

import msgspec

from llmstream.chats.content import Text
from llmstream.chats.message import Message
from llmstream.errors import InvalidOutput, InvalidRequest, LLMStreamError
from llmstream.events import Event, RetryNotice, StepStart, TextDelta

if TYPE_CHECKING:
    from llmstream.structured import Output

__all__ = [
    "CUT_SHORT",
    "AsyncOnly",
    "Handle",
    "Reading",
    "final_object",
    "growing_objects",
    "is_stream",
    "may_be_repaired",
    "repair_message",
    "require_asyncio",
    "required_output",
    "text_deltas",
]

CUT_SHORT: Final = {
    "length": "The answer was cut off by max_output_tokens before it was whole.",
    "content-filter": "The answer was withheld by the vendor's content filter.",
}
_REPAIRED_CHARS: Final = 512 * 1024
"""The longest answer that is sent back: about what the largest models can write at a time."""

_BEGINS_ANEW: Final = (RetryNotice, StepStart)
"""What came before one of these is no part of the answer: it is void, or belongs to an earlier step."""

Read: TypeAlias = Callable[[], AsyncGenerator[Event]]
"""Begins to read the events that are still to come; refuses a second reader."""


class Handle(Protocol):
    """What is read: an `EventStream` or an `AgentRun`."""

    @property
    def error(self) -> LLMStreamError | None:
        """Why it failed, or None."""

    @property
    def object(self) -> Any:
        """The validated value, once it is over."""


class Reading:
    """Reads a handle one event at a time, for `next`. It holds the events, never the handle.

    name:     of the handle, for errors
    stepping: a task waits in `next`
    events:   what it reads; None while nothing was asked for
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.stepping = False
        self.events: AsyncGenerator[Event] | None = None

    async def next(self, read: Read) -> bool:
        """Goes on to the next event; False when there is none.

        raises: InvalidRequest while another task reads
        """
        if self.stepping:
            raise InvalidRequest(f"this {self._name} is being read by another task. One reader at a time.")
        if self.events is None:
            self.events = read()
        self.stepping = True
        try:
            await anext(self.events)
        except StopAsyncIteration:
            self.events = None
            return False
        finally:
            self.stepping = False
        return True


async def text_deltas(read: Read) -> AsyncGenerator[str]:
    """The fragments of text among the events; leaving it leaves them."""
    async with aclosing(read()) as events:
        async for event in events:
            if type(event) is TextDelta:
                yield event.delta


def required_output(output: Output | None) -> Output:
    """What the answer is to be.

    raises: InvalidRequest where no form was asked for
    """
    if output is None:
        raise InvalidRequest(
            "objects() and object need to know what the answer is to be. "
            'Pass output=T for a type, output="json" or a JSON schema.'
        )
    return output


async def growing_objects(
    handle: Handle,
    read: Read,
    output: Output,
    *,
    waits: Callable[[], bool],
    ask_again: Callable[[InvalidOutput], bool],
    quiet: bool,
) -> AsyncGenerator[Any]:
    """The answer as a value that grows; see `EventStream.objects`.

    waits:     whether the handle, once read, has no answer yet: calls or decisions are pending
    ask_again: shows the model what is wrong with its answer, so that more events follow; False where that
               is not to be done
    quiet:     whether an answer that does not fit is only reported by `object`
    """
    from llmstream.structured.growth import Growth  # loaded by those who ask for values

    elements = _Elements(output)
    shown: Any = msgspec.UNSET
    while True:
        growth, count = Growth(output), 0
        async with aclosing(read()) as events:
            async for event in events:
                if growth.turn_due():
                    await asyncio.sleep(0)
                if isinstance(event, _BEGINS_ANEW):
                    growth, count = Growth(output), 0
                for value in growth.feed(event):
                    if not elements.wanted:
                        yield (shown := value)
                    elif elements.is_new(value, count):
                        yield value
                    count += 1
        if handle.error is not None or waits():
            return
        try:
            final = handle.object
        except InvalidOutput as error:
            if ask_again(error):
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


class _Elements:
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
    """The value that a complete message holds.

    reason: why the model ended
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


def repair_message(error: InvalidOutput) -> Message:
    """The user message that asks for an answer that fits."""
    return Message.user(f"{error.message} Give the whole answer again, mended, and nothing else.")


def _is_answer(part: Text) -> bool:
    from llmstream.structured import ANSWER_KEY  # loaded by those who ask for values

    return ANSWER_KEY in (part.metadata or {}).get("llmstream", {})


class AsyncOnly:
    """Refuses `await`, `for` and `with`, with an error that names what to write instead.

    A type checker does not see these methods, so that it goes on refusing such code itself.
    """

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            raise TypeError(
                f"{_kind(self)} is not awaited itself: read it with `async for`, or write "
                "`message = await stream.collect()` for the whole answer."
            )

        def __iter__(self) -> NoReturn:
            raise TypeError(
                f"{_kind(self)} is read with `async for`, in an `async def`; "
                "`asyncio.run(main())` runs that from other code."
            )

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{_kind(self)} is entered with `async with`, in an `async def`.")

        def __exit__(self, *_: object) -> None:
            """Never called; without it Python would speak of the protocol in place of the remedy."""


def is_stream(value: object) -> bool:
    """Whether it is one of those, which only look as if they could be iterated."""
    return isinstance(value, AsyncOnly)


def require_asyncio() -> asyncio.Task[Any] | None:
    """The running task.

    raises: RuntimeError where no event loop of asyncio runs
    """
    try:
        return asyncio.current_task()
    except RuntimeError:
        raise RuntimeError(
            "llmstream runs on asyncio only, and no event loop of asyncio is running here. Start the "
            'program with asyncio.run(main()); with anyio choose backend="asyncio". trio is not supported.'
        ) from None


def _kind(value: object) -> str:
    return f"an {type(value).__name__}"
