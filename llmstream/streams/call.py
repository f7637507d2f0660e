"""A call of a model: what its reader sees of one, and what the real one needs to know."""

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
"""What the message of a response carries of it: flat texts, since objects here are the vendors' own."""

_RETRY_HEADERS: Final = ("retry-after", "retry-after-ms")

_SHORTEST_SECRET: Final = 6
"""Shorter keys are placeholders; masking them would mangle the vendor's words."""


class ResumeToken(msgspec.Struct, frozen=True):
    """A place in an answer that its vendor keeps, for `Model.reattach`, in any process.

    Plain data: `msgspec.json.encode` writes it, `msgspec.json.decode(..., type=ResumeToken)` reads it.
    It holds no key, and opens nothing without the key with which the answer was asked for.

    sequence_number: of the last event of the wire that the reader has seen whole; -1 is none
    """

    provider: str
    model: str
    response_id: str
    sequence_number: int = -1


class Call(Protocol):
    """One response as it is read. `HTTPCall` is the real one; middleware and scripted models have their own.

    error:   what iteration has to raise at the end, or None
    earlier: what `position` was before the last batch
    """

    error: LLMStreamError | None
    earlier: Position | None

    @property
    def usage(self) -> Usage:
        """Usage as far as the vendor has reported it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Those of the answer that was received last, names in lower case."""

    @property
    def answered_by(self) -> str | None:
        """ "provider:model" where another model than the one that was called answers; else None."""

    @property
    def position(self) -> Position | None:
        """How far an answer that is kept has been given, the last batch included; None of any other."""

    async def next(self) -> list[Event]:
        """The next events that are there, at least one; [] once the response is over."""

    def close(self) -> None:
        """Leaves now: the socket closes. Another task that reads is told."""

    async def aclose(self) -> None:
        """Leaves as `close` does, and waits for what has to be cleaned up by its reader."""

    async def steer(self, content: Sequence[Part]) -> None:
        """Gives the model input while it answers.

        raises: Unsupported where there is no way to
        """


class CallingModel(Protocol):
    """What a stream needs of a `Model`, which knows streams, so that they do not know it."""

    name: str
    provider: Provider
    options: Options
    deadlines: Deadlines

    def call(self, request: Request, options: Options | None = None, *, started: float | None = None) -> Call:
        """One call, not yet made."""

    def reattached_call(
        self,
        token: ResumeToken,
        request: Request,
        options: Options | None = None,
        *,
        whole: bool = False,
        started: float | None = None,
    ) -> Call:
        """One call that reads an answer which is kept."""

    async def cancel(self, token: ResumeToken) -> None:
        """Tells the vendor to make no more of an answer that it keeps."""

    def other(self, spec: str) -> CallingModel:
        """Another model, by its name."""


class Prepared(msgspec.Struct, frozen=True):
    """A request ready to be sent, and what was left out of it.

    secrets: gives the texts that must not appear in an error, should the vendor echo them
    """

    encoded: Encoded
    http: HttpRequest
    secrets: Callable[[], tuple[str, ...]] = tuple

    def __repr__(self) -> str:
        return f"Prepared({self.http!r})"


def secrets_of(key: str | None, headers: Mapping[str, str], url: str = "") -> tuple[str, ...]:
    """What no error may show, longest first.

    The key, what travels in headers and in the address under names of credentials, passwords of proxies.
    """
    from urllib.parse import unquote, urlsplit  # both are loaded with the first failure

    from llmstream.transport.proxies import proxy_secrets

    found = {key or "", *proxy_secrets(), unquote(urlsplit(url).password or "")}
    for name, value in headers.items():
        # What is no text is refused with a typed error before it is sent.
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
"""Makes the request for what follows a place in an answer that its vendor cut."""


class KeptAnswer(msgspec.Struct, frozen=True):
    """The ways to an answer that its vendor keeps.

    reopen:  the request for what comes behind a position, as a stream
    look_up: the request for the answer in one piece, as far as it is made
    is_made: whether the answer to `look_up` is the whole
    """

    reopen: Callable[[Position], Awaitable[Prepared]]
    look_up: Callable[[Position], Awaitable[Prepared]]
    is_made: Callable[[bytes], bool]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a call needs to know.

    prepare:     asked before each attempt, since keys and signatures grow old
    explain:     adds to an error what the address that was asked tells of it
    new_keys:    whether `prepare` may give another key after a refusal
    model, call_id: what observations of the call are told by
    request: what is asked, for observers that want content
    adapter:     fits requests to what the model refuses; None where refusals stand
    kept:        the ways to an answer that is kept, where it is to be read on after a break
    learn:       takes from a refusal (URL, status, headers, body) what makes another attempt worthwhile
    follows:     whether `decoder` may make one of answers that are kept
    continued:   makes the next request, where the vendor cuts long answers and they are to be continued
    sockets:     how it goes over a WebSocket; None where it goes by HTTP
    max_output_tokens: what the request may be answered with, for the limiter's estimate
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
    """One response, as far as the vendor has reported it; None is what it has not reported, or not yet.

    provider:   who answered; after a fallback not the one who was asked first
    model:      the model that was asked, so that "provider:model" is what prices are known by
    model_id:   what the vendor calls it, often with a date
    id:         of the response
    request_id: of the HTTP exchange, for the vendor's support
    timestamp:  when the vendor made the response
    headers:    those about rate limits, names in lower case
    """

    provider: str
    model: str
    id: str | None = None
    model_id: str | None = None
    request_id: str | None = None
    timestamp: datetime.datetime | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)


def rate_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that tell of rate limits and waits; no other header of an answer is kept."""
    return {
        name: value
        for name, value in headers.items()
        if "ratelimit" in name or "rate-limit" in name or name in _RETRY_HEADERS
    }


def mark_message(message: Message, response: ResponseInfo) -> None:
    """Notes in the message's metadata, under "llmstream", whose answer it is."""
    own = (message.metadata or {}).get(OWN_KEY, {})
    marks = {name: value for name in _MARKS if (value := getattr(response, name)) is not None}
    message.set_meta(OWN_KEY, {**own, **marks})


def unmarked(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """The metadata without those notes: two conversations that differ only in ids are the same."""
    own = (metadata or {}).get(OWN_KEY)
    if metadata is None or not isinstance(own, dict):
        return metadata
    rest = {name: value for name, value in own.items() if name not in _MARKS}
    others = {name: value for name, value in metadata.items() if name != OWN_KEY}
    return ({**others, OWN_KEY: rest} if rest else others) or None
