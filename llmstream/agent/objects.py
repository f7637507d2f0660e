"""The final answer of a run as a value of a type: growing over its steps, then validated."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from llmstream.chats.message import Message
from llmstream.errors import InvalidOutput
from llmstream.events import StepStart, StreamStart
from llmstream.streams.objects import Elements, final_object, may_be_repaired
from llmstream.structured import Output
from llmstream.structured.growth import Growth

if TYPE_CHECKING:
    from llmstream.agent.run import AgentRun

__all__ = ["final_value", "invalid_answer", "run_objects"]


async def run_objects(run: AgentRun, output: Output, *, quiet: bool) -> AsyncGenerator[Any]:
    """What `AgentRun.objects` gives.

    quiet: whether an answer that does not fit is only said by `AgentRun.object`
    """
    elements = Elements(output)
    growth, places = Growth(output), itertools.count()
    shown: Any = None
    async with aclosing(run._events()) as events:
        async for event in events:
            if growth.turn_due():
                await asyncio.sleep(0)
            match event:
                case StepStart():
                    growth.feed(StreamStart())
                    places = itertools.count()
                case _:
                    for value in growth.feed(event):
                        if not elements.wanted:
                            yield (shown := value)
                        elif elements.is_new(value, next(places)):
                            yield value
    if run.error is not None or run.suspended is not None:
        return
    try:
        final = final_value(run, output)
    except InvalidOutput:
        if quiet:
            return
        raise
    if elements.wanted:
        for index, value in enumerate(final):
            if elements.is_new(value, index):
                yield value
    elif type(shown) is not type(final) or shown != final:
        yield final


def final_value(run: AgentRun, output: Output) -> Any:
    """The value that the last message of a run says.

    raises: InvalidOutput, with the message in `partial`
    """
    message = run.steps[-1].message if run.steps else run.message
    try:
        return final_object(message, run.finish_reason, output)
    except InvalidOutput as error:
        error.partial, error.usage = message, run.usage
        raise


def invalid_answer(message: Message, reason: str, output: Output) -> InvalidOutput | None:
    """What is wrong with an answer that is to be a value; None where nothing is, or it is past repair."""
    if not may_be_repaired(message):
        return None
    try:
        final_object(message, reason, output)
    except InvalidOutput as error:
        return error
    return None
