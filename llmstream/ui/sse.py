"""A run of an event log as Server-Sent Events, for `EventSource` and other clients. No I/O of its own.

    id: 41
    data: {"type":"text-delta",...}

The ids are the numbers of the events, so a client that reconnects with `Last-Event-ID` gets the rest. The
last frame is `event: end`. After it `EventSource` connects once more, and the status 204 makes it stop.

source: WHATWG HTML, 9.2, read 2026-11
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from llmstream.errors import InvalidRequest, LogError, ReplayTooLong, RunNotFound
from llmstream.exchange import HttpResponse
from llmstream.log import Frame, Logs, Page
from llmstream.serve import UNBUFFERED, Body
from llmstream.serve.writers import END, PING, safe_error, safe_event
from llmstream.ui.numbers import whole_number

__all__ = ["body", "first_page", "following", "no_run", "refusal", "shown"]

_HEADERS: Final = {"content-type": "text/event-stream", **UNBUFFERED}


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
    """Returns the events of a run after a number, first the stored ones, then new ones.

        position = request.headers.get("last-event-id") or request.query_params.get("after")
        return respond(await sse.body(logs, run, position))

    Disconnecting does not stop the run. If the log fails after the first byte, the connection is cut, and the
    client reconnects. The statuses:

    200  events, also those of a run that fails
    204  the run has ended, and the client has all of it
    400  `after` is not a number, or is past the last event
    404  there is no such run
    410  the events are deleted, or more than `max_replay` would be sent; `tail` in the JSON has the number
         of the last event
    503  the log does not answer

    after:      the last event that the client has, as it was sent; None, "" or -1 for all
    max_replay: the most events to send again
    details:    True sends errors as they are; by default a client gets code and `public_message`, because
                messages name hosts

    heartbeat_s, send_timeout_s: see `Body`
    """
    try:
        first = await first_page(logs, run, _position(after), max_replay=max_replay)
    except (InvalidRequest, LogError) as error:
        return Body.complete(await refusal(logs, run, error, details=details))
    # `EventSource` reconnects after every end, and stops only at this status.
    if first.ended and not first.frames:
        return Body.plain(204)
    return Body.of_bytes(
        _written(logs, first, details=details),
        _HEADERS,
        heartbeat=PING,
        heartbeat_s=heartbeat_s,
        send_timeout_s=send_timeout_s,
    )


async def _written(logs: Logs, first: Page, *, details: bool) -> AsyncGenerator[bytes]:
    async with aclosing(following(logs, first)) as pages:
        async for page in pages:
            yield b"".join(
                b"id: %d\ndata: %s\n\n" % (frame.seq, shown(frame, details=details)) for frame in page.frames
            )
    yield END


def _position(after: str | int | None) -> int:
    if isinstance(after, int):
        return after
    if after is None or after in ("", "-1"):
        return -1
    position = whole_number(after)
    if position is None:
        raise InvalidRequest("the position in a run is the number of an event")
    return position


# Shared by the HTTP readers of an event log: the first page, and the response if a run cannot be read.


async def first_page(logs: Logs, run: str, after: int, *, max_replay: int | None = None) -> Page:
    """The stored frames after a number; none for an up-to-date reader. Does not wait for more.

    after:  number of the last event that the reader has; -1 for none
    raises: as `Logs.pages`
    """
    status = await logs.status(run)
    if status is None:
        raise no_run(run)
    if after < 0 and status.state == "open":
        after = status.first - 1  # where a run begins that replaced another
    # `Logs.pages` would wait for the next event.
    if after == status.tail:
        return Page((), status)
    async with aclosing(logs.pages(run, after, max_replay=max_replay)) as pages:
        return await anext(pages)


async def following(logs: Logs, first: Page) -> AsyncGenerator[Page]:
    """Yields a page and all that come after it, to the end of the run."""
    yield first
    if first.ended:
        return
    position = first.frames[-1].seq if first.frames else first.status.tail
    async with aclosing(logs.pages(first.status.run, position)) as pages:
        async for page in pages:
            yield page


def no_run(run: str) -> RunNotFound:
    """The error for an id that the log does not know."""
    return RunNotFound(f"the event log has no run {run!r}. Check the id.")


async def refusal(logs: Logs, run: str, error: InvalidRequest | LogError, *, details: bool) -> HttpResponse:
    """Returns the response for a run that cannot be read: `{"error": {...}}`, and `tail` for a 410."""
    content: dict[str, object] = {"error": error.info if details else safe_error(error.info)}
    status = _status(error)
    if isinstance(error, ReplayTooLong):
        content["tail"] = error.tail
    elif status == 410 and (found := await logs.status(run)) is not None:
        content["tail"] = found.tail
    headers = {"content-type": "application/json", "cache-control": "no-store"}
    return HttpResponse(status, msgspec.json.encode(content), headers)


def _status(error: InvalidRequest | LogError) -> int:
    if isinstance(error, InvalidRequest):
        return 400
    if isinstance(error, RunNotFound):
        return 410 if error.reason else 404  # "expired", or "replaced"
    return 410 if isinstance(error, ReplayTooLong) else 503


def shown(frame: Frame, *, details: bool) -> bytes:
    """Returns a frame's event, an error reduced to its public part unless `details` is set."""
    return frame.data if details else safe_event(frame.data)
