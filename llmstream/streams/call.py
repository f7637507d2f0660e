"""A call of a model: the interface that a stream reads, and the plan that an HTTP call follows."""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from llmstream.accumulate.blocks import OWN_KEY
from llmstream.chats.content import Part
from llmstream.chats.message import Message
from llmstream.dialects.base import Decoder, Encoded, Place, Position
from llmstream.errors import LLMStreamError
from llmstream.events import Event, Usage
from llmstream.exchange import HttpRequest, carries_secret, carries_secret_parameter
from llmstream.providers.base import Provider
from llmstream.request import Request
from llmstream.streams.attempts import Adapter
from llmstream.streams.observations import Observe
from llmstream.streams.options import Options
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.limiter import RateLimiter
from llmstream.transport.retry import Retry

if TYPE_CHECKING:
    import aiohttp

    from llmstream.transport.socket_body import SocketWay

__all__ = [
    "Call",
    "CallingModel",
    "Continued",
    "KeptAnswer",
    "Plan",
    "Prepared",
    "ResponseInfo",
    "ResumeToken",
    "mark_message",
    "rate_headers",
    "secrets_of",
    "unmarked",
]

_MARKS: Final = ("provider", "model", "id", "request_id")
"""Fields of the response that its message stores, as flat texts: objects there are the vendors'."""

_RETRY_HEADERS: Final = ("retry-after", "retry-after-ms")

_SHORTEST_SECRET: Final = 6
"""Shorter keys are placeholders; masking them would damage the vendor's message."""


class ResumeToken(msgspec.Struct, frozen=True):
    """A position in an answer that its vendor stores, for `Model.reattach` in any process.

    Plain data: `msgspec.json.encode` writes it, `msgspec.json.decode(..., type=ResumeToken)` reads it.
    It contains no key, and is useless without the key that requested the answer.

    sequence_number: of the last vendor event that was read completely; -1 for none
    """

    provider: str
    model: str
    response_id: str
    sequence_number: int = -1


class Call(Protocol):
    """Reads one response. Implemented by `HTTPCall`, by middleware and by scripted models.

    error:   the error to raise at the end of iteration, or None
    earlier: the value of `position` before the last batch
    """

    error: LLMStreamError | None
    earlier: Position | None

    @property
    def usage(self) -> Usage:
        """Usage as far as the vendor has reported it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the last response, names in lower case."""

    @property
    def answered_by(self) -> str | None:
        """ "provider:model" if a model other than the called one responds; else None."""

    @property
    def position(self) -> Position | None:
        """The position after the last batch, if the vendor stores the response; else None."""

    async def next(self) -> list[Event]:
        """Waits for the next events and returns at least one; [] at the end."""

    def close(self) -> None:
        """Leaves at once: closes the socket and ends a pending read."""

    async def aclose(self) -> None:
        """Leaves as `close` does, and waits for cleanup."""

    async def steer(self, content: Sequence[Part]) -> None:
        """Sends input to the model while it responds.

        raises: Unsupported if the transport cannot do that
        """


class CallingModel(Protocol):
    """The part of `Model` that a stream needs; `model.py` imports streams, so they cannot import it."""

    name: str
    provider: Provider
    options: Options
    deadlines: Deadlines

    def call(self, request: Request, options: Options | None = None, *, started: float | None = None) -> Call:
        """Creates a call; nothing is sent yet."""

    def reattached_call(
        self,
        token: ResumeToken,
        request: Request,
        options: Options | None = None,
        *,
        whole: bool = False,
        started: float | None = None,
    ) -> Call:
        """Creates a call that reads a stored answer."""

    async def cancel(self, token: ResumeToken) -> None:
        """Ends an answer that the vendor stores."""

    def other(self, spec: str) -> CallingModel:
        """Another model, by its spec."""


class Prepared(msgspec.Struct, frozen=True):
    """A request ready to be sent, with its warnings.

    secrets: returns the texts to mask in errors, because the vendor may echo them
    """

    encoded: Encoded
    http: HttpRequest
    secrets: Callable[[], tuple[str, ...]] = tuple

    def __repr__(self) -> str:
        return f"Prepared({self.http!r})"


