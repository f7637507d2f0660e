"""Sends HTTP requests to vendors and reads the bodies of their responses; WebSockets: `websocket.py`."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Final, Protocol
from urllib.parse import urlsplit

import aiohttp
from aiohttp.connector import Connection
from yarl import URL

from llmstream.errors import (
    DecodeError,
    InvalidRequest,
    LimitExceeded,
    LLMStreamError,
    ProtocolError,
    RedirectRefused,
)
from llmstream.exchange import HttpRequest, shown_address
from llmstream.transport.aiohttp_patches import (
    CarefulProtocol,
    Exchange,
    LargeBody,
    WholeRequest,
    divert,
    exchange,
)
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.egress import check_may_leave, proxy_for
from llmstream.transport.failures import login_wanted, typed_failure
from llmstream.transport.sessions import READ_BUFFER_BYTES, current_session, is_untouched

__all__ = [
    "ENCODINGS",
    "Body",
    "Response",
    "check_answer",
    "check_headers",
    "connect_ahead",
    "parsed_url",
    "send",
    "tapped",
]

# Sufficient for any vendor's message, and for the excerpt that an error shows. Some servers send an error
# page of hundreds of megabytes, or one that never ends.
_ERROR_BODY_BYTES: Final = 64 * 1024
_ERROR_BODY_S: Final = 5.0
# Below 1 MiB, from which on aiohttp warns that writing bytes at once blocks the loop.
_LARGE_BODY_BYTES: Final = 512 * 1024
ENCODINGS: Final = frozenset({"", "identity", "gzip", "deflate", "br", "zstd"})
"""Encodings that aiohttp decodes, or rejects if the package for one is missing."""
# Reading this much after a complete answer is cheaper than a new connection with its TLS handshake.
# A server that floods or stalls after the end costs no more than this.
_DRAIN_BYTES: Final = 64 * 1024
_DRAIN_S: Final = 0.25
_STATUS_REDIRECT: Final = range(300, 400)
_STATUS_PART: Final = 206
_STATUS_PROXY: Final = 407
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2


tapped: ContextVar[Callable[[HttpRequest, Response], object] | None] = ContextVar("tapped", default=None)
"""Called in this task with each request and the head of its response; see `Response.tap`."""


class Body(Protocol):
    """The body of an answer, over any transport; see `Response`."""

    status: int
    headers: dict[str, str]
    url: str

    async def read(self) -> bytes:
        """The next piece; b"" at the end."""
        ...

    async def read_error(self) -> bytes:
        """Status, headers and body of an error response."""
        ...

    async def read_all(self, max_bytes: int) -> bytes:
        """A complete response that is not streamed."""
        ...

    def abort(self, error: LLMStreamError) -> None:
        """Closes the connection at once; reads raise this error."""
        ...

    def close(self) -> None:
        """Closes the connection at once."""
        ...

    async def finish(self) -> None:
        """Returns the connection to the pool, if it can be reused."""
        ...


class Response:
    """An answer whose body is read piece by piece.

    url:     of the request; it may contain a key
    headers: names in lower case
    """

    def __init__(self, response: aiohttp.ClientResponse, host: str, url: str = "") -> None:
        self.url = url
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        # Bound once, because it is called for every piece of every body.
        self._readany = response.content.readany
        self._host = host
        self._aborted: LLMStreamError | None = None
        self._failure: LLMStreamError | None = None
        self._on_piece: Callable[[bytes], object] | None = None

    def tap(self, on_piece: Callable[[bytes], object]) -> None:
        """Calls `on_piece` with each piece read from now on, and with b"" at the end of the body."""
        self._on_piece, readany = on_piece, self._readany

        async def read() -> bytes:
            piece = await readany()
            on_piece(piece)
            return piece

        self._readany = read

    async def read(self) -> bytes:
        """The next piece of the body, with all bytes that have arrived; b"" at its end.

        raises: TransportError, StreamError; only after all bytes before the fault were returned
        """
        if self._failure is None:
            try:
                return await self._readany()
            except Exception as error:
                self._failure = self._aborted or typed_failure(error, self._host, answered=True)
            if self._aborted is None and (rest := self._unread_bytes()):
                if self._on_piece is not None:
                    self._on_piece(rest)
                return rest
        # Raised where no exception is handled: aiohttp's own would reference the request headers.
        raise self._failure

    def divert(self, take: Callable[[bytes], bool]) -> None:
        """Passes pieces to `take` as they arrive while the next `read` waits; see `aiohttp_patches.divert`.

        Not for a tapped body, or one that is not on llmstream's own connections.
        """
        if self._on_piece is None:
            divert(self._response.content, take)

    def _unread_bytes(self) -> bytes:
        """The unread bytes of a broken body, which its own `read` would not return."""
        try:
            return self._response.content._read_nowait(-1)
        except Exception:  # an unreadable buffer contains no data
            return b""

    async def read_error(self) -> bytes:
        """The body of an error response: the part that arrives within 5 s, at most 64 KiB."""
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(_ERROR_BODY_S):
                while size < _ERROR_BODY_BYTES and (piece := await self.read()):
                    pieces.append(piece)
                    size += len(piece)
        except (LLMStreamError, TimeoutError):
            pass  # the status matters more than an error in the body
        return b"".join(pieces)[:_ERROR_BODY_BYTES]

    async def read_all(self, max_bytes: int) -> bytes:
        """Reads the complete body of a response that is not streamed.

        raises: TransportError, StreamError; LimitExceeded past max_bytes
        """
        pieces: list[bytes] = []
        size = 0
        while piece := await self.read():
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                raise LimitExceeded(f"the response of {self._host} is longer than {max_bytes} bytes")
        return b"".join(pieces)

    def abort(self, error: LLMStreamError) -> None:
        """Closes the socket at once; a waiting read and every later one raise `error`."""
        self._aborted = error
        # Before the close, whose own ClientConnectionError would otherwise reach the reader.
        self._response.content.set_exception(error)
        self._response.close()

    def close(self) -> None:
        """Closes the socket at once, unless the body is complete and the connection can be reused."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()

    async def finish(self) -> None:
        """Returns the connection to the pool if the rest of the body is short, else closes it."""
        content, size = self._response.content, 0
        if content.at_eof():
            self.close()
            return
        # Wakes the read below. asyncio.timeout would cancel the task instead, at three times the cost.
        timer = asyncio.get_running_loop().call_later(_DRAIN_S, content.set_exception, TimeoutError())
        try:
            while size < _DRAIN_BYTES and not content.at_eof():
                size += len(await self._readany())
        # The unread rest of a pooled connection would become the response to the next request.
        except (Exception, asyncio.CancelledError) as error:
            self._response.close()
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            self.close()
        finally:
            timer.cancel()


