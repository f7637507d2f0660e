"""The reading half of Durable Streams 1.0 over a run of an event log, for its clients in many languages.

A run is a stream of JSON: each event is one message. An offset is the number of the next event, in 16 digits.
Creating and appending are not offered: the producer of a run does that.

source: the package @durable-streams/client 0.2.7 of npm, and the tests of its servers,
        @durable-streams/server-conformance-tests 0.3.6, read 2026-11
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, Literal, TypeAlias
from urllib.parse import parse_qs

import msgspec

from llmstream.errors import InvalidRequest, LogError
from llmstream.exchange import HttpResponse
from llmstream.log import Frame, Logs, Page, RunStatus
from llmstream.serve import UNBUFFERED, Body
from llmstream.serve.writers import PING
from llmstream.ui.numbers import MOST_DIGITS, whole_number
from llmstream.ui.sse import first_page, following, no_run, refusal, shown

__all__ = ["body"]

_Live: TypeAlias = Literal["", "long-poll", "sse"]

_LIVE: Final[tuple[_Live, ...]] = ("", "long-poll", "sse")

# For browsers: nothing of a run is a script or an image of another site.
_SECURITY: Final = {"x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin"}

_JSON: Final = {"content-type": "application/json", "cache-control": "no-store", **_SECURITY}
_SSE: Final = {"content-type": "text/event-stream", **_SECURITY, **UNBUFFERED}

# A run belongs to one user, grows, and may be deleted or replaced: a cached copy is revalidated each time.
_STORED: Final = "private, no-cache"

# A cursor is the number of the interval of so many seconds since October 9, 2024.
_CURSOR_S: Final = 20
_CURSOR_FROM: Final = 1_728_432_000


async def body(
    logs: Logs,
    run: str,
    query: str,
    *,
    method: str = "GET",
    if_none_match: str | None = None,
    max_replay: int | None = None,
    details: bool = False,
    poll_s: float = 20.0,
    heartbeat_s: float = 15.0,
    send_timeout_s: float = 30.0,
) -> Body:
    """Returns the response to a GET or HEAD request of a client of Durable Streams.

        return respond(
            await durable_streams.body(
                logs,
                run,
                request.url.query,
                method=request.method,
                if_none_match=request.headers.get("if-none-match"),
            )
        )

    Disconnecting does not stop the run. The statuses:

    200  events, perhaps none: as a JSON array, or with `live=sse` as Server-Sent Events
    204  a long-poll in vain, or of a run that has ended, which `stream-closed` shows
    304  the client has these events already, as `if_none_match` shows
    400  the query is invalid, or the offset is past the end
    404  there is no such run
    410  the events are deleted, or more than `max_replay` would be sent; `stream-next-offset` has the end
    503  the log does not answer

    query:         of the request's URL, not decoded: `offset`, `live` and `cursor`
    if_none_match: the request's header of this name: the `etag` of an earlier response without `live`
    max_replay:    the most events to send again
    details:       True sends errors as they are; by default a client gets code and `public_message`, because
                   messages name hosts
    poll_s:        how long a long-poll waits for an event

    heartbeat_s, send_timeout_s: see `Body`
    """
    try:
        if method == "HEAD":
            return Body.complete(_head(await _tail(logs, run)))
        asked = _Asked(query)
        if asked.after is None:
            first = await _tail(logs, run)
        else:
            first = await first_page(logs, run, asked.after, max_replay=max_replay)
    except (InvalidRequest, LogError) as error:
        return Body.complete(await _refusal(logs, run, error, details=details))
    if asked.live == "long-poll":
        # The body does the waiting, because it detects a client that disconnects.
        return Body.later(partial(_poll, logs, first, asked, poll_s, details=details))
    if asked.live == "":
        headers = {**_JSON, **_standing(Page((), first.status)), **asked.etag(first.status, details=details)}
        if _has(if_none_match, headers.get("etag")):
            return Body.complete(HttpResponse(304, b"", _without(headers, "content-type")))
        # All in one response: the JavaScript client sends one request, and treats the first page as complete.
        return Body.of_bytes(_array(logs, first, details=details), headers, send_timeout_s=send_timeout_s)
    return Body.of_bytes(
        _written(logs, first, asked, details=details),
        _SSE,
        heartbeat=PING,
        heartbeat_s=heartbeat_s,
        send_timeout_s=send_timeout_s,
    )


class _Asked:
    """A parsed query.

    after:  number of the last event that the client has, -1 for none; None to begin at the end
    raises: InvalidRequest
    """

    def __init__(self, query: str) -> None:
        given = parse_qs(query, keep_blank_values=True)
        self.live: _Live = _live(given.get("live", [""])[-1])
        # Without an offset a catch-up begins at the beginning, and a live reading at the end.
        self.after = _after(given.get("offset", [] if self.live else ["-1"]))
        self._cursor = given.get("cursor", [""])[-1]

    def cursor(self) -> str:
        """The cursor of a response: above the client's, so that no cache repeats one to it."""
        now = int(time.time() - _CURSOR_FROM) // _CURSOR_S
        return str(max(now, (whole_number(self._cursor) or 0) + 1))

    def etag(self, status: RunStatus, *, details: bool) -> dict[str, str]:
        """The headers that let a client avoid reading the same events twice; none for the position "now"."""
        if self.after is None:
            return {}
        # The start time distinguishes a run from a later one with the same id.
        tag = f"{int(status.started * 1000):x}-{self.after}-{status.tail}-{status.state}"
        return {"etag": f'"{tag}-details"' if details else f'"{tag}"', "cache-control": _STORED}


