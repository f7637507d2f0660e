"""A model whose responses are recorded as steps: requested once, then read from the record.

Outside all middleware, so fallbacks, retries and a cache are within one step. Events reach the reader as they
arrive, the finish once the response is recorded: no call runs before that.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from llmstream.agent.durable_steps import Steps
from llmstream.chats.content import Part
from llmstream.chats.message import Message
from llmstream.chats.saved import message_to_json
from llmstream.errors import DecodeError, InvalidRequest, LLMStreamError
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    Raw,
    ReasoningDelta,
    RetryNotice,
    StreamStart,
    TextDelta,
    ToolInputDelta,
    Usage,
    decode,
    encode,
)
from llmstream.streams.call import Call, CallingModel, ResumeToken

if TYPE_CHECKING:
    from llmstream.dialects.base import Position
    from llmstream.request import Request
    from llmstream.streams.options import Options

__all__ = ["Digests", "Head", "RecordedModel", "joined", "read_response", "write_response"]

_log: Final = logging.getLogger("llmstream.durable")

VERSION: Final = 1
"""Version of a recorded response. A newer one is rejected: unknown content could change the run."""

_DELTAS: Final = (TextDelta, ReasoningDelta, ToolInputDelta)
PriceOf: TypeAlias = Callable[[str, Usage], float | None]
_Delta: TypeAlias = TextDelta | ReasoningDelta | ToolInputDelta


class Head(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line of a recorded response; the others are its events.

    request:     digest of the conversation before it
    model:       the requested "provider:model"
    answered_by: the one that responded, if different
    usage:       tokens of the response
    cost:        their cost by the agent's `price` at that time; None if unknown
    """

    v: int = VERSION
    request: str = ""
    model: str = ""
    answered_by: str | None = None
    usage: Usage = Usage()
    cost: float | None = None


_head = msgspec.json.Decoder(Head)
_token = msgspec.json.Decoder(ResumeToken).decode

# Number of batches that may wait for a reader slower than the model. With one, each batch costs two more loop
# iterations, a tenth of the CPU of a step.
_AHEAD: Final = 16

# A stored response that has yielded only these events can be requested again without visible effect.
_NO_CONTENT: Final = (StreamStart, ErrorEvent, Finish, Raw)


def joined(events: Iterable[Event]) -> list[Event]:
    """The events with adjacent deltas of a block merged; without raw events and discarded attempts."""
    found: list[Event] = []
    texts: list[str] = []
    for event in events:
        if isinstance(event, Raw):
            continue
        if isinstance(event, RetryNotice):
            found = [kept for kept in found if isinstance(kept, StreamStart)]
            texts = []
            continue
        last = found[-1] if found else None
        if isinstance(event, _DELTAS) and isinstance(last, _DELTAS) and _joins(last, event):
            texts.append(event.delta)
            continue
        _close(found, texts)
        found.append(event)
        texts = [event.delta] if isinstance(event, _DELTAS) else []
    _close(found, texts)
    return found


def _joins(one: _Delta, other: _Delta) -> bool:
    if type(one) is not type(other) or one.id != other.id:
        return False
    return one.provider_metadata is None and other.provider_metadata is None


def _close(found: list[Event], texts: list[str]) -> None:
    last = found[-1] if found else None
    if len(texts) > 1 and isinstance(last, _DELTAS):
        found[-1] = msgspec.structs.replace(last, delta="".join(texts))


def write_response(head: Head, events: Iterable[Event]) -> bytes:
    """Encodes a response for the record, as lines of JSON."""
    return b"\n".join([msgspec.json.encode(head), *map(encode, joined(events))])


def read_response(data: bytes) -> tuple[Head, list[Event]]:
    """Decodes the output of `write_response`.

    raises: DecodeError if it is damaged, or of a newer version
    """
    first, *lines = data.split(b"\n")
    try:
        head = _head.decode(first)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"not a recorded response: {error}") from None
    if head.v > VERSION:
        raise DecodeError(
            f"the response was recorded by a newer version of llmstream (form {head.v}, known {VERSION})"
        )
    return head, [decode(line) for line in lines]


class Digests:
    """Digests of growing conversations: each message is hashed once, as long as it stays the same object."""

    def __init__(self) -> None:
        self._known: list[tuple[Message, str]] = []

    def of(self, messages: Sequence[Message]) -> str:
        """A digest over the content of all messages; ids of responses are ignored."""
        at = 0
        for (known, _), message in zip(self._known, messages, strict=False):
            if known is not message:
                break
            at += 1
        del self._known[at:]
        digest = self._known[-1][1] if self._known else ""
        for message in messages[at:]:
            bare = msgspec.structs.replace(message, metadata=None)
            digest = hashlib.sha256(digest.encode() + message_to_json(bare)).hexdigest()[:16]
            self._known.append((message, digest))
        return digest