async def send(
    request: HttpRequest,
    deadlines: Deadlines,
    session: aiohttp.ClientSession | None = None,
    *,
    fresh: bool = False,
) -> Response:
    """Sends one request and waits for the response headers.

    session: the caller's own; by default the pooled one of the running loop
    fresh:   use a new connection, so that the request is certainly written once
    raises:  TransportError, InvalidRequest; RedirectRefused for any 3xx, ProxyError for 407
    """
    url, scheme, host, port = parsed_url(request.url)
    check_may_leave(host)
    check_headers(request.headers)
    response = await _request(session, request, url, deadlines, proxy_for(scheme, host, port), fresh=fresh)
    check_answer(response, host)
    encoding = response.headers.get("content-encoding", "").strip().lower()
    # aiohttp returns the bytes of an unknown encoding unchanged; they would look like a broken stream.
    if encoding not in ENCODINGS and response.status < 400:  # for an error response, the status is enough
        response.close()
        raise DecodeError(
            f"{host} responds with an unknown content-encoding that was not requested: {encoding!r}",
            status=response.status,
        )
    answer = Response(response, host, request.url)
    if (tap := tapped.get()) is not None:
        tap(request, answer)
    return answer


async def connect_ahead(
    address: str, deadlines: Deadlines, session: aiohttp.ClientSession | None = None
) -> None:
    """Opens a connection, TLS included, which the next request to this server takes from the pool.

    raises: TransportError, InvalidRequest
    """
    url, scheme, host, port = parsed_url(address)
    check_may_leave(host)
    session = await current_session() if session is None else session
    proxy, before = proxy_for(scheme, host, port), exchange.set(Exchange())
    try:
        prepared = _client_request(session, url, "GET", proxy=proxy)
        connection = await _connected(session, prepared, deadlines)
        if isinstance(connection.protocol, CarefulProtocol):
            # The server may close it before it is used; the request is then sent again, as on a used one.
            connection.protocol.served = True
        connection.release()
        return
    except Exception as error:
        failure = typed_failure(error, host, answered=False, proxy=proxy)
    finally:
        exchange.reset(before)
    raise failure


