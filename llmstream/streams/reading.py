"""Reading of streams and runs: one event at a time, as text, or as values of a type.

`EventStream` and `AgentRun` provide the events and their end; the code they share is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias

import msgspec

from llmstream.chats.content import Text, own_values
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
    "length": "The answer was cut off by max_output_tokens before it was complete.",
    "content-filter": "The answer was withheld by the vendor's content filter.",
}
# The longest answer to send back for repair: about the maximum output of the largest models.
_MAX_REPAIRED_CHARS: Final = 512 * 1024

# Events before one of these are not part of the answer: they belong to a void attempt or an earlier step.
_RESTARTING_EVENTS: Final = (RetryNotice, StepStart)

Read: TypeAlias = Callable[[], AsyncGenerator[Event]]
"""Starts reading the remaining events; refuses a second reader."""


class Handle(Protocol):
    """An `EventStream` or an `AgentRun`."""

    @property
    def error(self) -> LLMStreamError | None:
        """Why it failed, or None."""

    @property
    def object(self) -> Any:
        """The validated value, once it is over."""


class Reading:
    """Implements `next` of a handle. It references the events, so that the handle can be collected.

    name:     name of the handle, for errors
    stepping: whether a task waits in `next`
    events:   the events being read; None before the first `next`
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.stepping = False
        self.events: AsyncGenerator[Event] | None = None

    async def next(self, read: Read) -> bool:
        """Reads the next event; False when there is none.

        raises: InvalidRequest while another task reads
        """
        if self.stepping:
            raise InvalidRequest(
                f"this {self._name} is being read by another task. Use one reader at a time."
            )
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
    """Yields the text deltas of the events; closing it closes the events too."""
    async with aclosing(read()) as events:
        async for event in events:
            if type(event) is TextDelta:
                yield event.delta


def required_output(output: Output | None) -> Output:
    """The output, which must be given.

    raises: InvalidRequest without one
    """
    if output is None:
        raise InvalidRequest(
            "objects() and object need the type of the answer. "
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
    """Yields the answer as a growing value; see `EventStream.objects`.

    waits:     whether the handle, once read, has no answer yet because tool calls or approvals are pending
    ask_again: requests a repair, so that more events follow; returns False if no repair is possible
    quiet:     whether an answer that does not fit is only reported by `object`
    """
    from llmstream.structured.growth import Growth  # imported only for structured output

    elements = _Elements(output)
    shown: Any = msgspec.UNSET
    while True:
        growth, count = Growth(output), 0
        async with aclosing(read()) as events:
            async for event in events:
                if growth.turn_due():
                    await asyncio.sleep(0)
                if isinstance(event, _RESTARTING_EVENTS):
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
        # The last growing value may equal the final one, which is then not yielded twice; 1 and True are
        # equal too.
        elif type(shown) is not type(final) or shown != final:
            yield final
        return


class _Elements:
    """The elements of a list, set or open tuple that were yielded: each only once, even after a repair.

    wanted: whether the answer is yielded by elements
    """

    def __init__(self, output: Output) -> None:
        self.wanted = output.item_type is not None
        self._is_set = output.is_set
        self._by_place: list[Any] = []
        self._by_value: set[Any] = set()

    def is_new(self, value: Any, index: int) -> bool:
        """Whether an element was not yielded yet: at its index, or in a set at all."""
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
        # An unhashable value cannot be an element of a set; validating the final value reports it.
        if not isinstance(value, Hashable) or value in self._by_value:
            return False
        self._by_value.add(value)
        return True


def final_object(message: Message, reason: str | None, output: Output) -> Any:
    """The value in a complete message.

    reason: why the model ended
    raises: InvalidOutput
    """
    # An answer given through a tool call is marked; other text is not part of it.
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
    """Whether an answer is short enough to be sent back for repair."""
    return sum(len(part.text) for part in message.parts if isinstance(part, Text)) <= _MAX_REPAIRED_CHARS


def repair_message(error: InvalidOutput) -> Message:
    """The user message that requests a repaired answer."""
    return Message.user(f"{error.message} Give the complete, corrected answer and nothing else.")


def _is_answer(part: Text) -> bool:
    from llmstream.structured import ANSWER_KEY  # imported only for structured output

    return ANSWER_KEY in own_values(part.metadata)


class AsyncOnly:
    """Refuses `await`, `for` and `with`, with an error that shows the correct form.

    Type checkers do not see these methods, so they still report such code.
    """

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            raise TypeError(
                f"{_kind(self)} cannot be awaited: read it with `async for`, or await its `collect()` for "
                "the complete answer."
            )

        def __iter__(self) -> NoReturn:
            raise TypeError(
                f"{_kind(self)} must be read with `async for`, in an `async def`; "
                "`asyncio.run(main())` runs that from other code."
            )

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{_kind(self)} must be entered with `async with`, in an `async def`.")

        def __exit__(self, *_: object) -> None:
            """Never called; without it Python's own error would replace the one of `__enter__`."""


def is_stream(value: object) -> bool:
    """Whether it is a stream or run, which cannot be iterated synchronously."""
    return isinstance(value, AsyncOnly)


def require_asyncio() -> asyncio.Task[Any] | None:
    """The running task.

    raises: RuntimeError without a running asyncio event loop
    """
    try:
        return asyncio.current_task()
    except RuntimeError:
        raise RuntimeError(
            "llmstream requires asyncio, and no asyncio event loop is running here. Start the "
            'program with asyncio.run(main()); with anyio choose backend="asyncio". trio is not supported.'
        ) from None


def _kind(value: object) -> str:
    return f"an {type(value).__name__}"
