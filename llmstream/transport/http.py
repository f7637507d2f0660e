"""The one place that opens sockets: a request goes out, an answer comes back piece by piece."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from llmstream.errors import InvalidRequest, LLMStreamError, RedirectRefused
from llmstream.exchange import HttpRequest
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.failures import typed_failure
from llmstream.transport.sessions import current_session, proxy_for

__all__ = ["Response", "send"]

_ERROR_BODY_BYTES: Final = 64 * 1024
_DRAIN_BYTES: Final = 64 * 1024
_DRAIN_S: Final = 0.25
_STATUS_REDIRECT: Final = range(300, 400)


class Response:
    """An answer whose body is read piece by piece.

    headers: names in lower case
    """

    def __init__(self, response: aiohttp.ClientResponse, host: str) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._readany = response.content.readany
        self._host = host
        self._aborted: LLMStreamError | None = None

    async def read(self) -> bytes:
        """The next piece of the body, as large as has come; b"" at its end.

        raises: TransportError, StreamError
        """
        try:
            return await self._readany()
        except Exception as error:
            if self._aborted is not None:
                raise self._aborted from None
            raise typed_failure(error, self._host, answered=True) from error

    async def read_all(self) -> bytes:
        """The whole body of an error answer, at most 64 KiB of it; what a broken one gave so far."""
        pieces: list[bytes] = []
        size = 0
        while size < _ERROR_BODY_BYTES:
            try:
                piece = await self.read()
            except LLMStreamError:
                break
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)[:_ERROR_BODY_BYTES]

    def abort(self, error: LLMStreamError) -> None:
        """Closes the socket now; a read that waits, and every later one, raises `error`."""
        self._aborted = error
        self._response.content.set_exception(error)
        self._response.close()

    def close(self) -> None:
        """Closes the socket now, unless the body is over and the connection can serve again."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()

    async def finish(self) -> None:
        """Lets the connection serve again if the rest of the body is short, else closes it."""
        try:
            async with asyncio.timeout(_DRAIN_S):
                size = 0
                while size < _DRAIN_BYTES and not self._response.content.at_eof():
                    size += len(await self._readany())
        except (Exception, asyncio.CancelledError) as error:
            self._response.close()
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            self.close()


async def send(
    request: HttpRequest, deadlines: Deadlines, session: aiohttp.ClientSession | None = None
) -> Response:
    """Sends one request and waits for the answer's head.

    session: the caller's own; by default the pooled one of the running loop
    raises:  TransportError, InvalidRequest; RedirectRefused for any 3xx
    """
    parts = urlsplit(request.url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidRequest(f"not an http or https address: {request.url!r}. Check base_url.")
    _check_headers(request)
    if session is None:
        session = await current_session()
    response = await _ask(session, request, deadlines, proxy_for(parts.scheme, host))
    if response.status in _STATUS_REDIRECT:
        response.close()
        target = urlsplit(response.headers.get("location", "")).hostname or "another path"
        raise RedirectRefused(
            f"{host} redirects to {target}; redirects are not followed, because keys would go along. "
            "Set base_url to the final address.",
            status=response.status,
        )
    return Response(response, host)


class _Connection:
    """What tracing notes of a request's connection; see `sessions.py`."""

    reused = False


async def _ask(
    session: aiohttp.ClientSession, request: HttpRequest, deadlines: Deadlines, proxy: str | None
) -> aiohttp.ClientResponse:
    """Sends the request; once more where a connection that was kept alive turns out to be closed."""
    url = URL(request.url, encoded=True)
    while True:
        connection = _Connection()
        try:
            return await session.request(
                request.method,
                url,
                data=request.body,
                headers={"accept-encoding": "identity", **request.headers},
                allow_redirects=False,
                proxy=proxy,
                timeout=aiohttp.ClientTimeout(total=None, connect=deadlines.connect_s),
                trace_request_ctx=connection,
            )
        except Exception as error:
            if connection.reused and isinstance(error, aiohttp.ServerDisconnectedError):
                continue  # nothing of the request was answered; the pool has one connection less
            raise typed_failure(error, url.host or "", answered=False) from error


def _check_headers(request: HttpRequest) -> None:
    for name, value in request.headers.items():
        if any(c in "\r\n\0" for c in name + value) or not value.isprintable():
            raise InvalidRequest(
                f"the header {name!r} holds a control character; headers are one line of text"
            )
        try:
            value.encode("latin-1")
        except UnicodeEncodeError:
            raise InvalidRequest(f"the header {name!r} holds characters that HTTP cannot carry") from None
