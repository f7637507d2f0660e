"""What a middleware is given to ask with, and the answer that it gets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeAlias

import msgspec

from llmstream.errors import LLMStreamError
from llmstream.events import Event
from llmstream.exchange import carries_secret
from llmstream.request import Request
from llmstream.streams.call import Call
from llmstream.streams.model import Model
from llmstream.streams.options import Options

__all__ = ["Ask", "Middleware", "Reply"]


class Reply:
    """One answer, for the middleware around it: a whole sentence, whatever happens.

    Iterated once, by one reader. Where the answer failed, the error is raised after `finish`.
    What is not read to its end is left by `aclose()`, at the latest when the call is over.
    """

    def __init__(self, call: Call, model: Model) -> None:
        self.call = call
        self._model = model
        self._batch: Iterator[Event] = iter(())
        self._told = False

    def __aiter__(self) -> Reply:
        return self

    async def __anext__(self) -> Event:
        while True:
            for event in self._batch:
                return event
            batch = await self.call.next()
            if not batch:
                break
            self._batch = iter(batch)
        if self.call.error is not None and not self._told:
            self._told = True
            raise self.call.error
        raise StopAsyncIteration

    @property
    def answered_by(self) -> str:
        """ "provider:model" of who answers."""
        return self.call.answered_by or f"{self._model.provider.name}:{self._model.name}"

    @property
    def error(self) -> LLMStreamError | None:
        """Why the answer failed; None where it did not, or has not yet."""
        return self.call.error

    async def aclose(self) -> None:
        """Leaves the answer: its socket closes now. May be called again."""
        self._batch = iter(())
        self._told = True
        await self.call.aclose()


class Ask:
    """Asks on: `ask(request)` the model that is wrapped, `ask(request, other)` another one.

    Options and the total deadline are those of the call, however often it asks.

    model: the model that is wrapped
    """

    def __init__(self, model: Model, options: Options | None, started: float | None) -> None:
        self.model = model
        self.replies: list[Reply] = []
        self._options = options
        self._started = started

    def __call__(self, request: Request, model: Model | None = None) -> Reply:
        """The answer; nothing is sent before it is read.

        Another model gets its own name in the request, and none of the headers that carry a credential.
        """
        asked = self.model
        if model is not None:
            headers = {k: v for k, v in request.headers.items() if not carries_secret(k)}
            asked, request = model, msgspec.structs.replace(request, model=model.name, headers=headers)
        reply = Reply(asked.call(request, self._options, started=self._started), asked)
        self.replies.append(reply)
        return reply


Middleware: TypeAlias = Callable[[Request, Ask], AsyncIterator[Event]]
"""An async generator function: given a request and a way to ask on, it yields the events of the answer."""