def check_answer(response: aiohttp.ClientResponse, host: str) -> None:
    """Checks that the response comes from the requested server; otherwise closes it.

    raises: RedirectRefused for any 3xx, ProxyError for 407, ProtocolError
    """
    if response.status in _STATUS_REDIRECT:
        response.close()
        target = _target(response.headers.get("location", ""))
        raise RedirectRefused(
            f"{host} redirects to {target}; redirects are not followed, because keys would be sent along. "
            "Set base_url to the final address.",
            status=response.status,
        )
    if strange := _strange_head(response):
        response.close()
        raise ProtocolError(f"{host} violates HTTP: {strange}", status=response.status)
    if response.status == _STATUS_PROXY:  # for plain http the proxy responds itself; a vendor never sends 407
        response.close()
        raise login_wanted(host)


def _strange_head(response: aiohttp.ClientResponse) -> str:
    """A description of what is invalid in the response headers; "" if they are valid."""
    version = response.version
    if version is not None and version.major != 1:
        return f"an answer of HTTP/{version.major}.{version.minor} to a request of HTTP/1.1"
    if response.status == _STATUS_PART:
        return "a part of an answer (HTTP 206), though no part was requested"
    return ""


@functools.lru_cache(maxsize=256)
def parsed_url(url: str) -> tuple[URL, str, str, int | None]:
    """An address in aiohttp's form, and its scheme, host and port (None if it has none)."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return URL(url, encoded=True), parts.scheme, parts.hostname, parts.port
    except ValueError:  # invalid port, unclosed bracket, or invalid host name
        pass
    raise InvalidRequest(f"not an http or https address: {shown_address(url)}. Check base_url.")


def _target(location: str) -> str:
    """The target of a redirect, for messages."""
    try:
        return urlsplit(location).hostname or "another path"
    except ValueError:
        return "an invalid address"


async def _request(
    session: aiohttp.ClientSession | None,
    request: HttpRequest,
    url: URL,
    deadlines: Deadlines,
    proxy: str | None,
    *,
    fresh: bool,
) -> aiohttp.ClientResponse:
    """Sends the request; a second time, on a new connection, if a reused one had been closed.

    Not after the first byte of a response: the server had the request then, and may have acted on it.
    """
    current = Exchange(fresh=fresh)
    while True:
        before = exchange.set(current)
        try:
            if session is None and is_untouched(ours := await current_session()):
                return await _send_over_own_pool(ours, request, url, deadlines, proxy)
            return await _send_over_session(
                session or await current_session(), request, url, deadlines, proxy
            )
        except Exception as error:
            # aiohttp repeats a GET on a connection that the server has closed meanwhile, but never a POST.
            if current.reused and not current.answered and _server_had_closed(error):
                current = Exchange(fresh=True)  # so it cannot be a reused one
                continue
            failure = typed_failure(error, url.raw_host or "", answered=False, proxy=proxy)
        finally:
            exchange.reset(before)
        raise failure  # outside the handler: aiohttp's exception would reference the request headers


async def _send_over_own_pool(
    session: aiohttp.ClientSession, request: HttpRequest, url: URL, deadlines: Deadlines, proxy: str | None
) -> aiohttp.ClientResponse:
    """Sends the request over the pool of our own session, if nothing has modified that.

    Not through `ClientSession.request`, which first handles cookies, redirects, traces and logins. Our
    session has none, and that took a tenth of the work before a request is sent.
    """
    prepared = _client_request(
        session, url, request.method, _headers(request), proxy, _payload(request.body) or None
    )
    connection = await _connected(session, prepared, deadlines)
    try:
        assert connection.protocol is not None  # until it is released
        connection.protocol.set_response_params(read_until_eof=True, read_bufsize=READ_BUFFER_BYTES)
        response = await prepared.send(connection)
        try:
            return await response.start(connection)
        except BaseException:
            response.close()
            raise
    except BaseException:
        connection.close()
        raise


def _client_request(
    session: aiohttp.ClientSession,
    url: URL,
    method: str,
    headers: dict[str, str] | None = None,
    proxy: str | None = None,
    data: bytes | LargeBody | None = None,
) -> WholeRequest:
    try:
        by = None if proxy is None else URL(proxy)
    except ValueError as error:
        raise aiohttp.InvalidURL(proxy or "") from error
    loop = asyncio.get_running_loop()
    return WholeRequest(method, url, headers=headers, data=data, proxy=by, loop=loop, session=session)


async def _connected(
    session: aiohttp.ClientSession, prepared: WholeRequest, deadlines: Deadlines
) -> Connection:
    assert session.connector is not None  # because the session is open
    try:
        return await session.connector.connect(prepared, [], _timeout(deadlines.connect_s))
    except TimeoutError as error:
        raise aiohttp.ConnectionTimeoutError from error


async def _send_over_session(
    session: aiohttp.ClientSession,
    request: HttpRequest,
    url: URL,
    deadlines: Deadlines,
    proxy: str | None,
) -> aiohttp.ClientResponse:
    """Sends the request through the caller's session."""
    return await session.request(
        request.method,
        url,
        data=_payload(request.body),
        headers=_headers(request),
        # aiohttp would send the key to another host, and turn a POST into a GET at a 303.
        allow_redirects=False,
        auto_decompress=True,
        raise_for_status=False,  # the caller's session may be configured otherwise
        proxy=proxy,
        timeout=_timeout(deadlines.connect_s),
    )