class RecordedModel:
    """A model for one step of a run. See `CallingModel`.

    digest: of the conversation before the step
    price:  cost of tokens of a model; called when a response is recorded
    cost:   of the one response that was recorded or read; None before that, or if the price is unknown
    """

    def __init__(self, model: CallingModel, steps: Steps, key: str, digest: str, price: PriceOf) -> None:
        self.cost: float | None = None
        self._price = price
        self.name, self.provider = model.name, model.provider
        self.options, self.deadlines = model.options, model.deadlines
        self._model, self._steps, self._key, self._digest = model, steps, key, digest
        self._count = 0

    async def load(self) -> None:
        """Imports the modules that the model's calls need."""
        await self._model.load()

    def call(self, request: Request, options: Options | None = None, *, started: float | None = None) -> Call:
        """A call that sends a request only if no response is recorded."""
        self._count += 1
        key = self._key if self._count == 1 else f"{self._key}/{self._count}"
        head = Head(request=self._digest, model=f"{self.provider.name}:{self.name}")
        model = self._model

        def attach(token: ResumeToken) -> Call:
            return model.reattached_call(token, request, options, from_start=True, started=started)

        stored = _Stored(self._steps, key, self.provider.name, self.name, attach)
        make = functools.partial(model.call, request, options, started=started)
        return _RecordedCall(self._steps, key, head, make, stored, self._priced)

    def _priced(self, head: Head) -> Head:
        """The head of a response with its cost by this model's price; a recorded head unchanged."""
        if head.cost is None:
            head = msgspec.structs.replace(head, cost=self._price(head.answered_by or head.model, head.usage))
        self.cost = head.cost if self._count == 1 else None
        return head

    def reattached_call(
        self,
        token: ResumeToken,
        request: Request,
        options: Options | None = None,
        *,
        from_start: bool = False,
        started: float | None = None,
    ) -> Call:
        """As that of the model; not recorded."""
        return self._model.reattached_call(token, request, options, from_start=from_start, started=started)

    async def cancel(self, token: ResumeToken) -> None:
        """As that of the model."""
        await self._model.cancel(token)

    def other(self, spec: str) -> CallingModel:
        """As that of the model."""
        return self._model.other(spec)


class _Stored:
    """The response to one request, if its vendor stores it (`background=True`), so that it can be read after
    a crash.

    key:    of the response; the resume tokens are stored below it, one for each time the request was sent
    attach: creates a call that reads a stored response from its beginning
    """

    def __init__(
        self, steps: Steps, key: str, provider: str, model: str, attach: Callable[[ResumeToken], Call]
    ) -> None:
        self._steps, self._key, self._attach = steps, key, attach
        self._provider, self._model = provider, model
        self._count = 0
        self._noted = ""

    def _next_key(self) -> str:
        return f"{self._key}/stored" if self._count == 0 else f"{self._key}/stored/{self._count + 1}"

    async def note(self, call: Call) -> None:
        """Records where the vendor stores the response, once it is known."""
        position = call.position
        if position is None or position.response_id == self._noted:
            return
        token = ResumeToken(self._provider, self._model, position.response_id)

        async def do() -> bytes:
            return msgspec.json.encode(token)

        await self._steps.step(self._next_key(), do, again=True)
        self._count, self._noted = self._count + 1, token.response_id

    async def attached(self) -> tuple[Call, list[Event]] | None:
        """A call that continues a response which a dead process had begun to read, and its first events.

        None if there is nothing, or it cannot be read: then the request is sent again.
        """
        token: ResumeToken | None = None
        while (found := await self._steps.wait(self._next_key(), 0)) is not None:
            token = _token(found)
            self._count, self._noted = self._count + 1, token.response_id
        if token is None or (token.provider, token.model) != (self._provider, self._model):
            return None  # a newer version of the agent may have another model
        call = self._attach(token)
        first: list[Event] = []
        try:
            while batch := await call.next():
                first += batch
                if not all(isinstance(event, _NO_CONTENT) for event in first):
                    return call, first
        except BaseException:
            await call.aclose()
            raise
        await call.aclose()
        _log.warning(
            "run %s: the stored response of %s cannot be read: %s", self._steps.run, self._key, call.error
        )
        return None


