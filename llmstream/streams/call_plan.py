"""The plan of a call: what is sent, how its response is decoded, and how it continues after a break."""

from __future__ import annotations

import functools
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from llmstream.dialects.base import Background, Decoder, Dialect, Encoded, Place, Position, StreamLimits
from llmstream.errors import InvalidRequest, LLMStreamError, Unsupported
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.exchange import HttpRequest, carries_secret, carries_secret_parameter
from llmstream.providers.base import Provider
from llmstream.request import Request
from llmstream.streams.attempts import Adapter, Retry
from llmstream.streams.history import Inliner
from llmstream.streams.observations import Observe, joined
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.limiter import RateLimiter

if TYPE_CHECKING:
    import aiohttp

    from llmstream.streams.call import ResumeToken
    from llmstream.streams.options import Options, Transport
    from llmstream.transport.download import DownloadLimits
    from llmstream.transport.http import Body
    from llmstream.transport.socket_body import SocketOptions
    from llmstream.transport.websocket import SocketPool

__all__ = [
    "Continued",
    "Plan",
    "PlannedModel",
    "Prepared",
    "Secrets",
    "StoredAnswer",
    "asking_to_store",
    "background_of",
    "call_plan",
    "check_transport",
    "in_output_mode",
    "reattached_plan",
    "secrets_of",
]

# Shorter keys are placeholders; masking them would damage the vendor's message.
_SHORTEST_SECRET: Final = 6


class Prepared(msgspec.Struct, frozen=True):
    """A request ready to be sent, with its warnings.

    secrets: returns the texts to mask in errors, because the vendor may echo them
    """

    encoded: Encoded
    http: HttpRequest
    secrets: Callable[[], tuple[str, ...]] = tuple

    def __repr__(self) -> str:
        return f"Prepared({self.http!r})"


class Secrets:
    """Finds the texts to mask in the errors of a request, once per request.

    known_key: returns the key to mask for the given api_key
    """

    # Not a cached function: that takes 900 bytes for each open stream.
    __slots__ = ("_found", "_given", "_headers", "_known_key", "_url")

    def __init__(
        self, known_key: Callable[[str | None], str | None], given: str | None, http: HttpRequest
    ) -> None:
        self._known_key, self._given = known_key, given
        self._headers, self._url = http.headers, http.url
        self._found: tuple[str, ...] | None = None

    def __call__(self) -> tuple[str, ...]:
        """The texts, longest first."""
        if self._found is None:
            key = self._known_key(self._given)
            self._found = secrets_of(key, self._headers, self._url)
        return self._found


def secrets_of(key: str | None, headers: Mapping[str, str], url: str = "") -> tuple[str, ...]:
    """The texts to mask in errors, longest first.

    These are the key, credentials in headers and in the URL, and passwords of proxies.
    """
    from urllib.parse import unquote, urlsplit  # both are imported at the first failure

    from llmstream.transport.egress import proxy_secrets

    found = {key or "", *proxy_secrets(), unquote(urlsplit(url).password or "")}
    for name, value in headers.items():
        # A non-string value is rejected with a typed error before the request is sent.
        if isinstance(name, str) and isinstance(value, str) and carries_secret(name):
            found |= {value, value.rpartition(" ")[2]}  # also mask the token without "Bearer"
            if name.lower() == "cookie":
                # A server may echo only one of several cookies.
                found |= {cookie.partition("=")[2].strip() for cookie in value.split(";")}
    for parameter in url.partition("?")[2].split("&"):
        name, _, value = parameter.partition("=")
        if carries_secret_parameter(name):
            # An error may quote the URL as it was sent, or decoded.
            found |= {value, unquote(value)}
    # Longest first: replacing a short secret inside a longer one would leave the remainder visible.
    return tuple(sorted([s for s in found if len(s) >= _SHORTEST_SECRET], key=len, reverse=True))


Continued: TypeAlias = Callable[[Place], Awaitable[Prepared]]
"""Prepares the request that continues an incomplete answer at a position."""