def _has(if_none_match: str | None, etag: str | None) -> bool:
    """Whether a tag is among the client's. A proxy that compressed the response has marked it as weak."""
    if if_none_match is None or etag is None:
        return False
    given = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in given or given == ["*"]


def _live(given: str) -> _Live:
    for known in _LIVE:
        if given == known:
            return known
    raise InvalidRequest("live is long-poll or sse", param="live")


def _after(given: list[str]) -> int | None:
    if len(given) == 1:
        (offset,) = given
        if offset == "now":
            return None
        if offset == "-1":
            return -1
        if (next_one := whole_number(offset)) is not None:
            return next_one - 1
    raise InvalidRequest("offset is -1, now, or a Stream-Next-Offset, once", param="offset")


async def _tail(logs: Logs, run: str) -> Page:
    """The empty page at the end."""
    status = await logs.status(run)
    if status is None:
        raise no_run(run)
    return Page((), status)


async def _array(logs: Logs, first: Page, *, details: bool) -> AsyncGenerator[bytes]:
    """A JSON array of the events up to the end as of the first page."""
    tail, separator = first.status.tail, b""
    yield b"["
    if first.frames:
        async with aclosing(following(logs, first)) as pages:
            # Only up to the end as of the first page: for a growing run the array would never end.
            async for page in pages:
                yield separator + _joined([f for f in page.frames if f.seq <= tail], details=details)
                separator = b","
                if page.frames[-1].seq >= tail:
                    break
    yield b"]"


async def _poll(logs: Logs, page: Page, asked: _Asked, poll_s: float, *, details: bool) -> HttpResponse:
    """The response to a long-poll: a page with frames, or what follows it if it has none."""
    if not page.frames and not page.ended:
        pages = logs.pages(page.status.run, page.status.tail, silence_s=poll_s)
        try:
            async with aclosing(pages):
                page = await anext(pages)
        except (InvalidRequest, LogError) as error:
            return await _refusal(logs, page.status.run, error, details=details)
    headers = {**_JSON, **_standing(page)}
    # For an ended run there is no further request.
    if not page.ended:
        headers["stream-cursor"] = asked.cursor()
    if not page.frames:
        return HttpResponse(204, b"", _without(headers, "content-type"))
    return HttpResponse(200, b"[%s]" % _joined(page.frames, details=details), headers)


def _head(tail: Page) -> HttpResponse:
    headers = {**_JSON, **_standing(tail)}
    return HttpResponse(200, b"", _without(headers, "stream-up-to-date"))  # the client has no position yet


def _without(headers: dict[str, str], name: str) -> dict[str, str]:
    return {other: value for other, value in headers.items() if other != name}


def _standing(page: Page) -> dict[str, str]:
    """The headers with the position after the page."""
    headers = {"stream-next-offset": _next_offset(page)}
    if page.up_to_date:
        headers["stream-up-to-date"] = "true"
    if page.ended:
        headers["stream-closed"] = "true"
    return headers


def _next_offset(page: Page) -> str:
    return _offset(page.frames[-1].seq if page.frames else page.status.tail)


def _offset(seq: int) -> str:
    return f"{seq + 1:0{MOST_DIGITS}}"


def _joined(frames: Sequence[Frame], *, details: bool) -> bytes:
    return b",".join(shown(frame, details=details) for frame in frames)


async def _written(logs: Logs, first: Page, asked: _Asked, *, details: bool) -> AsyncGenerator[bytes]:
    """The pages as Server-Sent Events: the events of each, then the reader's position."""
    async with aclosing(following(logs, first)) as pages:
        async for page in pages:
            data = b""
            if page.frames:
                data = b"event: data\ndata:[%s]\n\n" % _joined(page.frames, details=details)
            yield data + b"event: control\ndata:%s\n\n" % _control(page, asked)


def _control(page: Page, asked: _Asked) -> bytes:
    control: dict[str, object] = {"streamNextOffset": _next_offset(page)}
    if page.ended:
        control["streamClosed"] = True
    else:
        control["streamCursor"] = asked.cursor()
    if page.up_to_date:
        control["upToDate"] = True
    return msgspec.json.encode(control)


async def _refusal(logs: Logs, run: str, error: InvalidRequest | LogError, *, details: bool) -> HttpResponse:
    response = await refusal(logs, run, error, details=details)
    headers = {**response.headers, **_SECURITY}
    if response.status == 410 and (found := await logs.status(run)) is not None:
        headers["stream-next-offset"] = _offset(found.tail)
    return HttpResponse(response.status, response.body, headers)
