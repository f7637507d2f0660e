"""`Model`: a provider's model with its address, key and default options."""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import inspect
import os
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeAlias, Unpack, overload

import msgspec

from llmstream.dialects.base import (
    Encoded,
    StreamLimits,
)
from llmstream.dialects.errors import decoded_error
from llmstream.environment import variables
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.events import Event, OtherWarning, Warning
from llmstream.exchange import HttpRequest
from llmstream.other_sdks import MODEL, suggests
from llmstream.providers.base import Provider, Wire
from llmstream.providers.registry import find_provider
from llmstream.request import Request
from llmstream.streams.attempts import Adapter, Retry
from llmstream.streams.call import ResumeToken
from llmstream.streams.call_plan import (
    Prepared,
    Secrets,
    background_of,
    call_plan,
    check_transport,
    reattached_plan,
    secrets_of,
)
from llmstream.streams.event_stream import EventStream
from llmstream.streams.history import Growing, Inliner, is_plain, repaired
from llmstream.streams.observations import Observe
from llmstream.streams.options import (
    ChatOptions,
    ModelOptions,
    Options,
    Prompt,
    StreamOptions,
    Transport,
    as_messages,
    checked_defaults,
    given_prompt,
    make_request,
    with_defaults,
    with_output,
)
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.limiter import RateLimiter
from llmstream.warming import load_transport, transport_is_loaded

if TYPE_CHECKING:
    import aiohttp
    from typing_extensions import TypeVar  # a default (PEP 696) is what type checkers know

    from llmstream.batches import Batch
    from llmstream.chats.message import Message
    from llmstream.chunks import StreamingChunk
    from llmstream.streams.call import Call
    from llmstream.streams.http_call import HTTPCall
    from llmstream.streams.lookups import Capabilities, ModelCheck, TokenCount
    from llmstream.structured import Output
    from llmstream.tools import AnyTool
    from llmstream.transport.download import DownloadLimits
    from llmstream.transport.websocket import SocketPool

    T = TypeVar("T", default=Any)
    V = TypeVar("V")
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["ApiKey", "Model", "Opener", "intercepted", "opener_below", "stream"]

# The longest model name in an error's suggestion; a longer text is a prompt passed as the model.
_LONGEST_NAME: Final = 200

ApiKey: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A key, or a sync or async function that returns one; it is called before each attempt."""


class Opener(Protocol):
    """Opens the calls of a model instead of HTTP; implemented by middleware."""

    def open(self, model: Model, request: Request, options: Options | None, started: float | None) -> Call:
        """Creates a call; nothing is sent yet."""


class _OverHTTP:
    """The opener of calls that are not intercepted."""

    def open(self, model: Model, request: Request, options: Options | None, started: float | None) -> Call:
        return model._http_call(request, options, started)


OVER_HTTP: Final[Opener] = _OverHTTP()

# Process-wide, because tests use their own threads and loops; the last one set applies.
_interceptors: list[Opener] = []


@contextmanager
def intercepted(opener: Opener) -> Iterator[None]:
    """Replaces HTTP as the opener of all models' calls within the block, below their middleware."""
    _interceptors.append(opener)
    try:
        yield
    finally:
        _interceptors.remove(opener)


def opener_below(opener: Opener) -> Opener:
    """The opener of calls below an interceptor: the interceptor of the enclosing block, else HTTP."""
    at = _interceptors.index(opener) if opener in _interceptors else 0
    return _interceptors[at - 1] if at else OVER_HTTP


class ModelArguments(ModelOptions, total=False):
    """Keyword arguments of `Model`, except `output`."""

    base_url: str | None
    api_key: ApiKey | None
    headers: Mapping[str, str] | None
    session: aiohttp.ClientSession | None
    provider: Provider | None
    deadlines: Deadlines
    retry: Retry
    limits: StreamLimits
    downloads: DownloadLimits | None
    limiter: RateLimiter | None
    observe: Observe | None
    transport: Transport


