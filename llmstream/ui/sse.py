"""A run of an event log as Server-Sent Events, for `EventSource` and other clients. No I/O of its own.

    id: 41
    data: {"type":"text-delta",...}

The ids are the numbers of the events, so a client that comes back with `Last-Event-ID` gets the rest. The
last frame is `event: end`. After it `EventSource` connects once more, and the status 204 makes it stop.

source: WHATWG HTML, 9.2, read 2026-11
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from llmstream.errors import ErrorInfo, InvalidRequest, LogError, ReplayTooLong, RunNotFound
from llmstream.events import ErrorEvent, encode
from llmstream.log import Frame, Logs, Page
from llmstream.serve import UNBUFFERED, Body
from llmstream.serve.writers import PING, safe_error

__all__ = ["body", "refusal", "safe_data"]

_HEADERS: Final = {"content-type": "text/event-stream", **UNBUFFERED}

_END: Final = b"event: end\ndata: {}\n\n"

_MOST_DIGITS: Final = 15


async def body(
    logs: Logs,
    run: str,
    after: str | int | None = None,
    *,
    max_replay: int | None = None,
    details: bool = False,
    heartbeat_s: float = 15.0,
    send_timeout_s: float = 30.0,
) -> Body:
    """Returns the events of a run after a number, those that are there and then those that come.

        position = request.headers.get("last-event-id") or request.query_params.get("after")
        return respond(await sse.body(logs, run, position))

    Leaving the response stops nothing. If the log fails after the first byte, the connection is cut, and the
    client comes back. The statuses:

    200  events, also those of a run that fails
    204  the run has ended, and the client has all of it
    400  `after` is not a number, or is past the last event
    404  there is no such run
    410  the events are deleted, or more than `max_replay` would be sent; `tail` in the JSON of the response,
         and the header `x-run-tail`, have the number of the last event
    503  the log does not answer

    after:      the last event that the client has, as it was sent; None, "" or -1 for all
    max_replay: the most events to send again
    details:    True sends errors as they are; by default a client gets code and `public_message`, because
                messages name hosts

    heartbeat_s, send_timeout_s: see `Body`
    """
    try:
        position = _position(after)
        status = await logs.status(run)
        if status is None:
            raise RunNotFound(f"the event log has no run {run!r}")
        if position < 0 and status.state == "open":
            position = status.first - 1  # where a run begins that replaced another
        if position == status.tail and status.state != "open":
            return Body.plain(204)
        first = None
        if position != status.tail:  # so that there is a page, or a reason why not
            async with aclosing(logs.pages(run, position, max_replay=max_replay)) as pages:
                first = await anext(pages)
    except (InvalidRequest, LogError) as error:
        return await refusal(logs, run, error, details=details)
    return Body.of_bytes(
        _frames(logs, run, position, first, details=details),
        _HEADERS,
        heartbeat=PING,
        heartbeat_s=heartbeat_s,
        send_timeout_s=send_timeout_s,
    )


async def refusal(logs: Logs, run: str, error: InvalidRequest | LogError, *, details: bool = False) -> Body:
    """Returns the response for a run that cannot be read: `{"error": {...}}`, with `tail` for a 410."""
    shown: dict[str, object] = {"error": error.info if details else safe_error(error.info)}
    is_gone = isinstance(error, ReplayTooLong) or (isinstance(error, RunNotFound) and error.reason)
    if is_gone:
        status = None if isinstance(error, ReplayTooLong) else await logs.status(run)
        shown["tail"] = (
            error.tail if isinstance(error, ReplayTooLong) else -1 if status is None else status.tail
        )
    response = Body.plain(_status(error, is_gone=bool(is_gone)), msgspec.json.encode(shown).decode())
    response.headers["content-type"] = "application/json"
    if is_gone:
        response.headers["x-run-tail"] = str(shown["tail"])
    return response


def safe_data(data: bytes) -> bytes:
    """Returns an event of the log without what only the operator should see; most stay as they are."""
    if b'"type":"error"' not in data:
        return data
    found = msgspec.json.decode(data, type=_Error)
    if found.type != "error" or found.error is None:
        return data  # such as a tool input that has these characters
    return encode(ErrorEvent(safe_error(found.error)))


class _Error(msgspec.Struct):
    type: str
    error: ErrorInfo | None = None


async def _frames(
    logs: Logs, run: str, position: int, first: Page | None, *, details: bool
) -> AsyncGenerator[bytes]:
    if first is not None:
        yield _written(first, details=details)
        position = first.frames[-1].seq if first.frames else position
    if first is None or not first.ended:
        async with aclosing(logs.pages(run, position)) as pages:
            async for page in pages:
                yield _written(page, details=details)
    yield _END


def _written(page: Page, *, details: bool) -> bytes:
    return b"".join(_frame(frame, details=details) for frame in page.frames)


def _frame(frame: Frame, *, details: bool) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (frame.seq, frame.data if details else safe_data(frame.data))


def _position(after: str | int | None) -> int:
    if isinstance(after, int):
        return after
    if after is None or after in ("", "-1"):
        return -1
    if not (after.isascii() and after.isdecimal() and len(after) <= _MOST_DIGITS):
        raise InvalidRequest("the position in a run is the number of an event")
    return int(after)


def _status(error: InvalidRequest | LogError, *, is_gone: bool) -> int:
    if isinstance(error, InvalidRequest):
        return 400
    if is_gone:
        return 410
    return 404 if isinstance(error, RunNotFound) else 503
