"""Makes a model of a model and its middleware."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeAlias, TypeVar, overload

import msgspec

from llmstream.chats.content import Part
from llmstream.chats.message import Message
from llmstream.dialects.base import Position
from llmstream.errors import IncompleteStream, InvalidRequest, LLMStreamError, error_from_info
from llmstream.events import Event, Finish, StreamStart, Usage
from llmstream.exchange import carries_secret
from llmstream.grammar import Guard
from llmstream.request import Request
from llmstream.streams.call import Call
from llmstream.streams.model import Model, Opener
from llmstream.streams.options import Options
from llmstream.transport.deadlines import Due

__all__ = ["Ask", "Middleware", "Reply", "wrap"]


# How a middleware calls models.


class Reply:
    """One answer, for the middleware that requested it: always a complete event sequence.

    Iterated once, by one reader. If the answer failed, the error is raised after `finish`. An answer that is
    not read to its end is closed by `aclose()`, at the latest at the end of the call.
    """

    def __init__(self, call: Call, model: Model) -> None:
        self.call = call
        self._model = model
        self._batch: Iterator[Event] = iter(())
        self._ended = False

    def __aiter__(self) -> Reply:
        return self

    async def __anext__(self) -> Event:
        while True:
            for event in self._batch:
                return event
            batch = await self._next()
            if not batch:
                raise StopAsyncIteration
            self._batch = iter(batch)

    async def batch(self) -> list[Event]:
        """The events that have arrived, at least one; [] after the last. Raises as iteration does."""
        return [*self._batch] or await self._next()

    async def _next(self) -> list[Event]:
        batch = await self.call.next()
        # Raised once: a further read returns the end.
        if not batch and self.call.error is not None and not self._ended:
            self._ended = True
            raise self.call.error
        return batch

    @property
    def answered_by(self) -> str:
        """ "provider:model" of the responding model."""
        return self.call.answered_by or f"{self._model.provider.name}:{self._model.name}"

    @property
    def error(self) -> LLMStreamError | None:
        """Why the answer failed; None without a failure so far."""
        return self.call.error

    async def aclose(self) -> None:
        """Closes the answer and its socket. Idempotent."""
        self._batch = iter(())
        self._ended = True
        await self.call.aclose()


class Ask:
    """Calls models: `ask(request)` the wrapped one, `ask(request, other)` another one.

    Options and the total deadline are those of the call, for any number of requests.

    model:   the wrapped model
    options: of the call
    """

    def __init__(self, model: Model, options: Options | None, started: float | None) -> None:
        self.model = model
        self.options: Options = options or {}
        self.replies: list[Reply] = []
        self._options = options
        self._started = started

    @property
    def due(self) -> Due | None:
        """When the total deadline of the call passes; None without one."""
        limit_s = (self.options.get("deadlines") or self.model.deadlines).total_s
        return (
            None if limit_s is None or self._started is None else (self._started + limit_s, "total", limit_s)
        )

    def __call__(self, request: Request, model: Model | None = None) -> Reply:
        """Creates an answer; nothing is sent before it is read.

        A request to another model gets that model's name, and no headers that carry a credential.
        """
        asked = self.model
        if model is not None:
            # The other model may be another vendor's.
            headers = {k: v for k, v in request.headers.items() if not carries_secret(k)}
            asked, request = model, msgspec.structs.replace(request, model=model.name, headers=headers)
        reply = Reply(asked.call(request, self._options, started=self._started), asked)
        self.replies.append(reply)
        return reply


Middleware: TypeAlias = Callable[[Request, Ask], AsyncIterator[Event]]
"""An async generator function: takes a request and an `Ask`, and yields the events of the answer."""


T = TypeVar("T")


@overload
def wrap(model: str, *middleware: Middleware) -> Model[Message]: ...


@overload
def wrap(model: Model[T], *middleware: Middleware) -> Model[T]: ...


def wrap(model: str | Model[Any], *middleware: Middleware) -> Model[Any]:
    """The model with middleware around it, usable wherever a model is.

    It shares its attributes with the wrapped model, also those that are set later.

    model:      a `Model`, or "provider:model"
    middleware: from the model outwards: events pass the first one first
    """
    wrapped: Model[Any] = model if isinstance(model, Model) else Model(model)
    for each in middleware:
        opener = MiddlewareOpener(each, type(wrapped), wrapped._opener)
        wrapped = wrapped.opened_by(opener, Model)
    return wrapped


class MiddlewareOpener:
    """Opens the calls of a model through a middleware.

    kind, below: class and opener of the wrapped model
    """

    def __init__(self, middleware: Middleware, kind: type[Model], below: Opener | None) -> None:
        self._middleware = middleware
        self._kind = kind
        self._below = below

    def __repr__(self) -> str:
        inner = "" if self._below is None else f"{self._below!r} in "
        return f"{inner}{_name(self._middleware)}"

    def open(self, model: Model, request: Request, options: Options | None, started: float | None) -> Call:
        """A function that creates one call through the middleware."""
        # The model below this middleware: otherwise `ask` would recurse.
        inner = model.opened_by(self._below, self._kind)
        return _MiddlewareCall(inner, self._middleware, request, options, started)


class _MiddlewareCall:
    """The events of a middleware, as a `Call`.

    They must pass the grammar; all answers that the middleware requested are closed with it.
    """

    def __init__(
        self,
        model: Model,
        middleware: Middleware,
        request: Request,
        options: Options | None,
        started: float | None,
    ) -> None:
        self.error: LLMStreamError | None = None
        self.earlier: Position | None = None
        self._given = model, middleware, request, options, started
        self._guard = Guard()
        self._ask: Ask | None = None
        self._events: AsyncIterator[Event] | None = None
        self._usage: Usage | None = None
        self._begun = False
        self._over = False
        self._ended = False  # whether the reader has received the end

    @property
    def usage(self) -> Usage:
        """Tokens reported so far; before finish, those of the last requested answer."""
        if self._usage is not None:
            return self._usage
        reply = self._last_reply
        return reply.call.usage if reply is not None else Usage()

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the last requested answer; none for a cached one."""
        reply = self._last_reply
        return reply.call.headers if reply is not None else {}

    @property
    def answered_by(self) -> str | None:
        """The model that was called last, which is the one that responds."""
        reply = self._last_reply
        return reply.answered_by if reply is not None else None

    @property
    def position(self) -> None:
        """None: events that the middleware buffers or has changed could not be resumed."""
        return None

    async def next(self) -> list[Event]:
        """The next event, with the events that the grammar requires around it; [] at the end."""
        if self._events is None and not self._over:
            self._events = self._generator()
        while not self._over and self._events is not None:
            try:
                event = await anext(self._events)
            except StopAsyncIteration:
                return await self._rest(None)
            except LLMStreamError as error:
                return await self._rest(error)
            except BaseException:
                # Its sockets are closed at once; the generators end with `aclose`.
                self.close()
                raise
            if not self._over and (passed := self._passed(event)):
                return passed
        return await self._left()

    async def steer(self, content: Sequence[Part]) -> None:
        """Steers the last answer that the middleware requested."""
        reply = self._last_reply
        if reply is None:
            raise InvalidRequest("no response is in progress that could be steered. Read the stream first.")
        await reply.call.steer(content)

    @property
    def _last_reply(self) -> Reply | None:
        return self._ask.replies[-1] if self._ask is not None and self._ask.replies else None

    def close(self) -> None:
        """Disconnects at once: closes the sockets of all answers."""
        self._over = True
        if self._ask is not None:
            for reply in self._ask.replies:
                reply.call.close()

    async def aclose(self) -> None:
        """Closes as `close` does, and ends the generators, from the outside in."""
        self.close()
        async with AsyncExitStack() as stack:  # the last one pushed is closed first
            for reply in self._ask.replies if self._ask is not None else []:
                stack.push_async_callback(reply.aclose)
            events: Any = self._events
            # A running generator is ended by its reader; `aclose` would raise RuntimeError.
            if hasattr(events, "aclose") and not getattr(events, "ag_running", False):
                stack.push_async_callback(events.aclose)

    def _generator(self) -> AsyncIterator[Event]:
        model, middleware, request, options, started = self._given
        started = asyncio.get_running_loop().time() if started is None else started
        self._ask = Ask(model, options, started)
        events: Any = middleware(request, self._ask)
        if not hasattr(events, "__anext__"):
            # Otherwise Python warns of a coroutine that was never awaited.
            if inspect.iscoroutine(events):
                events.close()
            raise InvalidRequest(
                f"the middleware {_name(middleware)} returned no async iterator. Write it as an "
                "`async def` that yields events."
            )
        return aiter(events)

    def _passed(self, event: Event) -> list[Event]:
        """The event as the grammar's guard passes it."""
        if type(event) is Finish and not self._guard.finished:
            self._usage = event.usage
        if self._begun:
            return self._guard.feed([event])
        self._begun = True
        if type(event) is StreamStart:
            return [event]
        return self._guard.start() + self._guard.feed([event])

    async def _rest(self, error: LLMStreamError | None) -> list[Event]:
        """Completes the event sequence after the last event of the middleware."""
        if self._over:  # closed during the read
            self.error = error and error.with_traceback(None)
            return await self._left()
        guard, usage, self._ended = self._guard, self.usage, True
        await self.aclose()
        if error is None and not guard.finished:
            error = IncompleteStream(f"the middleware {_name(self._given[1])} ended without a finish event")
        if error is None and guard.errors:
            error = error_from_info(guard.errors[0])
            error.usage = usage
        if error is not None:
            self.error = error.with_traceback(None)  # frames reference the request
        if guard.finished or error is None:
            return []
        start = [] if self._begun else guard.start()
        reported = error.info in guard.errors
        return start + guard.close(error.usage or usage, None if reported else error.info)

    async def _left(self) -> list[Event]:
        """Ends after another task has closed the call: ends the generators, and records the first failure."""
        if not self._ended:
            self._ended = True
            await self.aclose()
            failures = [reply.error for reply in (self._ask.replies if self._ask else ()) if reply.error]
            self.error = self.error or next(iter(failures), None)
        return []


def _name(middleware: Middleware) -> str:
    return getattr(middleware, "__name__", None) or type(middleware).__name__