def secrets_of(key: str | None, headers: Mapping[str, str], url: str = "") -> tuple[str, ...]:
    """The texts that no error may show, longest first.

    These are the key, credentials in headers and in the URL, and passwords of proxies.
    """
    from urllib.parse import unquote, urlsplit  # both are loaded with the first failure

    from llmstream.transport.proxies import proxy_secrets

    found = {key or "", *proxy_secrets(), unquote(urlsplit(url).password or "")}
    for name, value in headers.items():
        # Anything but text is refused with a typed error before it is sent.
        if isinstance(name, str) and isinstance(value, str) and carries_secret(name):
            found |= {value, value.rpartition(" ")[2]}  # also without the word Bearer
            if name.lower() == "cookie":
                found |= {cookie.partition("=")[2].strip() for cookie in value.split(";")}
    for parameter in url.partition("?")[2].split("&"):
        name, _, value = parameter.partition("=")
        if carries_secret_parameter(name):
            found |= {value, unquote(value)}
    return tuple(sorted([s for s in found if len(s) >= _SHORTEST_SECRET], key=len, reverse=True))


Continued: TypeAlias = Callable[[Place], Awaitable[Prepared]]
"""Prepares the request that continues a cut answer at a place."""


class KeptAnswer(msgspec.Struct, frozen=True):
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

    prepare:     called before each attempt, because keys and signatures expire
    explain:     adds to an error what its URL reveals about the cause
    new_keys:    whether `prepare` may use another key after a refusal
    model, call_id: identify the call in observations
    request:     for observers with `wants_content`
    adapter:     removes refused fields from requests; None to keep them
    kept:        requests for the stored answer, if it should be resumed after a break
    learn:       whether a refusal (URL, status, headers, body) makes another attempt useful
    follows:     whether `decoder` may return a decoder of stored answers
    continued:   prepares the next request, if the vendor splits long answers and they should continue
    sockets:     how it uses a WebSocket; None for HTTP
    max_output_tokens: of the request, for the limiter's estimate
    """

    provider: str
    prepare: Callable[[], Awaitable[Prepared]]
    decoder: Callable[[], Decoder]
    decode_error: Callable[[int, dict[str, str], bytes], LLMStreamError]
    content_type: str
    explain: Callable[[LLMStreamError, HttpRequest], None] = lambda error, http: None
    learn: Callable[[str, int, dict[str, str], bytes], bool] = lambda *_: False
    deadlines: Deadlines = Deadlines()
    retry: Retry = Retry()
    session: aiohttp.ClientSession | None = None
    include_raw: bool = False
    new_keys: bool = False
    adapter: Adapter | None = None
    kept: KeptAnswer | None = None
    follows: bool = True
    continued: Continued | None = None
    sockets: SocketWay | None = None
    model: str = ""
    call_id: str = ""
    limiter: RateLimiter | None = None
    max_output_tokens: int = 0
    observe: Observe | None = None
    request: Request | None = None


class ResponseInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Data about one response; None for what the vendor has not reported, or not yet.

    provider:   that responded; after a fallback not the one of the request
    model:      the requested model: prices are keyed by "provider:model"
    model_id:   the vendor's name for it, often with a date
    id:         of the response
    request_id: of the HTTP exchange, for the vendor's support
    timestamp:  when the vendor created the response
    headers:    about rate limits, names in lower case
    """

    provider: str
    model: str
    id: str | None = None
    model_id: str | None = None
    request_id: str | None = None
    timestamp: datetime.datetime | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)


def rate_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers about rate limits and waits; no other header of a response is stored."""
    return {
        name: value
        for name, value in headers.items()
        if "ratelimit" in name or "rate-limit" in name or name in _RETRY_HEADERS
    }


def mark_message(message: Message, response: ResponseInfo) -> None:
    """Stores provider, model and ids in the message's metadata, under "llmstream"."""
    own = (message.metadata or {}).get(OWN_KEY, {})
    marks = {name: value for name in _MARKS if (value := getattr(response, name)) is not None}
    message.set_meta(OWN_KEY, {**own, **marks})


def unmarked(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """The metadata without the fields of `mark_message`, to compare conversations that differ only in ids."""
    own = (metadata or {}).get(OWN_KEY)
    if metadata is None or not isinstance(own, dict):
        return metadata
    rest = {name: value for name, value in own.items() if name not in _MARKS}
    others = {name: value for name, value in metadata.items() if name != OWN_KEY}
    return ({**others, OWN_KEY: rest} if rest else others) or None
