"""Answers that a vendor keeps: what marks a place in one, and how reading goes on there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from llmstream.dialects.base import Decoder, Dialect, FollowingDecoder, KeepsAnswers, goes_on
from llmstream.errors import (
    ConnectionFailed,
    ConnectionLost,
    DeadlineExceeded,
    IncompleteStream,
    InvalidRequest,
    LLMStreamError,
    ProtocolError,
    Unsupported,
)
from llmstream.events import UnsupportedSetting, Warning
from llmstream.request import Request
from llmstream.streams.call import Plan, Prepared, ResumeToken
from llmstream.structured.output_tool import OutputToolDecoder
from llmstream.transport.deadlines import Deadlines

if TYPE_CHECKING:
    import aiohttp

    from llmstream.transport.http import Body

__all__ = [
    "asking_to_keep",
    "checked",
    "dialect_that_keeps",
    "end_kept",
    "followed",
    "is_break",
    "open_kept",
    "read_kept",
]

_WHOLE_BYTES: Final = 64 * 1024 * 1024
_SILENCE: Final = ("first-event", "idle")


def asking_to_keep(dialect: Dialect, request: Request, *, provider: str) -> tuple[Request, list[Warning]]:
    """The request for an answer that is kept; itself, with a warning, where the vendor keeps none."""
    asked = dialect.keep(request, provider=provider) if isinstance(dialect, KeepsAnswers) else None
    if asked is not None:
        return asked, []
    words = f"{provider} keeps no answers, so that this one cannot be read on after a break"
    return request, [UnsupportedSetting("background", words)]


def dialect_that_keeps(dialect: Dialect, token: ResumeToken, *, provider: str) -> KeepsAnswers:
    """The dialect, as one whose answers can be read on.

    raises: InvalidRequest where the token is another provider's, Unsupported where answers are not kept
    """
    if token.provider != provider:
        raise InvalidRequest(f"the token is of {token.provider}, not of {provider}")
    if not isinstance(dialect, KeepsAnswers):
        raise Unsupported(f"{provider} keeps no answers that could be read on.", provider=provider)
    return dialect


def followed(decoder: Decoder) -> FollowingDecoder | None:
    """The decoder that goes on over several bodies, if this is one or stands around one."""
    inner = decoder.decoder if isinstance(decoder, OutputToolDecoder) else decoder
    return inner if goes_on(inner) else None


def is_break(error: LLMStreamError) -> bool:
    """Whether an error says nothing of the answer, only of the way it came."""
    match error:
        case DeadlineExceeded():
            return error.reason in _SILENCE
        case ProtocolError():
            return error.retryable
        case _:
            return isinstance(error, ConnectionLost | ConnectionFailed | IncompleteStream)


async def open_kept(plan: Plan, prepared: Prepared) -> Body:
    """An answer that is kept, as a stream.

    raises: what the vendor says in place of it; TransportError
    """
    from llmstream.transport.http import send  # brings aiohttp

    return await checked(plan, await send(prepared.http, plan.deadlines, plan.session))


async def checked(plan: Plan, response: Body) -> Body:
    """The same response, if it is a stream; else it is closed.

    raises: what the vendor says in place of it
    """
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status < 400 and media_type not in ("application/json", "text/html"):
        return response
    try:
        body = await response.read_error()
        raise plan.decode_error(response.status, response.headers, body)
    finally:
        response.close()


async def read_kept(plan: Plan, prepared: Prepared) -> bytes:
    """An answer that is kept, in one piece as far as it is made.

    raises: what the vendor says in place of it; TransportError, LimitExceeded
    """
    from llmstream.transport.http import send  # brings aiohttp

    response = await send(prepared.http, plan.deadlines, plan.session)
    try:
        if response.status < 400:
            return await response.read_all(_WHOLE_BYTES)
        body = await response.read_error()
        raise plan.decode_error(response.status, response.headers, body)
    finally:
        response.close()


async def end_kept(
    prepared: Prepared,
    decode_error: Callable[[int, dict[str, str], bytes], LLMStreamError],
    deadlines: Deadlines,
    session: aiohttp.ClientSession | None,
) -> None:
    """Tells the vendor to make no more of an answer.

    raises: what the vendor says against it; TransportError
    """
    from llmstream.transport.http import send  # brings aiohttp

    limit_s = deadlines.first_event_s
    try:
        async with asyncio.timeout(limit_s) as timer:
            response = await send(prepared.http, deadlines, session)
            try:
                body = await response.read_error()
            finally:
                response.close()
    except TimeoutError:
        if limit_s is None or not timer.expired():
            raise
        raise DeadlineExceeded(
            f"the vendor did not say within {limit_s:g} s that the answer is ended", reason="first-event"
        ) from None
    if response.status >= 400:
        raise decode_error(response.status, response.headers, body)
