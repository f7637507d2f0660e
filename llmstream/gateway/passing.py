"""The pass lane: if the client uses the vendor's wire, bytes are forwarded unchanged.

Credentials and hop-by-hop headers are exchanged, and the model's name where the route has another. A decoder
monitors usage, the first content and truncation, and cannot change a byte.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import re
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

from llmstream.chats.message import Message
from llmstream.dialects.base import Dialect, Encoded
from llmstream.errors import BadRequest, IncompleteStream, LLMStreamError
from llmstream.exchange import HttpRequest, HttpResponse, carries_secret
from llmstream.gateway.accounts import Account
from llmstream.gateway.client_wire import (
    MODEL_IN_PATH,
    ClientCall,
    is_our_fault,
    sent_headers,
    with_model,
)
from llmstream.gateway.draining import Drains
from llmstream.gateway.reading_along import ResponseMonitor, StreamMonitor
from llmstream.gateway.routes import sibling_providers
from llmstream.providers.base import Provider
from llmstream.providers.registry import find_provider
from llmstream.request import Request, Settings
from llmstream.serve.body import Body
from llmstream.serve.writers import UNBUFFERED
from llmstream.streams.attempts import worth_another
from llmstream.streams.model import Model
from llmstream.transport.deadlines import Watchdog, deadline_error
from llmstream.transport.http import Response, send

__all__ = ["Fallbacks", "needs_http", "open_passed", "other_path", "passable", "socket_model", "vendor_path"]

# As `serve.Body` waits for the status of a translated response.
_HOLD_S: Final = 10.0

# As written in JSON, plain and in base64: see `carrying.MARK`.
_ENVELOPES: Final = (b'"ls1.', b'"bHMxL')

# Headers of a vendor's response that clients read: content type, ids for support, limits and retry times.
_SENT_BACK: Final = re.compile(
    r"content-type|content-length|content-disposition|.*request-?id|retry-after(-ms)?|x-should-retry|.*rate-?limit.*"
    r"|anthropic-(?!organization).*|openai-(?!organization|project).*|x-amzn-(?!remapped).*"
)


def passable(client: ClientCall, model: Model[Any], lane: str) -> Model[Any] | None:
    """Returns the model on the client's own wire; None if the call has to be translated."""
    # An opener (of tests or middleware) replaces the vendor, so there are no bytes to pass.
    if lane == "translate" or model._opener is not None:
        return None
    if any(mark in client.http.body for mark in _ENVELOPES):
        return None  # signatures of another vendor, in envelopes that this one would reject
    ours = client.side.dialect
    if _is_same_wire(ours, model.provider.dialect):
        return model
    # The vendor may serve the client's wire as another provider, at its usual address.
    for name in sibling_providers(model.provider.name) if model.base_url is None else ():
        provider = find_provider(name)
        if _is_same_wire(ours, provider.dialect) and _is_same_vendor(provider, model.provider):
            found = copy.copy(model)
            found.provider = provider
            return found
    return None


@functools.lru_cache(maxsize=512)
def _is_same_wire(ours: Dialect, theirs: Dialect) -> bool:
    """Claude on a cloud has the name of Anthropic's dialect, but another framing or place of the model."""
    if ours.name != theirs.name or ours.content_type != theirs.content_type:
        return False
    return bool(MODEL_IN_PATH.search(vendor_path(ours, "m"))) == bool(
        MODEL_IN_PATH.search(vendor_path(theirs, "m"))
    )


def _is_same_vendor(one: Provider, other: Provider) -> bool:
    # Both must use the same key: otherwise the request would send one vendor's key to another.
    return one.key_env == other.key_env and one.base_url.split("/")[2:3] == other.base_url.split("/")[2:3]


@functools.lru_cache(maxsize=512)
def vendor_path(dialect: Dialect, model: str, provider: str = "") -> str:
    """The path of a dialect, from a sample request; one per call would be a fifth of the call's cost."""
    asked = Request(model=model, messages=(Message.user("Hi"),), settings=Settings(max_output_tokens=16))
    return dialect.encode(asked, provider=provider or dialect.name).http.url.partition("?")[0]


# The path prefix of clients of a wire, if it is part of the vendor's base URL.
_PREFIXES: Final = {
    "openai-chat": "/v1",
    "openai-responses": "/v1",
    "gemini": "/v1beta",
    "gemini-interactions": "/v1beta",
    "mistral": "/mistral/v1",
}


