"""The endpoint under test: sends requests and records the observable data of each response.

An `Exchange` has the HTTP head, the reads of the body with their times, and the events.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import aiohttp
import msgspec

from llmstream.accumulate import Accumulator
from llmstream.chats.message import Message
from llmstream.dialects.base import Decoder, Encoded
from llmstream.dialects.decoder import UNREADABLE
from llmstream.errors import InvalidRequest, LLMStreamError, Overloaded, RateLimited
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ReasoningDelta,
    StreamStart,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    Warning,
)
from llmstream.exchange import HttpRequest
from llmstream.framing.ndjson import NDJSONDecoder
from llmstream.framing.sse import SSEDecoder
from llmstream.providers.sim import SimProvider
from llmstream.request import Request
from llmstream.streams.attempts import Retry
from llmstream.streams.call_plan import Plan
from llmstream.streams.http_call import HTTPCall
from llmstream.streams.options import Options, Prompt, StreamOptions
from llmstream.transport.sessions import new_session
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.streams import Model


__all__ = [
    "Endpoint",
    "Exchange",
    "Read",
    "in_process",
]

_E = TypeVar("_E", bound=Event)

# The decoders' own cap: a larger event has failed in the response already.
_MAX_EVENT_BYTES: Final = 16 * 1024 * 1024


class Read(NamedTuple):
    """What one read of the socket gave, and when, in seconds since the request."""

    at_s: float
    data: bytes


@dataclass
class Exchange:
    """One request and its response.

    status:     None without a response
    headers:    of the response, names in lower case
    reused:     whether the connection had served before; None if that is not known
    reads:      of the body of a successful response; of one JSON value, in the form of a stream
    error_body: of a refusal
    content_s:  times of the batches with content, in seconds since the request
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    reused: bool | None = None
    reads: list[Read] = field(default_factory=list)
    error_body: bytes = b""
    events: list[Event] = field(default_factory=list)
    content_s: list[float] = field(default_factory=list)
    error: LLMStreamError | None = None
    total_s: float = 0.0

    def all(self, kind: type[_E]) -> list[_E]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @cached_property
    def body(self) -> bytes:
        """The body of a successful response."""
        return b"".join(read.data for read in self.reads)

    @property
    def text(self) -> str:
        """The text of the response."""
        return "".join(event.delta for event in self.all(TextDelta))

    @property
    def reasoning(self) -> str:
        """The reasoning of the response."""
        return "".join(event.delta for event in self.all(ReasoningDelta))

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls that the program has to run."""
        return [call for call in self.all(ToolCall) if not call.provider_executed]

    @property
    def finish(self) -> Finish:
        """The last event."""
        return next(iter(self.all(Finish)), Finish("unknown"))

    @property
    def usage(self) -> Usage:
        """The reported usage."""
        return self.finish.usage

    @property
    def warnings(self) -> list[Warning]:
        """What the request left out or changed."""
        return [warning for start in self.all(StreamStart) for warning in start.warnings]

    @property
    def defects(self) -> list[str]:
        """Messages of the events that could not be decoded."""
        return [event.error.message for event in self.all(ErrorEvent) if event.error.code == "decode-error"]

    @property
    def media_type(self) -> str:
        """Of the response, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def message(self) -> Message:
        """The response as a message of the conversation, complete or not."""
        accumulator = Accumulator()
        accumulator.feed_many(self.events)
        return accumulator.partial

    @cached_property
    def payloads(self) -> list[bytes]:
        """The frames of a body of SSE or NDJSON; none of other bodies."""
        try:
            # A line end is added, in case the last frame has none.
            if "ndjson" in self.media_type:
                return NDJSONDecoder(max_bytes=_MAX_EVENT_BYTES).feed_data(self.body + b"\n")
            # Other types are read as SSE: servers send it under wrong names.
            if "aws" not in self.media_type:
                return SSEDecoder(_MAX_EVENT_BYTES).feed_data(self.body + b"\n\n")
        except LLMStreamError:
            pass
        return []

    @cached_property
    def frames(self) -> list[dict[str, Any]]:
        """The frames that are JSON objects."""
        found = []
        for payload in self.payloads:
            try:
                value = msgspec.json.decode(payload)
            except UNREADABLE:
                continue
            if isinstance(value, dict):
                found.append(value)
        return found


_CONTENT: Final = (TextDelta, ReasoningDelta, ToolInputDelta)
# How often a request is repeated that the endpoint refused because of its rate limit.
_MAX_WAITS: Final = 2
# A person waits for the check.
_MAX_WAIT_S: Final = 30.0
# Where a refusal names no time.
_USUAL_WAIT_S: Final = 2.0


class _Tap:
    """A decoder that records its input."""

    def __init__(self, decoder: Decoder, note: Callable[[bytes], None]) -> None:
        self._decoder = decoder
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)

    def feed(self, chunk: bytes) -> list[Event]:
        self._note(chunk)
        return self._decoder.feed(chunk)


# The exchange that this task makes, for the trace of its connection.
_current: contextvars.ContextVar[Exchange | None] = contextvars.ContextVar("exchange", default=None)


