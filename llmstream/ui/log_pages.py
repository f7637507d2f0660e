"""What the readings of an event log over HTTP share: a reader's first page, and why a run cannot be read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from llmstream.errors import InvalidRequest, LogError, ReplayTooLong, RunNotFound
from llmstream.exchange import HttpResponse
from llmstream.log import Frame, Logs, Page
from llmstream.serve.writers import safe_error, safe_event

__all__ = ["first_page", "following", "no_run", "refusal", "shown"]


async def first_page(logs: Logs, run: str, after: int, *, max_replay: int | None = None) -> Page:
    """The frames after a number that are there now; none for a reader that has all. Does not wait for more.

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
    """Returns a frame's event, of an error only what strangers may see unless `details` is set."""
    return frame.data if details else safe_event(frame.data)