class StoredAnswer(msgspec.Struct, frozen=True):
    """Requests for an answer that its vendor stores.

    reopen:  prepares the request for the stream after a position
    look_up: prepares the request for the stored answer so far, in one piece
    is_made: whether the response to `look_up` is complete
    """

    reopen: Callable[[Position], Awaitable[Prepared]]
    look_up: Callable[[Position], Awaitable[Prepared]]
    is_made: Callable[[bytes], bool]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a call.

    vendor:      explains errors of its servers, and knows how they count tokens
    prepare:     called before each attempt, because keys and signatures expire
    new_keys:    whether `prepare` may use another key after a refusal
    model, call_id: identify the call in observations
    request:     for observers with `wants_content`
    adapter:     removes refused fields from requests; None to keep them
    stored:      requests for the stored answer, if it should be resumed after a break
    follows:     whether `decoder` may return a decoder of stored answers
    continued:   prepares the next request, if the vendor splits long answers and they should continue
    sockets:     how it uses a WebSocket; None for HTTP
    max_output_tokens: of the request, for the limiter's estimate
    body:        what reads the body of each response in place of it; None for the body itself
    """

    provider: str
    prepare: Callable[[], Awaitable[Prepared]]
    decoder: Callable[[], Decoder]
    decode_error: Callable[[int, dict[str, str], bytes], LLMStreamError]
    vendor: Provider
    deadlines: Deadlines = Deadlines()
    retry: Retry = Retry()
    session: aiohttp.ClientSession | None = None
    include_raw: bool = False
    new_keys: bool = False
    adapter: Adapter | None = None
    stored: StoredAnswer | None = None
    follows: bool = True
    continued: Continued | None = None
    sockets: SocketOptions | None = None
    model: str = ""
    call_id: str = ""
    limiter: RateLimiter | None = None
    max_output_tokens: int = 0
    observe: Observe | None = None
    request: Request | None = None
    body: Callable[[Body], Body] | None = None

    @property
    def content_type(self) -> str:
        """The media type of a streamed response."""
        return self.vendor.dialect.content_type


def asking_to_store(dialect: Dialect, request: Request, *, provider: str) -> tuple[Request, list[Warning]]:
    """The request for a stored answer; unchanged, with a warning, if the vendor does not store them."""
    changed = dialect.background.store(request, provider=provider) if dialect.background else None
    if changed is not None:
        return changed, []
    text = f"{provider} does not store answers, so this one cannot be resumed after a break"
    return request, [UnsupportedSetting("background", text)]


def background_of(dialect: Dialect, token: ResumeToken, *, provider: str) -> Background:
    """How a stored response is read.

    raises: InvalidRequest for a token of another provider, Unsupported if answers are not stored
    """
    if token.provider != provider:
        raise InvalidRequest(f"the token belongs to {token.provider}, not to {provider}")
    if dialect.background is None:
        raise Unsupported(f"{provider} does not store answers, so none can be resumed.", provider=provider)
    return dialect.background


class PlannedModel(Protocol):
    """The part of `Model` that a plan needs; `model.py` imports this module."""

    provider: Provider
    base_url: str | None
    deadlines: Deadlines
    retry: Retry
    limits: StreamLimits
    downloads: DownloadLimits | None
    limiter: RateLimiter | None
    observe: Observe | None
    transport: Transport
    _session: aiohttp.ClientSession | None
    _sockets: SocketPool | None

    @property
    def _renews_keys(self) -> bool:
        """Whether a function returns the key, so that the next attempt may have another one."""

    def _decode_error(self, status: int, headers: dict[str, str], body: bytes) -> LLMStreamError:
        """The typed error for a response that is not a stream."""

    async def _prepare(
        self,
        request: Request,
        call_id: str,
        inliner: Inliner | None = None,
        before: Iterable[Warning] = (),
        adapter: Adapter | None = None,
    ) -> Prepared:
        """The request as it is sent."""

    async def _addressed(
        self, encoded: Encoded, request: Request, headers: Mapping[str, str] = {}
    ) -> Prepared:
        """Adds address, key and headers: ready to be sent."""


def call_plan(model: PlannedModel, request: Request, given: Options, before: list[Warning]) -> Plan:
    """The plan of a new call.

    before: warnings reported before the plan's own
    """
    dialect, name = model.provider.dialect, model.provider.name
    warnings = before
    if given.get("background"):
        request, asked = asking_to_store(dialect, request, provider=name)
        warnings = [*before, *asked]
    sent, reading = in_output_mode(model, request)
    call_id = _new_id()
    # One for all attempts of the call: they share the downloads of the first.
    inliner = Inliner(dialect, model.downloads)
    adapts = given.get("adapt", True)
    adapter = Adapter((name, model.base_url, request.model), dialect) if adapts else None
    background = dialect.background
    # The vendor's options may have disabled storage, or enabled it without `background=True`.
    if background is not None and not background.is_stored(request, provider=name):
        background = None
    sockets = _socket_options(model) if background is None else None
    if background is not None and model.transport == "websocket":
        warnings.append(
            OtherWarning("background responses are not available over WebSockets; this one uses HTTP")
        )
    make_decoder = dialect.decoder if background is None else background.following_decoder
    if sockets is not None and dialect.sockets is not None:
        make_decoder = dialect.sockets.socket_decoder
    return _plan(
        model,
        request,
        given,
        call_id,
        prepare=_Preparing(model, sent, call_id, inliner, warnings, adapter),
        adapter=adapter,
        decoder=_Decoding(reading, make_decoder, name, request.include_raw, model.limits),
        stored=_stored(model, background, request) if background and given.get("background") else None,
        follows=background is not None,
        continued=_continued(model, sent, inliner, adapter) if background is None else None,
        sockets=sockets,
    )


# Each open stream holds these two. A `functools.partial` takes 140 bytes more, a lambda and its cells 300.


@dataclass(slots=True)
class _Preparing:
    """Prepares the request of each attempt."""

    model: PlannedModel
    request: Request
    call_id: str
    inliner: Inliner
    warnings: list[Warning]
    adapter: Adapter | None

    def __call__(self) -> Awaitable[Prepared]:
        return self.model._prepare(self.request, self.call_id, self.inliner, self.warnings, self.adapter)


@dataclass(slots=True)
class _Decoding:
    """Creates the decoder of each attempt."""

    reading: Callable[[Decoder], Decoder]
    make: Callable[..., Decoder]
    provider: str
    include_raw: bool
    limits: StreamLimits

    def __call__(self) -> Decoder:
        return self.reading(
            self.make(provider=self.provider, include_raw=self.include_raw, limits=self.limits)
        )


def reattached_plan(
    model: PlannedModel, token: ResumeToken, request: Request, options: Options, *, from_start: bool
) -> Plan:
    """The plan of a call that reads a stored answer; `request` determines its decoding.

    from_start: read from its beginning, else after the token
    """
    name = model.provider.name
    background = background_of(model.provider.dialect, token, provider=name)
    request = msgspec.structs.replace(request, model=token.model)
    _, reading = in_output_mode(model, request)
    after = None if from_start else Position(token.response_id, token.sequence_number)
    stored = _stored(model, background, request)
    return _plan(
        model,
        request,
        options,
        _new_id(),
        prepare=lambda: stored.reopen(Position(token.response_id)),
        decoder=lambda: reading(
            background.following_decoder(
                provider=name, include_raw=request.include_raw, limits=model.limits, after=after
            )
        ),
        stored=stored,
    )


def _socket_options(model: PlannedModel) -> SocketOptions | None:
    """How requests use a socket; None for HTTP."""
    if model.transport == "http":
        return None
    sockets, name = model.provider.dialect.sockets, model.provider.name
    if sockets is None:
        return None
    from llmstream.transport.socket_body import SocketOptions

    return SocketOptions(
        functools.partial(sockets.protocol, provider=name),
        sockets.socket_request,
        model._sockets,
        model.limits.max_event_bytes,
    )


def in_output_mode(model: PlannedModel, request: Request) -> tuple[Request, Callable[[Decoder], Decoder]]:
    """The request for its structured-output mode, and a function that wraps the response decoder."""
    if request.response_format is None:
        return request, _unchanged
    from llmstream.structured import in_mode  # imported only for structured output

    adapted = in_mode(request, model.provider.dialect.output_abilities(request))
    return adapted.request, adapted.reading


def _plan(model: PlannedModel, request: Request, given: Options, call_id: str, **ways: Any) -> Plan:
    """The plan of a call; `ways`: functions that prepare, decode and resume it."""
    return Plan(
        provider=model.provider.name,
        decode_error=model._decode_error,
        vendor=model.provider,
        deadlines=given.get("deadlines") or model.deadlines,
        retry=given.get("retry") or model.retry,
        session=model._session,
        include_raw=request.include_raw,
        new_keys=model._renews_keys,
        model=request.model,
        call_id=call_id,
        limiter=model.limiter,
        max_output_tokens=request.settings.max_output_tokens or 0,
        observe=joined(model.observe, given.get("observe")),
        request=request,
        **ways,
    )


def _stored(model: PlannedModel, background: Background, request: Request) -> StoredAnswer:
    """The requests for the rest of a stored answer."""
    return StoredAnswer(
        lambda position: model._addressed(Encoded(background.resume(position)), request),
        lambda position: model._addressed(Encoded(background.look_up(position.response_id)), request),
        background.is_made,
    )


def _continued(
    model: PlannedModel, request: Request, inliner: Inliner, adapter: Adapter | None
) -> Continued | None:
    """Prepares the next request, if the vendor may split the answer to this one."""
    continuation, name = model.provider.dialect.continuation, model.provider.name
    if continuation is None or not continuation.continues(request, provider=name):
        return None
    # A new id: with the call's id, a vendor could treat it as a duplicate of the same request.
    return lambda place: model._prepare(
        continuation.continued(request, place, provider=name), _new_id(), inliner, adapter=adapter
    )


def _unchanged(decoder: Decoder) -> Decoder:
    return decoder


def _new_id() -> str:
    """128 random bits. Not a secret, so the system's generator, ten times slower, is not needed."""
    return f"{random.getrandbits(128):032x}"


def check_transport(transport: str, provider: Provider) -> None:
    """Checks that the provider supports the transport.

    raises: InvalidRequest, Unsupported
    """
    if transport not in ("http", "websocket"):
        raise InvalidRequest(f'transport must be "http" or "websocket", got {transport!r}')
    if transport == "websocket" and provider.dialect.sockets is None:
        raise Unsupported(
            f'{provider.name} does not support WebSockets. Leave out transport="websocket", or use '
            "openai-responses, azure-responses or xai-responses.",
            provider=provider.name,
        )