def _trace() -> aiohttp.TraceConfig:
    """Notes the head of each response, and whether its connection had served before."""
    trace = aiohttp.TraceConfig()

    async def made(session: object, context: SimpleNamespace, params: object) -> None:
        if (exchange := _current.get()) is not None:
            exchange.reused = False

    async def reused(session: object, context: SimpleNamespace, params: object) -> None:
        if (exchange := _current.get()) is not None:
            exchange.reused = True

    async def ended(session: object, context: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
        if (exchange := _current.get()) is not None:
            exchange.status = params.response.status
            exchange.headers = {k.lower(): v for k, v in params.response.headers.items()}

    trace.on_connection_create_start.append(made)
    trace.on_connection_reuseconn.append(reused)
    trace.on_request_end.append(ended)
    return trace


def in_process(model: Model[Any]) -> bool:
    """Whether a simulator in this process answers: without a key, an address or a cost."""
    return isinstance(model.provider, SimProvider) and model.base_url is None


class Endpoint:
    """Sends requests to the model under test, and stores all exchanges.

    model:      the model that is checked
    max_tokens: limit of each response that has no other
    attempts:   how often a question is put whose answer shows nothing
    exchanges:  all so far, in order
    """

    def __init__(self, model: Model[Any], *, max_tokens: int, attempts: int) -> None:
        self.model = model
        self.max_tokens = max_tokens
        self.attempts = attempts
        self.exchanges: list[Exchange] = []
        self._named: dict[str, asyncio.Task[Exchange]] = {}

    @classmethod
    @asynccontextmanager
    async def to(cls, model: Model[Any], *, max_tokens: int, attempts: int) -> AsyncIterator[Endpoint]:
        """An endpoint with connections of its own, unless the model has a session.

        raises: InvalidRequest for a model with middleware or a WebSocket; MissingKey
        """
        if model._opener is not None or model.transport != "http":
            raise InvalidRequest("check_endpoint() needs a plain Model: no middleware, no WebSocket")
        # The model is the caller's.
        tapped = copy.copy(model)
        # A retried request would hide the result; `ask` waits for rate limits.
        tapped.retry = Retry(max_retries=0)
        # Before the first probe: a missing key is an error of the caller, no finding.
        await tapped._addressed(Encoded(HttpRequest("/", method="GET")), Request(model=model.name))
        if in_process(model):  # one server for each of its models, and names are checked too
            tapped.base_url = await tapped.provider.ready(model.name, None)
        endpoint = cls(tapped, max_tokens=max_tokens, attempts=attempts)
        # Of a session of the caller's, only what its responses show is known.
        own = new_session(_trace()) if model._session is None else nullcontext(model._session)
        async with own as tapped._session:
            try:
                yield endpoint
            finally:
                await endpoint._stop()

    async def _stop(self) -> None:
        """Ends the shared exchanges that are still running: their probes were cancelled."""
        for task in self._named.values():
            task.cancel()
        await asyncio.gather(*self._named.values(), return_exceptions=True)

    async def once(self, name: str, prompt: Prompt, *, output: Any = None, **options: Any) -> Exchange:
        """An exchange that several probes examine: made by the first of them."""
        if name not in self._named:
            asked = self.ask(prompt, output=output, **options)
            self._named[name] = asyncio.create_task(asked, name=f"check {name}")
        # A probe that is cancelled must not take the exchange from the others.
        return await asyncio.shield(self._named[name])

    async def ask(
        self,
        prompt: Prompt,
        *,
        output: Any = None,
        change: Callable[[Request], Request] | None = None,
        model: Model[Any] | None = None,
        leave_after: int | None = None,
        **options: Any,
    ) -> Exchange:
        """Makes one exchange; waits and repeats it if the endpoint's rate limit refuses it.

        change:      of the request before it is encoded
        model:       instead of the endpoint's
        leave_after: closes the response after this many batches with content
        """
        used = model or self.model
        # adapt off: a request that is changed after a refusal would hide the refused field.
        given = cast(StreamOptions, {"max_output_tokens": self.max_tokens, "adapt": False, **options})
        request = used.request(prompt, output=output, **given)
        request = request if change is None else change(request)
        for waits in range(_MAX_WAITS + 1):
            exchange = await self._exchange(used, request, given, leave_after)
            error = exchange.error
            if waits == _MAX_WAITS or not isinstance(error, RateLimited | Overloaded):
                break
            wait_s = error.retry_after_s or _USUAL_WAIT_S
            if wait_s > _MAX_WAIT_S:
                break
            await asyncio.sleep(wait_s)
        return exchange

    async def _exchange(
        self, model: Model[Any], request: Request, options: StreamOptions, leave_after: int | None
    ) -> Exchange:
        exchange = Exchange()
        self.exchanges.append(exchange)
        _current.set(exchange)
        began = time.perf_counter()
        call = model.call(request, cast(Options, options))
        assert isinstance(call, HTTPCall)  # no opener: see `to`
        secrets = model.known_secrets()
        call._plan = _tapped(call._plan, exchange, began, secrets)
        try:
            while batch := await call.next():
                exchange.events += batch
                if any(isinstance(event, _CONTENT) for event in batch):
                    exchange.content_s.append(time.perf_counter() - began)
                    if leave_after is not None and len(exchange.content_s) >= leave_after:
                        break
        finally:
            await call.aclose()
            _current.set(None)
        exchange.error = call.error
        exchange.headers = exchange.headers or dict(call.headers)
        # A session of the caller's has no trace.
        if exchange.status is None and call.error is not None:
            exchange.status = call.error.status
        exchange.total_s = time.perf_counter() - began
        return exchange


def _tapped(plan: Plan, exchange: Exchange, began: float, secrets: Iterable[str]) -> Plan:
    """The plan of a call whose bytes are recorded."""

    def masked(body: bytes) -> bytes:
        for secret in secrets:
            body = body.replace(secret.encode(), b"***")
        return body

    def note(chunk: bytes) -> None:
        exchange.reads.append(Read(time.perf_counter() - began, chunk))

    def decode_error(status: int, headers: dict[str, str], body: bytes) -> LLMStreamError:
        exchange.error_body = masked(body)  # before an excerpt of it could cut a key
        return plan.decode_error(status, headers, body)

    return msgspec.structs.replace(
        plan,
        decoder=lambda: cast(Decoder, _Tap(plan.decoder(), note)),
        decode_error=decode_error,
    )
