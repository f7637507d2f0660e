"""The reading side: replay, then live, without a gap or a repetition.

A reader has a position in the log and nothing else: no queue is filled for it, so a slow one costs no memory
and delays no other. It ends by the state of the run, never by the look of an event. The readers of a process
read in one request to the store, those at the same position share the page, and one listener wakes them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from typing import Final

from llmstream.errors import InvalidRequest, LogLost, LogUnavailable, ReplayTooLong, RunNotFound
from llmstream.log.committer import end_tasks
from llmstream.log.frames import Page, page_of
from llmstream.log.recovery import close_lost
from llmstream.log.store import RunStatus, Store

__all__ = ["Readers"]

# About 4,000 events of text, which decode in 3 ms.
_PAGE_BYTES: Final = 256 * 1024

# The most readers of one request: with the size of a page, it limits memory when all catch up.
_TOGETHER: Final = 64

# Readers look by themselves so often, in case a wake-up was lost.
_LOOK_S: Final = 1.0

# The pause after a read that failed.
_AGAIN_S: Final = 0.1


class Readers:
    """The readers of a process.

    patience_s: how long a store that does not answer is asked again
    ours:       whether this process produces a run; it is not closed here, however late its lease
    """

    def __init__(self, store: Store, *, patience_s: float, ours: Callable[[str], bool]) -> None:
        self._store = store
        self._patience_s = patience_s
        self._ours = ours
        self._bells: dict[str, set[asyncio.Event]] = {}
        self._wanted: dict[tuple[str, int], asyncio.Future[Page | None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._closing: dict[str, asyncio.Task[bool]] = {}
        self._closed = False

    def wake(self, runs: Iterable[str] | None) -> None:
        """Makes the readers of these runs look; None: all."""
        for run in list(self._bells) if runs is None else runs:
            for bell in self._bells.get(run, ()):
                bell.set()

    async def pages(
        self, run: str, after: int, *, max_replay: int | None, wait_s: float, silence_s: float
    ) -> AsyncGenerator[Page]:
        """Yields the frames after a number, page by page, up to the end of the run; see `Logs.pages`."""
        bell = asyncio.Event()
        self._bells.setdefault(run, set()).add(bell)
        try:
            page, position = await self._first(run, after, bell, max_replay, wait_s)
            seen_s, loop = -math.inf, asyncio.get_running_loop()
            silent_s = loop.time() + silence_s
            while True:
                if page.frames:
                    position = page.frames[-1].seq
                if page.frames or page.ended or loop.time() >= silent_s:
                    yield page
                    silent_s = loop.time() + silence_s
                if page.ended:
                    return
                seen_s = await self._mark_seen(page.status, seen_s)
                if page.up_to_date:
                    await self._rest(bell, page.status, silent_s - loop.time())
                bell.clear()
                page = await self._next(run, position)
        finally:
            self._bells[run].discard(bell)
            if not self._bells[run]:
                del self._bells[run]

    async def read(self, run: str, after: int) -> Page | None:
        """One page; None if there is no such run. Asks again while the store does not answer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience_s
        while True:
            try:
                return await self._together(run, after)
            except LogUnavailable as error:
                if not error.retryable or loop.time() >= until:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def close_lost(self, status: RunStatus) -> None:
        """Closes a run whose producer died; all readers of this process wait for one attempt."""
        run = status.run
        if self._ours(run):
            return
        if run not in self._closing:
            task = asyncio.ensure_future(close_lost(self._store, status))
            self._closing[run] = task
            task.add_done_callback(self._closed_one(run))
        await asyncio.shield(self._closing[run])

    def _closed_one(self, run: str) -> Callable[[asyncio.Task[bool]], None]:
        def forget(task: asyncio.Task[bool]) -> None:
            del self._closing[run]
            if not task.cancelled():
                task.exception()  # its readers may be gone

        return forget

    async def aclose(self) -> None:
        """Stops reading; readers that wait get LogUnavailable."""
        self._closed = True
        await end_tasks(*self._closing.values(), *([] if self._task is None else [self._task]))
        self._refuse(self._wanted.values(), _closed())
        self._wanted = {}
        self.wake(None)

    async def _first(
        self, run: str, after: int, bell: asyncio.Event, max_replay: int | None, wait_s: float
    ) -> tuple[Page, int]:
        """The first page, and the position before it."""
        until = asyncio.get_running_loop().time() + wait_s
        while (page := await self.read(run, after)) is None:
            rest_s = until - asyncio.get_running_loop().time()
            if rest_s <= 0:
                raise RunNotFound(
                    f"the event log has no run {run!r}. Check the id. To follow a run that is about to "
                    "start, pass wait_s."
                )
            await _ring(bell, min(rest_s, _LOOK_S))
            bell.clear()
        status = page.status
        if after > status.tail:
            raise InvalidRequest(
                f"run {run!r} has events up to {status.tail}, so a reader cannot be at {after}. "
                "Read from the beginning, with after=-1."
            )
        if after < 0 and (page.frames or status.state == "open"):
            after = status.first - 1  # all there is, also of a run that replaced another
        _check(page, after)
        if max_replay is not None and status.tail - after > max_replay:
            raise ReplayTooLong(
                f"run {run!r} has {status.tail - after} events after {after}; max_replay is {max_replay}. "
                f"Continue after {status.tail}, or read the result elsewhere.",
                details={"tail": status.tail},
            )
        return page, after

    async def _next(self, run: str, position: int) -> Page:
        page = await self.read(run, position)
        if page is None:
            raise LogLost(f"run {run!r} was deleted while it was read, or the store has lost it")
        _check(page, position)
        return page

    async def _rest(self, bell: asyncio.Event, status: RunStatus, most_s: float) -> None:
        """Waits until there may be news; closes the run if its producer has died."""
        ours = self._ours(status.run)
        if status.is_lost and not ours:
            try:
                await self.close_lost(status)
            except LogUnavailable as error:  # the next read finds out, with more patience
                if not error.retryable:
                    raise
            return
        rest_s = min(_LOOK_S, max(0.0, most_s))
        if status.state == "open" and not ours:
            # Readers wake when the lease passes, and not up to a second later.
            rest_s = min(rest_s, max(0.0, status.lost_at - status.now) + 0.001)
        if status.left_s is not None:
            # Two of three reports may fail before the producer takes the run for left.
            rest_s = min(rest_s, status.left_s / 3)
        await _ring(bell, rest_s)

    async def _mark_seen(self, status: RunStatus, seen_s: float) -> float:
        """Reports a reader to a run that ends without any; returns when it last did."""
        now = asyncio.get_running_loop().time()
        if status.left_s is None or now < seen_s + status.left_s / 3:
            return seen_s
        try:
            await self._store.mark_seen([status.run])
        except LogUnavailable as error:
            if not error.retryable:
                raise
            return seen_s
        return now

    async def _together(self, run: str, after: int) -> Page | None:
        """Reads with whoever else wants to read now."""
        if self._closed:
            raise _closed()
        key = (run, after)
        found = self._wanted.get(key)
        if found is None:
            found = self._wanted[key] = asyncio.get_running_loop().create_future()
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._work(), name="llmstream log reads")
        return await asyncio.shield(found)  # it is shared, so that one reader's cancellation is not all's

    async def _work(self) -> None:
        while self._wanted:
            await asyncio.sleep(0)  # readers that were woken together
            keys = list(self._wanted)[:_TOGETHER]
            wanted = [self._wanted.pop(key) for key in keys]
            try:
                parts = await self._store.read(keys, _PAGE_BYTES)
            except Exception as error:
                self._refuse(wanted, error)
            except BaseException:
                self._refuse(wanted, _closed())
                raise
            else:
                for future, (_, after), part in zip(wanted, keys, parts, strict=True):
                    future.set_result(page_of(part, after))

    def _refuse(self, futures: Collection[asyncio.Future[Page | None]], error: Exception) -> None:
        for future in futures:
            future.set_exception(error)
            future.exception()  # its reader may be gone


def _check(page: Page, position: int) -> None:
    """Refuses a page that does not continue a position.

    raises: RunNotFound if events between were deleted; LogLost if the store lost events that were read
    """
    status = page.status
    if page.frames and page.frames[0].seq != position + 1:
        raise RunNotFound(
            f"run {status.run!r} has begun anew at {page.frames[0].seq}; the events after {position} were "
            "deleted. Read from the beginning, with after=-1.",
            reason="replaced",
        )
    if not page.frames and status.tail > position:
        raise RunNotFound(
            f"the events of run {status.run!r} were deleted {status.keep_s:g} s after its end. "
            "Raise keep_s of open_logs() to keep them longer.",
            reason="expired",
        )
    if status.state != "open" and status.tail < position:
        raise LogLost(
            f"the store has lost events of run {status.run!r}: it ended at {status.tail}, and {position} was "
            "read. Read from the beginning, with after=-1."
        )


def _closed() -> LogUnavailable:
    return LogUnavailable("the event log was closed", retryable=False)


async def _ring(bell: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        pass
