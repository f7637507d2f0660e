"""Requests whose answers arrive in one piece: encoded for a batch, sent besides streams, and read."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import msgspec

from llmstream.accumulate.accumulator import Accumulator
from llmstream.chats.message import Message
from llmstream.dialects.base import Decoder, Dialect, Encoded, StreamLimits
from llmstream.dialects.complete_answers import decode_complete
from llmstream.errors import DeadlineExceeded, LLMStreamError, error_from_info
from llmstream.events import ErrorEvent, Event, Finish, Warning
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.request import Request
from llmstream.streams.call_plan import in_output_mode
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.streams.model import Model

__all__ = ["CompleteAnswer", "Written", "exchange", "read_answer", "written"]

# For a file of tens of megabytes over a slow connection; a silent server hits the read timeout much sooner.
_EXCHANGE_S: Final = 900.0
_READ_S: Final = 120.0
_MAX_BODY_BYTES: Final = 256 * 1024 * 1024
# Marks another root path on the same host, as for Google's file uploads: before the version, not after it.
_ROOTS: Final = ("upload", "download")
_OF_STREAMS: Final = ("stream", "stream_options")


class Written(NamedTuple):
    """A request in the form that a vendor's batch API accepts.

    url:     its path in the dialect
    headers: in addition to those of each request: versions and betas
    reading: wraps the decoder of its answer
    """

    url: str
    body: dict[str, Any]
    headers: dict[str, str]
    dialect: Dialect
    reading: Callable[[Decoder], Decoder]
    warnings: list[Warning]


async def written(model: Model[Any], request: Request) -> Written:
    """Writes a request without streaming.

    raises: InvalidRequest, Unsupported
    """
    wire = model._wire(request)
    if wire is not None:
        model = copy.copy(model)
        model.provider = dataclasses.replace(model.provider, dialect=wire.dialect)
    sent, reading = in_output_mode(model, request)
    encoded = (await model._prepare(sent, "")).encoded
    body = {name: value for name, value in encoded.http.json().items() if name not in _OF_STREAMS}
    unlike = ("content-type", "accept")
    headers = {n: v for n, v in encoded.http.headers.items() if n.lower() not in unlike}
    return Written(encoded.http.url, body, headers, model.provider.dialect, reading, list(encoded.warnings))


class CompleteAnswer(NamedTuple):
    """An answer received in one piece."""

    message: Message
    usage: Usage
    finish_reason: str | None
    error: LLMStreamError | None


def read_answer(
    dialect: Dialect, body: bytes, reading: Callable[[Decoder], Decoder], *, provider: str
) -> CompleteAnswer:
    """Decodes a complete body; `error` is set if it is an error or an incomplete answer."""
    accumulator = Accumulator()
    events = decode_complete(dialect, body, provider=provider, limits=StreamLimits(), reading=reading)
    accumulator.feed_many(events)
    finish = _finish(events)
    error = next((error_from_info(e.error) for e in events if isinstance(e, ErrorEvent)), None)
    message = accumulator.message or Message.assistant("")
    return CompleteAnswer(message, finish.usage, finish.finish_reason, error)


def _finish(events: list[Event]) -> Finish:
    last = events[-1]
    assert isinstance(last, Finish)  # the last event of the stream grammar
    return last


async def exchange(
    model: Model[Any], http: HttpRequest, *, into: BinaryIO | None = None, once: bool = False
) -> HttpResponse:
    """Sends one request with the model's address and key; a complete URL is requested without the key.

    into:   a file to which the body is written, instead of being returned
    once:   never resend on a new connection, as is otherwise done if a pooled one turns out to be closed
    raises: the vendor's error, TransportError
    """
    from llmstream.transport.http import send  # imports aiohttp

    secrets: tuple[str, ...] = ()
    ready = http
    if not http.url.startswith(("http://", "https://")):
        prepared = await model._addressed(Encoded(http), Request(model=model.name))
        secrets = prepared.secrets()
        ready = msgspec.structs.replace(prepared.http, url=_at_root(prepared.http.url))
    try:
        # Results may be hundreds of megabytes; each piece has its own limit.
        async with asyncio.timeout(_EXCHANGE_S if into is None else None):
            response = await send(ready, model.deadlines, model._session, fresh=once)
            try:
                if response.status < 400:
                    body = await _read(response, into)
                    return HttpResponse(response.status, body, response.headers)
                body = await response.read_error()
            finally:
                response.close()
        raise model._decode_error(response.status, response.headers, body)
    except LLMStreamError as error:
        error.provider = error.provider or model.provider.name
        model.provider.explain(error, ready)
        for secret in secrets:
            error.message = error.message.replace(secret, "***")
        error.args = (error.message,)
        failure = error.with_traceback(None)
    except TimeoutError:
        failure = DeadlineExceeded("the vendor's batch API does not respond", reason="total")
    raise failure from None


async def _read(response: Any, into: BinaryIO | None) -> bytes:
    if into is None:
        body: bytes = await response.read_all(_MAX_BODY_BYTES)
        return body
    while True:
        async with asyncio.timeout(_READ_S):
            piece = await response.read()
        if not piece:
            return b""
        into.write(piece)


def _at_root(url: str) -> str:
    """Moves the name of another root to the front: "https://h/v1/:upload/files" to "https://h/upload/v1/files"."""
    for root in _ROOTS:
        before, mark, path = url.partition(f"/:{root}/")
        if mark:
            scheme, _, rest = before.partition("://")
            host, slash, version = rest.partition("/")
            return f"{scheme}://{host}/{root}{slash}{version}/{path}"
    return url
