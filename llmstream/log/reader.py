"""The reading side: replay, then live, without a gap or a repetition.

A reader has only a position in the log, no queue, so a slow one costs no memory and delays no other. It ends
by the state of the run, never by the type of an event. The readers of a process read in one request to the
store, those at the same position share the page, and one listener wakes them. A reader at the tail of a run
of its own process gets each commit directly, without a request.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

from llmstream.errors import InvalidRequest, LogLost, LogUnavailable, ReplayTooLong, RunNotFound
from llmstream.log.committer import end_tasks
from llmstream.log.frames import Page, page_of
from llmstream.log.recovery import close_lost
from llmstream.log.store import Append, Batch, RunSlice, RunStatus, Store

__all__ = ["Readers"]

T = TypeVar("T")

# About 4,000 events of text, which decode in 3 ms.
_PAGE_BYTES: Final = 256 * 1024

# Maximum number of readers in one request: with the page size, it limits memory when all catch up.
_READERS_PER_REQUEST: Final = 64

# Polling interval of readers, in case a wake-up was lost.
_POLL_S: Final = 1.0

# The pause after a read that failed.
_AGAIN_S: Final = 0.1

# The position of a reader whose run has not begun: the numbers of a run that replaced another are not known.
_NOWHERE: Final = -2


class _Reader:
    """Wakes one reader, and hands it commits while it waits.

    pages: commits that continue its position; none while its consumer is busy
    """

    def __init__(self) -> None:
        self.pages: deque[Page] = deque()
        self._rung = False
        self._next: int | None = None  # the number that a page must begin with; None while it does not wait
        self._epoch = 0  # and its required epoch
        self._waiter: asyncio.Future[None] | None = None
        self._until = 0.0
        # Epoch and time of the last change, if that is in the future, and since when it has been the same.
        self._unchanged: tuple[int, float] | None = None
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def ring(self) -> None:
        """Signals that the store may have new frames."""
        self._rung = True
        self._wake()

    def hand(self, append: Append, page: Callable[[], Page]) -> None:
        """Hands a commit to a reader that waits for exactly these frames; any other reads the store."""
        # By its epoch too: a message may be older than the run that now has its id.
        if append.first != self._next or append.epoch != self._epoch:
            self.ring()
            return
        self._next = append.first + append.count
        self.pages.append(page())
        self._wake()

    def looks(self) -> None:
        """Clears all rings so far; call it before a read of the store."""
        self._rung = False

    async def rest(self, position: int, epoch: int, seconds: float) -> None:
        """Waits for a ring, a page of an epoch after a position, or a timeout."""
        if self._rung:
            return
        loop = asyncio.get_running_loop()
        self._next, self._epoch, self._waiter = position + 1, epoch, loop.create_future()
        self._until = loop.time() + seconds
        # A timer per wait would be one for each commit and reader. It is reused unless it fires too late.
        if self._timer is not None and self._timer.when() > self._until:
            self.close()
        if self._timer is None:
            self._timer = loop.call_at(self._until, self._due)
        try:
            await self._waiter
        finally:
            self._next = self._waiter = None

    def has_waited_for(self, status: RunStatus) -> bool:
        """Whether a run with an unreliable lease was silent for a lease length, by the local clock."""
        if not status.clock_set_back:
            self._unchanged = None
            return False
        change, now = (status.epoch, status.changed), asyncio.get_running_loop().time()
        if change != self._unchanged:
            self._unchanged, self._since = change, now
        return now > self._since + status.lost_at - status.changed

    def close(self) -> None:
        """Stops the timer. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        if self._waiter is None:
            return
        if loop.time() < self._until:
            self._timer = loop.call_at(self._until, self._due)
        else:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Readers:
    """The readers of a process.

    patience_s: how long a read is retried after its first failure if the store does not respond
    ours:       whether this process produces a run; it is not closed here, even if its lease has expired
    """

    def __init__(self, store: Store, *, patience_s: float, ours: Callable[[str], bool]) -> None:
        self._store = store
        self._patience_s = patience_s
        self._ours = ours
        self._readers: dict[str, set[_Reader]] = {}
        self._wanted: dict[tuple[str, int], asyncio.Future[Page | None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._closing: dict[str, asyncio.Task[bool]] = {}
        self._closed = False

    def wake(self, runs: Iterable[str] | None) -> None:
        """Wakes the readers of these runs; None for all."""
        for run in list(self._readers) if runs is None else runs:
            for reader in self._readers.get(run, ()):
                reader.ring()

    def committed(self, appends: Sequence[Append], statuses: Sequence[RunStatus | None]) -> None:
        """Hands commits, of this or another process, to the readers that wait for them."""
        for append, status in zip(appends, statuses, strict=True):
            if not append.count and append.state == "open":  # a renewal has no new frames
                continue
            readers = self._readers.get(append.run)
            if readers:
                _hand(readers, append, status)

    async def pages(
        self, run: str, after: int, *, max_replay: int | None, wait_s: float, silence_s: float
    ) -> AsyncGenerator[Page]:
        """Yields the frames after a number, page by page, up to the end of the run; see `Logs.pages`."""
        reader = _Reader()
        self._readers.setdefault(run, set()).add(reader)
        try:
            page, position = await self._first(run, after, reader, max_replay, wait_s)
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
                if page.up_to_date and not reader.pages:
                    await self._wait_for_frames(reader, position, page.status, silent_s - loop.time())
                page = reader.pages.popleft() if reader.pages else await self._next(run, reader, position)
        finally:
            reader.close()
            self._readers[run].discard(reader)
            if not self._readers[run]:
                del self._readers[run]

    async def read(self, run: str, after: int) -> Page | None:
        """One page; None if there is no such run. Retries while the store does not respond."""
        return await self._patiently(lambda: self._shared_read(run, after))

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retries while the store does not respond, for `patience_s` after the first failure."""
        # Not from the start: an attempt may take as long by itself. PostgreSQL reports a lock of a paused
        # process after five seconds, and the next attempt succeeds.
        loop = asyncio.get_running_loop()
        until: float | None = None
        while True:
            try:
                return await attempt()
            except LogUnavailable as error:
                until = loop.time() + self._patience_s if until is None else until
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
                task.exception()  # there may be no reader left

        return forget

    async def aclose(self) -> None:
        """Stops reading; readers that wait get LogUnavailable."""
        self._closed = True
        await end_tasks(*self._closing.values(), *([] if self._task is None else [self._task]))
        self._refuse(self._wanted.values(), _closed())
        self._wanted = {}
        self.wake(None)

    async def _first(
        self, run: str, after: int, reader: _Reader, max_replay: int | None, wait_s: float
    ) -> tuple[Page, int]:
        """The first page, and the position before it."""
        until = asyncio.get_running_loop().time() + wait_s
        reader.looks()
        while (page := await self.read(run, after)) is None:
            rest_s = until - asyncio.get_running_loop().time()
            if rest_s <= 0:
                raise RunNotFound(
                    f"the event log has no run {run!r}. Check the id. To follow a run that is about to "
                    "start, pass wait_s."
                )
            await reader.rest(_NOWHERE, 0, min(rest_s, _POLL_S))
            reader.looks()
        status = page.status
        if after > status.tail:
            raise InvalidRequest(
                f"run {run!r} has events up to {status.tail}, so a reader cannot be at {after}. "
                "Read from the beginning, with after=-1."
            )
        if after < 0 and (page.frames or status.state == "open"):
            after = status.first - 1  # the stored frames, also of a run that replaced another
        _check(page, after)
        if max_replay is not None and status.tail - after > max_replay:
            raise ReplayTooLong(
                f"run {run!r} has {status.tail - after} events after {after}; max_replay is {max_replay}. "
                f"Continue after {status.tail}, or read the result elsewhere.",
                details={"tail": status.tail},
            )
        return page, after

    async def _next(self, run: str, reader: _Reader, position: int) -> Page:
        reader.looks()
        page = await self.read(run, position)
        if page is None:
            raise LogLost(f"run {run!r} was deleted while it was read, or the store has lost it")
        _check(page, position)
        return page

    async def _wait_for_frames(
        self, reader: _Reader, position: int, status: RunStatus, most_s: float
    ) -> None:
        """Waits for possible new frames; closes the run if its producer has died."""
        ours = self._ours(status.run)
        if not ours and (status.is_lost or reader.has_waited_for(status)):
            # A full disk is still readable: reads alone would never detect that the run cannot be closed.
            await self._patiently(lambda: self.close_lost(status))
            return
        rest_s = min(_POLL_S, max(0.0, most_s))
        if status.state == "open" and not ours:
            # Wake readers when the lease expires, not up to a second later.
            rest_s = min(rest_s, max(0.0, status.lost_at - status.now) + 0.001)
        if status.left_s is not None:
            # Two of three reports may fail before the producer considers the run abandoned.
            rest_s = min(rest_s, status.left_s / 3)
        await reader.rest(position, status.epoch, rest_s)

    async def _mark_seen(self, status: RunStatus, seen_s: float) -> float:
        """Reports a reader to a run that stops without readers; returns the time of the last report."""
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

    async def _shared_read(self, run: str, after: int) -> Page | None:
        """Joins the shared read of all readers that are due now."""
        if self._closed:
            raise _closed()
        key = (run, after)
        found = self._wanted.get(key)
        if found is None:
            found = self._wanted[key] = asyncio.get_running_loop().create_future()
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._work(), name="llmstream log reads")
        return await asyncio.shield(found)  # shared, so cancelling one reader must not cancel all

    async def _work(self) -> None:
        while self._wanted:
            await asyncio.sleep(0)  # lets other woken readers join
            keys = list(self._wanted)[:_READERS_PER_REQUEST]
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
            future.exception()  # its reader may have been cancelled


def _check(page: Page, position: int) -> None:
    """Refuses a page that does not continue a position.

    raises: RunNotFound if events between were deleted; LogLost if the store lost events already read
    """
    status = page.status
    if page.frames and page.frames[0].seq != position + 1:
        raise RunNotFound(
            f"run {status.run!r} has started again at {page.frames[0].seq}; the events after {position} were "
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


def _hand(readers: Iterable[_Reader], append: Append, status: RunStatus | None) -> None:
    # Rejected, or the reply to an earlier attempt: only the store knows which frames it has.
    if status is None or status.epoch != append.epoch or status.tail != append.first + append.count - 1:
        for reader in readers:
            reader.ring()
        return
    batch = Batch(append.first, append.count, status.changed, append.data)
    pages: list[Page] = []  # one page shared by all readers, decoded once; none if no reader waits

    def page() -> Page:
        if not pages:
            found = page_of(RunSlice(status, (batch,) if append.count else ()), append.first - 1)
            assert found is not None  # there is a status
            pages.append(found)
        return pages[0]

    for reader in readers:
        reader.hand(append, page)