def _headers(request: HttpRequest) -> dict[str, str]:
    # A server's compressor may buffer events until its block is full.
    return {"accept-encoding": "identity", **request.headers}


@functools.lru_cache(maxsize=16)
def _timeout(connect_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect_s)


def _payload(body: bytes) -> bytes | LargeBody:
    """The body for aiohttp: a large one in pieces, because aiohttp warns of one that blocks the loop."""
    return LargeBody(body) if len(body) > _LARGE_BODY_BYTES else body


def _server_had_closed(error: Exception) -> bool:
    """Whether the server had closed or reset a reused connection."""
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientConnectionResetError):
        return True
    return isinstance(error, aiohttp.ClientOSError) and not isinstance(error, aiohttp.ClientConnectorError)


def check_headers(headers: Mapping[str, str]) -> None:
    """Checks that HTTP can carry the headers: all at once, and one by one only if that fails.

    raises: InvalidRequest
    """
    try:
        names, values = "".join(headers), "".join(headers.values())
    except TypeError:
        names = values = ""
    if not (values.isascii() and values.isprintable() and _are_tokens(names) and "" not in headers):
        for name, value in headers.items():
            _check_header(name, value)


@functools.lru_cache(maxsize=64)  # calls mostly repeat the same names
def _are_tokens(names: str) -> bool:
    return _TOKEN.fullmatch(names) is not None


def _check_header(name: object, value: object) -> None:
    if not isinstance(name, str):
        raise InvalidRequest(f"the name of a header is text, not {type(name).__name__}")
    if not _TOKEN.fullmatch(name):
        raise InvalidRequest(f"{name!r} is not the name of a header")
    if not isinstance(value, str):
        raise InvalidRequest(f"the header {name!r} is text, not {type(value).__name__}")
    if not value.isprintable():
        raise InvalidRequest(
            f"the header {name!r} contains a control character; headers are one line of text"
        )
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidRequest(f"the header {name!r} contains characters that HTTP does not allow") from None