def other_path(dialect: Dialect, path: str) -> str | None:
    """A client's path outside all wires, relative to the vendor's base URL; None if it is not below it."""
    prefix = _PREFIXES.get(dialect.name, "")
    within = path.startswith(f"{prefix}/") and not any(
        step in ("..", ".") for step in unquote(path).split("/")
    )
    return path.removeprefix(prefix) if within else None


def _vendor_url(client: ClientCall, model: Model[Any], url: str) -> str:
    """The client's path and query at the vendor, relative to its base URL.

    url: the client's, with the model's name
    """
    own, _, query = url.partition("?")
    # Google also accepts a key in the query.
    kept = "&".join(one for one in query.split("&") if one and not carries_secret(one.partition("=")[0]))
    theirs = other_path(model.provider.dialect, own) if client.other else None
    if theirs is None:
        theirs = vendor_path(model.provider.dialect, model.name, model.provider.name)
        asked, place = MODEL_IN_PATH.search(own), MODEL_IN_PATH.search(theirs)
        if asked is not None and place is not None:
            theirs = theirs[: place.end()] + own[asked.end() :]
    return theirs + (f"?{kept}" if kept else "")


def _returned_headers(response: Response, *, streamed: bool) -> dict[str, str]:
    kept = {name: value for name, value in response.headers.items() if _SENT_BACK.fullmatch(name)}
    if streamed or "content-encoding" in response.headers:
        kept.pop("content-length", None)  # aiohttp has decompressed it
    return {**kept, **(UNBUFFERED if streamed else {"cache-control": "no-store"})}


async def open_passed(
    client: ClientCall, model: Model[Any], account: Account, *, more: bool, drains: Drains | None = None
) -> Body:
    """Sends the request on and returns the vendor's response, whatever its status.

    more:   whether another model may answer: then a failure before the first content is raised
    drains: reads the response to its end even if the client disconnects
    raises: LLMStreamError if there is no response, or it must not reach the client
    """
    request = Request(model=model.name)
    is_named = client.model in ("", model.name)
    # No other byte of the body changes, so that unknown fields reach the vendor.
    renamed = client.http if is_named else with_model(client.http, model.name)
    http = HttpRequest(_vendor_url(client, model, renamed.url), renamed.body, {}, client.http.method)
    prepared = await model._addressed(Encoded(http), request, sent_headers(client.http.headers))
    response = await _head(prepared.http, model)
    try:
        if response.status >= 400:
            return await _refusal(response, model, account, prepared.secrets(), more=more)
        passing = _Passing(client, model, response, account)
    except BaseException:
        response.close()
        raise
    if more:
        await passing.hold()
    source = passing if drains is None else drains.of(passing, account)
    return Body.of_bytes(
        source,
        _returned_headers(response, streamed=client.streamed),
        status=response.status,
        direct=True,
    )


async def _head(http: HttpRequest, model: Model[Any]) -> Response:
    limit_s = model.deadlines.first_event_s
    try:
        async with asyncio.timeout(limit_s):
            return await send(http, model.deadlines, model._session)
    except TimeoutError:
        raise deadline_error("first-event", limit_s or 0) from None


async def _refusal(
    response: Response, model: Model[Any], account: Account, secrets: tuple[str, ...], *, more: bool
) -> Body:
    """Returns the vendor's refusal.

    raises: LLMStreamError if it is about the gateway's own account, or another model may answer
    """
    body = await response.read_error()
    response.close()
    error = model._decode_error(response.status, response.headers, body)
    if is_our_fault(error.info) or (more and worth_another(error)):
        raise error
    # Vendors quote part of the refused key.
    for secret in secrets:
        body = body.replace(secret.encode(), b"***")
    account.failed(error.info)
    account.settle()
    headers = _returned_headers(response, streamed=False)
    headers.pop("content-length", None)  # only the beginning of a long page is passed
    return Body.complete(HttpResponse(response.status, body, {**headers, "x-llmstream-error": error.code}))