class _RecordedCall:
    """A recorded response as a `Call`. A task reads it, so that the recorded step is one awaitable."""

    def __init__(
        self,
        steps: Steps,
        key: str,
        head: Head,
        make: Callable[[], Call],
        stored: _Stored,
        priced: Callable[[Head], Head],
    ) -> None:
        self.error: LLMStreamError | None = None
        self.earlier: Position | None = None
        self._steps, self._key, self._head, self._make, self._stored = steps, key, head, make, stored
        self._priced = priced
        self._inner: Call | None = None
        self._task: asyncio.Task[bytes] | None = None
        self._batches: list[list[Event]] = []
        self._held: list[Event] = []  # the finish, held until the response is recorded
        self._changed, self._room = asyncio.Event(), asyncio.Event()
        self._begun = self._over = False
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """Usage as reported by the model, or as recorded."""
        return self._usage if self._inner is None else self._inner.usage

    @property
    def headers(self) -> Mapping[str, str]:
        """The response headers; empty for a recorded response."""
        return {} if self._inner is None else self._inner.headers

    @property
    def answered_by(self) -> str | None:
        """The model that responded, if a different one."""
        return self._head.answered_by if self._inner is None else self._inner.answered_by

    @property
    def position(self) -> None:
        """None: a recorded response is always read from its beginning."""
        return None

    async def next(self) -> list[Event]:
        """The next events, as they arrive from the model; all at once from the record."""
        if self._over:
            return []
        if self._task is None:
            recorded = await self._steps.wait(self._key, 0)
            if recorded is not None:
                self._over = True
                return self._replayed(recorded)
            step = self._steps.step(self._key, self._ask, again=True)
            self._task = asyncio.ensure_future(step)
            self._task.add_done_callback(lambda _: self._changed.set())
        while not self._batches and not self._task.done():
            self._changed.clear()
            await self._changed.wait()
        if self._batches:
            found = [event for batch in self._batches for event in batch]
            self._batches.clear()
            self._room.set()
            self._begun = True
            return found
        self._over = True
        return self._end(self._task)

    async def _ask(self) -> bytes:
        """Reads the response of the model and returns the data to record."""
        call, batch = await self._stored.attached() or (self._make(), None)
        self._inner = call
        events: list[Event] = []
        try:
            while batch := await call.next() if batch is None else batch:
                events += batch
                await self._stored.note(call)
                self._held += [event for event in batch if type(event) is Finish]
                if shown := [event for event in batch if type(event) is not Finish]:
                    self._batches.append(shown)
                    self._changed.set()
                while len(self._batches) >= _AHEAD:
                    self._room.clear()
                    await self._room.wait()
                batch = None
        finally:
            await call.aclose()
        if call.error is not None:
            raise call.error
        head = msgspec.structs.replace(self._head, answered_by=call.answered_by, usage=call.usage)
        return write_response(self._priced(head), events)

    def _end(self, task: asyncio.Task[bytes]) -> list[Event]:
        """The finish of a response after recording it succeeded or failed."""
        if task.cancelled():
            return []
        error = task.exception()
        if error is None:
            if self._inner is None:  # another task had recorded one meanwhile
                return self._replayed(task.result())
            return self._held
        if not isinstance(error, LLMStreamError):
            raise error
        self.error = error
        if self._inner is not None and error is self._inner.error:
            return self._held  # after the response's own error event
        start: list[Event] = [] if self._begun else [StreamStart()]
        return [*start, ErrorEvent(error.info), Finish("error", usage=self.usage)]

    def _replayed(self, data: bytes) -> list[Event]:
        head, events = read_response(data)
        if head.request != self._head.request:
            _log.warning(
                "run %s: the conversation before %s differs from the recorded one; the recorded response is "
                "used",
                self._steps.run,
                self._key,
            )
        self._head, self._usage = self._priced(head), head.usage
        return events

    def close(self) -> None:
        """Disconnects at once."""
        self._over = True
        if self._inner is not None:
            self._inner.close()
        if self._task is not None:
            self._task.cancel()

    async def aclose(self) -> None:
        """Closes as `close` does, and waits for cleanup."""
        self.close()
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def steer(self, content: Sequence[Part]) -> None:
        """As `steer` of the response.

        raises: InvalidRequest if it is read from the record
        """
        if self._inner is None:
            raise InvalidRequest("no response is in progress that could be steered. Read the stream first.")
        await self._inner.steer(content)