@suggests(MODEL)
class Model(Generic[T]):
    """A model of a provider: `Model("anthropic:claude-sonnet-4-5")`.

    `Model[City]` has answers of type City: `output=City`. Without `output`, T is Message.

    spec:     "provider:model"; `llmstream providers` lists the providers
    output:   the default type of its answers; see `ask`
    base_url: the base URL of the API, as in the vendor's own SDK
    api_key:  by default from the vendor's usual environment variable
    headers:  sent with every request
    session:  the caller's aiohttp.ClientSession; by default one per event loop
    provider: a `Provider` in place of the one that the spec names
    deadlines: timeouts of its calls
    retry:    how often its calls repeat a refused request
    limits:   caps on the size of one response
    downloads: limits for downloading files by URL for a vendor that accepts only their bytes;
              by default nothing is downloaded, and such a request is refused
    limiter:  paces the requests of all models that share it
    observe:  called with an `Observation` at each attempt, at the first content and at the end
    transport: "websocket" if the vendor supports it (OpenAI's Responses): the steps of an agent share
              one socket, and a response can be steered while it streams
    options:  defaults for the options of `stream`: temperature, instructions, tools and so on
    raises:   InvalidRequest for a spec without provider or model, or an invalid address or key;
              Unsupported for a provider without WebSockets
    """

    __slots__ = ("__dict__", "__weakref__", "_opener")

    @overload
    def __init__(
        self: Model[Message], spec: str, *, output: None = None, **arguments: Unpack[ModelArguments]
    ) -> None: ...

    @overload
    def __init__(
        self, spec: str, *, output: type[T] | Output[T], **arguments: Unpack[ModelArguments]
    ) -> None: ...

    @overload
    def __init__(
        self: Model[Any], spec: str, *, output: Any, **arguments: Unpack[ModelArguments]
    ) -> None: ...

    def __init__(
        self,
        spec: str = "",  # required in the overloads; if missing, the error shows how to pass it
        *,
        output: Any = None,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        headers: Mapping[str, str] | None = None,
        session: aiohttp.ClientSession | None = None,
        provider: Provider | None = None,
        deadlines: Deadlines = Deadlines(),
        retry: Retry = Retry(),
        limits: StreamLimits = StreamLimits(),
        downloads: DownloadLimits | None = None,
        limiter: RateLimiter | None = None,
        observe: Observe | None = None,
        transport: Transport = "http",
        **options: Unpack[ModelOptions],
    ) -> None:
        name, colon, model = spec.partition(":") if isinstance(spec, str) else ("", "", "")
        if provider is None and not (name and colon and model):
            raise _not_a_spec(spec, options)
        self.provider = find_provider(name, model) if provider is None else provider
        if base_url is not None:
            self.provider.address(base_url)  # fail at once if it is invalid
        # A list or a Path would fail only in a header of the first request.
        if not (api_key is None or isinstance(api_key, str) or callable(api_key)):
            raise InvalidRequest(
                f"api_key must be a str or a function that returns one, got {type(api_key).__name__}"
            )
        # With a `provider`, a colon may be part of the model's name, as in Ollama's "llama3.2:3b".
        self.name = model if colon and (provider is None or name == provider.name) else spec
        self.base_url = base_url
        self.deadlines = deadlines
        self.retry = retry
        self.limits = limits
        self.downloads = downloads
        self.limiter = limiter
        self.observe = observe
        self._api_key = api_key
        self._key_sent: str | None = None
        self._headers = dict(headers or {})
        self._session = session
        self._sockets: SocketPool | None = None  # the caller's address, while it is connected
        self._opener: Opener | None = None  # opens its calls in place of HTTP
        self.transport = transport
        if transport != "http":
            check_transport(transport, self.provider)
        self.options = checked_defaults(self.name, with_output(output, options))

    def __repr__(self) -> str:
        opened = "" if self._opener is None else f" in {self._opener!r}"
        return f"Model({self.provider.name}:{self.name}){opened}"

    def other(self, spec: str) -> Model:
        """Another model, by its spec."""
        return Model(spec)

    def opened_by(self, opener: Opener | None, kind: type[Model]) -> Model[T]:
        """The same model with its calls opened by `opener`; None for HTTP. Both share their attributes.

        kind: its class
        """
        # Not through `__init__`: the wrapped model has already checked the options and found the provider.
        copied: Model[T] = object.__new__(kind)
        copied.__dict__ = self.__dict__  # shared, so that setting an observer affects both
        copied._opener = opener
        return copied

    @overload
    def stream(
        self, prompt: Prompt, *, output: None = None, **options: Unpack[ChatOptions]
    ) -> EventStream[T]: ...

    @overload
    def stream(
        self, prompt: Prompt, *, output: type[V] | Output[V], **options: Unpack[ChatOptions]
    ) -> EventStream[V]: ...

    @overload
    def stream(self, prompt: Prompt, *, output: Any, **options: Unpack[ChatOptions]) -> EventStream[Any]: ...

    def stream(
        self, prompt: Prompt | None = None, *, output: Any = None, **options: Unpack[ChatOptions]
    ) -> EventStream[Any]:
        """Creates a stream that accumulates the response and runs tools; see `EventStream`."""
        chat = options.pop("chat", None)
        messages = as_messages(given_prompt(prompt, options))
        return EventStream(self, messages, with_output(output, options), chat=chat)

    @overload
    async def ask(self, prompt: Prompt, *, output: None = None, **options: Unpack[ChatOptions]) -> T: ...

    @overload
    async def ask(
        self, prompt: Prompt, *, output: type[V] | Output[V], **options: Unpack[ChatOptions]
    ) -> V: ...

    @overload
    async def ask(self, prompt: Prompt, *, output: Any, **options: Unpack[ChatOptions]) -> Any: ...

    async def ask(
        self, prompt: Prompt | None = None, *, output: Any = None, **options: Unpack[ChatOptions]
    ) -> Any:
        """Reads one answer to its end and returns a `Message`, or with `output` the value.

            print(await ls.Model("openai:gpt-5-mini").ask("Hi"))

        An answer that does not fit `output` is repaired as by `EventStream.objects`. Tool calls are in the
        message and do not run; an `Agent` runs them.

        raises: LLMStreamError if the stream failed; InvalidOutput if the answer does not fit
        """
        chat = options.pop("chat", None)
        messages = as_messages(given_prompt(prompt, options))
        given = with_output(output, options)
        # Not EventStream[Any](...): that is slower, because it runs Python code in typing.
        answer: EventStream[Any] = EventStream(self, messages, given, chat=chat)
        async with answer as stream:
            if with_defaults(self.options, given).get("output") is None:
                return await stream.collect()
            async for _ in stream.objects():
                pass
            return stream.object

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Self]:
        """The same model over its own WebSockets, which close at the end of the block.

        The first socket opens with the first request; concurrent responses open more.

        raises: Unsupported for a provider without WebSockets
        """
        from llmstream.transport.websocket import SocketPool

        check_transport("websocket", self.provider)
        model = copy.copy(self)
        model.transport, model._sockets = "websocket", SocketPool()
        try:
            yield model
        finally:
            model._sockets.close()

    def reattach(
        self,
        token: ResumeToken,
        prompt: Prompt = (),
        *,
        from_start: bool = False,
        output: Any = None,
        **options: Unpack[StreamOptions],
    ) -> EventStream[Any]:
        """A stream of the rest of an answer that the vendor stores.

        Events before the token are not sent again, except the start of a block that continues, with its
        id, and the input of a call that was in progress, which comes complete. The stream's message holds
        only the events of this stream. For tools and further turns use `from_start=True`, and pass the
        conversation of the answer.

        token:      `EventStream.resume_token` of the stream that was left, in this process or another
        prompt:     the conversation of the original request
        from_start: read the answer from its beginning
        options:    of the original request; those that only affect its sending are ignored
        raises:     InvalidRequest for a token of another provider, Unsupported if it does not store answers
        """
        background_of(self.provider.dialect, token, provider=self.provider.name)
        given = with_output(output, options)
        return EventStream(self, as_messages(prompt), given, token=token, from_start=from_start)

    async def cancel(self, token: ResumeToken) -> None:
        """Cancels an answer that the vendor stores; its content so far stays readable.

        raises: as `reattach`; the vendor's error, such as NotFound for an answer it has deleted
        """
        keeping = background_of(self.provider.dialect, token, provider=self.provider.name)
        request = Request(model=token.model)
        prepared = await self._addressed(Encoded(keeping.cancel(token.response_id)), request)
        from llmstream.streams.lookups import end_stored  # imported only on use

        await end_stored(prepared, self._decode_error, self.deadlines, self._session)

    async def submit(
        self, rows: Iterable[Any] | AsyncIterable[Any], *, keep: str | os.PathLike[str], **options: Any
    ) -> Batch[Any, T]:
        """Submits rows to the vendor's batch API, at half the price; see `llmstream.submit`."""
        batches = importlib.import_module("llmstream.batches")  # by name: a layer above models
        batch: Batch[Any, T] = await batches.submit(self, rows, keep=keep, **options)
        return batch

    async def events(
        self, request: Request | Prompt, *, output: Any = None, **options: Unpack[StreamOptions]
    ) -> AsyncIterator[Event]:
        """Yields the events of one response, without accumulation and without running tools.

        raises: LLMStreamError after finish if the stream failed, unless errors="events"
        """
        given = with_defaults(self.options, with_output(output, options))
        # A ready Request is sent as it is: its own options win over the model's.
        ready = request if isinstance(request, Request) else self._request(request, given)
        if not transport_is_loaded():
            await self.load()
        call = self.call(ready, given)
        try:
            while batch := await call.next():
                for event in batch:
                    yield event
                batch = []  # so that the next one can reuse its memory
        finally:
            await call.aclose()
        if call.error is not None and given.get("errors") != "events":
            raise call.error

    def tools_stream(
        self, messages: Prompt, tools: Iterable[AnyTool], **options: Any
    ) -> AsyncIterator[StreamingChunk]:
        """The response as chunks in the format of Chat Completions, with tool calls in fragments.

        The caller assembles the fragments; `stream` does it otherwise. Options are those of `events`.

        raises: InvalidRequest for invalid options, at once
        """
        from llmstream.chunks import streaming_chunks

        options["tools"] = tools
        return streaming_chunks(self.events(self.request(messages, **options), **options))

    async def warm_up(self) -> None:
        """Imports what its calls need, in a thread, and connects to its vendor; see `llmstream.warm_up`.

        raises: InvalidRequest for an invalid address; TransportError if there is no connection
        """
        await self.load()
        if _interceptors:  # middleware may serve its calls without a connection
            return
        from llmstream.transport.http import connect_ahead

        key = None if callable(self._api_key) else self._api_key
        base_url = self.base_url or await self.provider.ready(self.name, key)
        address = self.provider.address(base_url)
        routed = self.provider.route(address, HttpRequest(""), self.name, os.environ)
        await connect_ahead(routed.url, self.deadlines, self._session)

    async def load(self) -> None:
        """Imports the modules that its calls need, in a thread."""
        await load_transport()

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do, as far as its name and dialect show; sends no request."""
        from llmstream.streams.lookups import capabilities_of

        return capabilities_of(self.name, self.provider)

    async def check(self) -> ModelCheck:
        """Checks that the server responds, accepts the key and has the model.

        Uses the vendor's list of models, if it has one; uses no tokens.

        raises: MissingKey, AuthenticationError, PermissionDenied for a key; ConnectionFailed and other
                TransportErrors without a response; other errors of the vendor
        """
        from llmstream.streams.lookups import check_model

        return await check_model(self)

    async def count_tokens(
        self, prompt: Prompt, *, output: Any = None, **options: Unpack[StreamOptions]
    ) -> TokenCount:
        """Counts the tokens of a prompt, including system prompt and tools.

        The vendor counts if it has an endpoint for it (Anthropic, Google, OpenAI); else the result is an
        estimate, marked as such.

        raises: as `check`; InvalidRequest for an invalid prompt or options
        """
        from llmstream.streams.lookups import count_tokens

        return await count_tokens(self, self.request(prompt, output=output, **options))

    def request(self, prompt: Prompt, *, output: Any = None, **options: Unpack[StreamOptions]) -> Request:
        """The vendor-neutral request for a prompt and options."""
        return self._request(prompt, with_defaults(self.options, with_output(output, options)))

    def _request(self, prompt: Prompt, options: Options) -> Request:
        return make_request(self.name, as_messages(prompt), options)

    def call(self, request: Request, options: Options | None = None, *, started: float | None = None) -> Call:
        """Creates a call; nothing is sent yet. `started`: loop time of the total deadline's start."""
        opener = self._opener or (_interceptors[-1] if _interceptors else None)
        if opener is not None:
            return opener.open(self, request, options, started)
        return self._http_call(request, options, started)

    def _http_call(self, request: Request, options: Options | None, started: float | None) -> Call:
        wire = self._wire(request)
        model = self
        before: list[Warning] = []
        if wire is not None:
            model = copy.copy(self)
            model.provider = dataclasses.replace(self.provider, dialect=wire.dialect)
            before = [] if wire.why is None else [OtherWarning(wire.why)]
        return _calls()(call_plan(model, request, options or {}, before), total_started=started)

    def _wire(self, request: Request) -> Wire | None:
        """The model on another dialect of the same provider, if the request needs one."""
        choose = self.provider.wire
        try:
            return None if choose is None else choose(request, lambda: self.provider.address(self.base_url))
        except LLMStreamError:  # without an address the call itself raises the error
            return None

    def reattached_call(
        self,
        token: ResumeToken,
        request: Request,
        options: Options | None = None,
        *,
        from_start: bool = False,
        started: float | None = None,
    ) -> Call:
        """Creates a call that reads a stored answer; see `reattach`. `request` determines its decoding."""
        plan = reattached_plan(self, token, request, options or {}, from_start=from_start)
        return _calls()(plan, total_started=started)

    def _decode_error(self, status: int, headers: dict[str, str], body: bytes) -> LLMStreamError:
        """The typed error for a response that is not a stream, whatever its bytes."""
        provider = self.provider
        return decoded_error(provider.decode_error, status, headers, body, provider=provider.name)

    async def _prepare(
        self,
        request: Request,
        call_id: str,
        inliner: Inliner | None = None,
        before: Iterable[Warning] = (),
        adapter: Adapter | None = None,
    ) -> Prepared:
        """The request as it is sent; all attempts of a call have the same `call_id`."""
        warnings: list[OtherWarning] = []
        if not is_plain(request.messages):
            messages, warnings = repaired(request.messages)
            if request.messages and not messages:
                raise InvalidRequest("the conversation is empty: none of its messages has content")
            inliner = inliner or Inliner(self.provider.dialect, self.downloads)
            given = request.messages
            sent = Growing.of(messages, given.repairs) if isinstance(given, Growing) else tuple(messages)
            request = await inliner.inline(msgspec.structs.replace(request, messages=sent))
        encoded = self.provider.dialect.encode(request, provider=self.provider.name)
        if before or warnings:
            encoded = msgspec.structs.replace(encoded, warnings=[*before, *warnings, *encoded.warnings])
        if adapter is not None:
            encoded = adapter.fit(encoded)
        return await self._addressed(encoded, request, self._call_headers(call_id))

    async def _addressed(
        self, encoded: Encoded, request: Request, headers: Mapping[str, str] = {}
    ) -> Prepared:
        """Adds address, key and headers: ready to be sent."""
        key = self._api_key
        if callable(key):
            given = key()
            key = await given if inspect.isawaitable(given) else given
        base_url = self.base_url or await self.provider.ready(request.model, key)
        http = self.provider.prepare(
            encoded.http,
            model=request.model,
            base_url=base_url,
            api_key=key,
            headers={**headers, **self._headers, **request.headers},
            env=variables(),
        )
        self._key_sent = key
        return Prepared(encoded, http, Secrets(self._known_key, key, http))

    @property
    def _renews_keys(self) -> bool:
        """Whether a function returns the key, so that the next call may return another one."""
        return callable(self._api_key)

    def known_secrets(self) -> tuple[str, ...]:
        """Texts to mask in every record of a run: keys, and credentials in headers and addresses.

        For a function that returns keys, the last one it returned.
        """
        key = self._key_sent if callable(self._api_key) else self._api_key
        return secrets_of(self._known_key(key), self._headers, self.base_url or "")

    def _known_key(self, given: str | None) -> str | None:
        """The key that was sent, for masking; None if it has since been removed from the environment."""
        try:
            return self.provider.key(given)
        except LLMStreamError:
            return None

    def __getstate__(self) -> object:
        raise TypeError(
            "a Model cannot be pickled, because it may hold a key. Create it from its name instead"
        )

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied._opener = self._opener
        return copied

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def _call_headers(self, call_id: str) -> dict[str, str]:
        name = self.provider.idempotency_header
        return {name: call_id} if name else {}