class _Passing:
    """The bytes of one response, with monitoring. Closing it closes the vendor's socket."""

    def __init__(self, client: ClientCall, model: Model[Any], response: Response, account: Account) -> None:
        self._response = response
        self._account = account
        self._held: list[bytes] = []
        self._ended = False
        self._write: Callable[[bytes], bool] | None = None
        # Deadlines apply on this lane too: nothing else ends the wait for a silent vendor.
        now = asyncio.get_running_loop().time
        self._now = now
        self._watchdog = Watchdog(model.deadlines, response.abort, started=now(), total_started=now())
        provider = model.provider
        self._reading: StreamMonitor | ResponseMonitor = (
            StreamMonitor(provider.dialect.decoder(provider=provider.name), account, self._watchdog)
            if client.streamed
            else ResponseMonitor(account, response.headers.get("content-type", ""), other=client.other)
        )

    async def hold(self) -> None:
        """Reads up to the first content, or until the client must get its response headers.

        raises: LLMStreamError if the response failed before
        """
        try:
            async with asyncio.timeout(_HOLD_S):
                await self._hold()
        except TimeoutError:
            pass  # from now on, the client gets this response
        except BaseException:
            self._leave()
            raise

    async def _hold(self) -> None:
        while not self._account.began:
            piece = await self._read()
            if not piece:
                self._reading.end()
                if self._reading.failure is not None:
                    raise self._reading.failure
                self._ended = True
                return
            self._held.append(piece)
            if self._reading.failure is not None and not self._account.began:
                raise self._reading.failure

    def __aiter__(self) -> _Passing:
        return self

    def pour(self, write: Callable[[bytes], bool]) -> None:
        """Writes pieces as they arrive; see `serve.Body.pour`."""
        self._write = write

    def _forward(self, piece: bytes) -> bool:
        """Forwards a piece in the callback of its socket."""
        assert self._write is not None  # by the caller
        if not self._write(piece):
            return False
        self._watchdog.waiting_since = self._now()
        self._reading.feed(piece)
        return True

    async def __anext__(self) -> bytes:
        if self._held:
            return self._held.pop(0)
        if not self._ended:
            if self._write is not None:
                self._response.divert(self._forward)
            # As `_read`; each additional coroutine between the socket and the client costs as much as a
            # decoder.
            self._watchdog.waiting_since = self._now()
            try:
                piece = await self._response.read()
            except LLMStreamError as error:
                self._account.failed(error.info)
                raise
            self._watchdog.waiting_since = None
            if piece:
                self._reading.feed(piece)
                return piece
        self._ended = True
        self._reading.end()
        if self._reading.failure is not None:
            self._account.failed(self._reading.failure.info)
        if self._reading.truncated:
            # A clean end would make it look complete, so the connection must be cut.
            raise self._reading.failure or IncompleteStream("the response broke off")
        raise StopAsyncIteration

    async def _read(self) -> bytes:
        # Only our wait for the vendor counts: a slow client must not time out the vendor.
        self._watchdog.waiting_since = self._now()
        try:
            piece = await self._response.read()
        except LLMStreamError as error:
            self._account.failed(error.info)
            raise
        self._watchdog.waiting_since = None
        if piece:
            self._reading.feed(piece)
        return piece

    async def aclose(self) -> None:
        """Closes the vendor's socket, unless the body is complete, and settles the account."""
        self._leave()
        self._account.settle()

    def _leave(self) -> None:
        self._watchdog.stop()
        self._response.close()
        self._reading.leave()


# WebSockets, which pass or are refused.

# Long enough for the retries of a client, short enough to expire soon after its settings have changed.
_FALLBACK_S: Final = 60.0
_MAX_FALLBACKS: Final = 1_000


def needs_http(what: str) -> BadRequest:
    """Returns the refusal upon which clients use HTTP."""
    return BadRequest(
        f"{what} has no WebSocket through this gateway. Use HTTP.", status=426, reason="websocket_unsupported"
    )


def socket_model(client: ClientCall, model: Model[Any], lane: str) -> Model[Any] | None:
    """Returns the model on the client's own wire, whose vendor has sockets; None if there is none."""
    found = passable(client, model, lane)
    return found if found is not None and found.provider.dialect.sockets is not None else None


class Fallbacks:
    """Clients whose sockets requested something that needs HTTP: their next handshake is refused, so that
    they use HTTP.

    By key and program: the model is not known yet at the handshake.
    """

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}

    def add(self, http: HttpRequest, key_name: str) -> None:
        """Records a client."""
        if len(self._until) >= _MAX_FALLBACKS:
            self._until.clear()
        self._until[key_name, http.headers.get("user-agent", "")] = time.monotonic() + _FALLBACK_S

    def has(self, http: HttpRequest, key_name: str) -> bool:
        """Whether a client was recorded recently."""
        until = self._until.get((key_name, http.headers.get("user-agent", "")), 0.0)
        return time.monotonic() < until
