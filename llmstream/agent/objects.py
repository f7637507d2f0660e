"""The final answer of a run as a value of a type: growing over its steps, then validated."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from llmstream.chats.message import Message
from llmstream.errors import InvalidOutput
from llmstream.events import StepFinish, StepStart, StreamStart
from llmstream.streams.objects import CUT_SHORT, Elements, final_object, repair_words
from llmstream.structured import Structured
from llmstream.structured.growth import Growth

if TYPE_CHECKING:
    from llmstream.agent.run import AgentRun

__all__ = ["final_value", "run_objects"]


async def run_objects(
    run: AgentRun, output: Structured | None, repair: int, *, quiet: bool
) -> AsyncGenerator[Any]:
    """What `AgentRun.objects` gives.

    quiet: whether an answer that does not fit is only said by `AgentRun.object`
    """
    elements = Elements(output)
    growth, places = Growth(output), itertools.count()
    shown: Any = None
    async with aclosing(run._events()) as events:
        async for event in events:
            match event:
                case StepStart():
                    growth.feed(StreamStart())
                    places = itertools.count()
                case StepFinish(finish_reason=reason) if repair > 0 and not run.message.tool_calls:
                    repair -= _asked_again(run, output, reason)
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


def final_value(run: AgentRun, output: Structured | None) -> Any:
    """The value that the last message of a run says.

    raises: InvalidOutput, with the message in `partial`
    """
    message = run.steps[-1].message if run.steps else run.message
    try:
        return final_object(message, run.finish_reason, output)
    except InvalidOutput as error:
        error.partial, error.usage = message, run.usage
        raise


def _asked_again(run: AgentRun, output: Structured | None, reason: str) -> int:
    """Tells the model what is wrong with its answer, if anything is; how many rounds that takes."""
    if reason in CUT_SHORT:
        return 0
    try:
        final_object(run.message, reason, output)
    except InvalidOutput as error:
        run.send(Message.user(repair_words(error)))
        return 1
    return 0