def _not_a_spec(spec: object, options: Mapping[str, Any]) -> InvalidRequest:
    """The error for a model that is not "provider:model"; suggests the intended spec."""
    named = next((name for name in ("model", "model_name") if name in options), "")
    if not spec and named:
        return InvalidRequest(f'write ls.Model("provider:model"), without {named}=')
    found: list[str] = []
    if isinstance(spec, str) and spec and len(spec) <= _LONGEST_NAME and " " not in spec:
        from llmstream.providers.likely_models import likely_models  # imported only for an error

        found = likely_models(spec)
    hint = f". Did you mean {' or '.join(map(repr, found))}?" if found else ""
    return InvalidRequest(
        f'a model has the form "provider:model", such as "openai:gpt-5-mini"; got {spec!r}{hint}'
    )


@functools.cache
def _calls() -> type[HTTPCall]:
    """The class HTTPCall, loaded with the first call because it imports aiohttp."""
    from llmstream.streams.http_call import HTTPCall

    return HTTPCall


@overload
def stream(
    model: str, prompt: Prompt, *, output: None = None, **options: Unpack[ChatOptions]
) -> EventStream[Message]: ...


@overload
def stream(
    model: Model[V], prompt: Prompt, *, output: None = None, **options: Unpack[ChatOptions]
) -> EventStream[V]: ...


@overload
def stream(
    model: str | Model, prompt: Prompt, *, output: type[V] | Output[V], **options: Unpack[ChatOptions]
) -> EventStream[V]: ...


@overload
def stream(
    model: str | Model, prompt: Prompt, *, output: Any, **options: Unpack[ChatOptions]
) -> EventStream[Any]: ...


def stream(
    model: str | Model, prompt: Prompt | None = None, *, output: Any = None, **options: Unpack[ChatOptions]
) -> EventStream[Any]:
    """Creates a stream of a model's response; nothing is sent until it is read.

    model:   a `Model`, or "provider:model"
    prompt:  a str, a Message, a list of Messages or a Chat; a Chat is not changed
    output:  the type of the answer, or an `Output`; the value is then `object` of the stream
    options: tools, instructions, temperature, `chat` and more; see `llmstream.streams.StreamOptions`
    raises:  InvalidRequest for an invalid spec, prompt or option
    """
    chosen = model if isinstance(model, Model) else Model(model)
    return chosen.stream(given_prompt(prompt, options), output=output, **options)
