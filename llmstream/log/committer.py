"""Commits the frames of all runs of a process.

The committer makes one commit for all runs that have new frames, at most every 10 ms; the first after a pause
is immediate. Every commit renews the leases of its runs; the lease of a silent run is renewed by an empty
append. A run whose append is refused has been closed or taken over by another process.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from llmstream.errors import Fenced, LogError, LogLost, LogUnavailable
from llmstream.events import Event
from llmstream.log.frames import encode_frames
from llmstream.log.store import Append, RunState, RunStatus, Store

__all__ = ["Committer", "Outbox", "end_tasks"]

_log: Final = logging.getLogger("llmstream")

# Bytes that may wait for a commit before the source is paused: some 4,000 events of text.
_FULL_BYTES: Final = 256 * 1024

# Renewals of a silent run's lease within its length: two may fail.
_RENEWALS: Final = 3

# Minimum interval of status requests for runs if the store does not name the changed run.
_POLL_S: Final = 0.5

# The pause after a commit that failed.
_AGAIN_S: Final = 0.1


# After a commit that kept a core busy, the committer pauses five times as long, so that the log uses at most
# a sixth of a core for any number of runs: the longer the pause, the more events share a row of their run and
# a page of the disk. At 1,000 runs with 50 events a second the pause is some 40 ms. The limit is for a commit
# that waited for a lock or for the disk.
_PAUSE_FACTOR: Final = 5
_LONGEST_PAUSE_S: Final = 0.1


class Outbox:
    """The frames of one run that wait for a commit, or that the store may still lose.

    keep_s: how long committed frames stay in memory, to be written again if the store loses them
    deferred: newest events, which are encoded when they are committed
    total:  bytes of the run's frames, without deferred events
    over:   set when the store has the complete run, or when the run was lost
    room:   set while more frames may be added
    end:    the state after the last frame; None while more may come
    released: whether the run is left open for another producer
    lost:   called at most once, with the reason why the run cannot be written any more
    stop:   called when a stop was requested, with the reason
    """

    def __init__(self, status: RunStatus, *, lease_s: float, keep_s: float, now: float) -> None:
        self.run, self.epoch = status.run, status.epoch
        self.over, self.room = asyncio.Event(), asyncio.Event()
        self.room.set()
        self.end: RunState | None = None
        self.released = False
        self._ends_lease = False  # whether the append in progress ends the lease
        self.lost: Callable[[LogError], None] = lambda error: None
        self.stop: Callable[[str], None] = lambda reason: None
        self._lease_s, self._keep_s = lease_s, keep_s
        # Each reply reports whether a stop was requested, or the readers have left.
        self._renew_s = min(lease_s, lease_s if status.left_s is None else status.left_s) / _RENEWALS
        # Only these lines can be written again: earlier ones belong to an earlier producer.
        self._tail = status.tail  # the last sequence number in the store
        # Pieces of one or more lines, and their sizes. A piece is split only if the store has a part of it.
        self._waiting: list[bytes] = []
        self._count = self._size = 0
        self.deferred: list[Event] = []
        # Includes the bytes of earlier producers, so that repeated takeovers stay bounded.
        self.total = status.bytes
        self._committed: deque[tuple[float, bytes]] = deque()  # with the time of the commit
        self._confirmed = now  # times are those of the event loop

    def add(self, lines: bytes, count: int) -> None:
        """Adds frames; clears `room` when too many bytes wait."""
        self._waiting.append(lines)
        self._count += count
        size = len(lines) - count + 1  # without line ends, because not every store keeps them
        self.total += size
        self._size += size
        if self._size >= _FULL_BYTES:
            self.room.clear()

    def encode_deferred(self) -> None:
        """Encodes the deferred events as frames; drops them if the run has ended."""
        if self.deferred and not self.over.is_set():
            self.add(encode_frames(self.deferred), len(self.deferred))
        self.deferred.clear()

    @property
    def has_pending(self) -> bool:
        """Whether there is something to commit."""
        return not self.over.is_set() and bool(self._waiting or self.deferred or self.end is not None)

    def renewal_due(self, now: float, within_s: float | None = None) -> bool:
        """Whether the lease is due for renewal."""
        pause_s = self._renew_s if within_s is None else within_s
        return not self.over.is_set() and now >= self._confirmed + pause_s

    def append(self) -> Append:
        """The next append; an empty one renews the lease."""
        if self.deferred:
            self.encode_deferred()
        # With many runs, most commits have one piece of each.
        data = self._waiting[0] if len(self._waiting) == 1 else b"\n".join(self._waiting)
        state = self.end or "open"
        self._ends_lease = self.released and self.end is not None
        lease_s = 0.0 if self._ends_lease else self._lease_s
        return Append(self.run, self.epoch, self._tail + 1, self._count, data, state, lease_s)

    def answered(self, status: RunStatus | None, now: float) -> None:
        """Applies the run's status after a commit. Frames of this epoch are ours.

        So a lost reply to a commit does no harm: the tail shows whether the commit was made.
        """
        if self.over.is_set():
            return
        if status is None:
            self._fail(_lost(self.run))
        # A tail beyond the frames we sent can only come from another producer, such as a fork of this
        # process.
        elif status.epoch != self.epoch or status.tail > self._tail + self._count:
            self._fail(_fenced(self.run))
        elif not self._move_to(status.tail, now):
            self._fail(_lost(self.run))
        elif status.state != "open":
            if self.end is not None and not self._waiting:
                self._end()
            else:
                self._fail(_fenced(self.run))
        elif self._ends_lease and not self._waiting:
            self._end()
        elif status.stopping:
            self.stop("requested")
        elif status.left_s is not None and status.is_left:
            self.stop("left")

    def _move_to(self, tail: int, now: float) -> bool:
        """Records the frames in the store; False if it has lost more than is in memory."""
        self._confirmed = now
        moved, self._tail = tail - self._tail, tail
        stored, waiting = self._waiting, list[bytes]()
        if moved != self._count:  # refused, or more has been added since
            lines = b"\n".join(stored).split(b"\n") if stored else []
            stored, waiting = lines[: max(0, moved)], lines[max(0, moved) :]
        if moved > 0 and self._keep_s > 0:
            self._committed.extend([(now, line) for piece in stored for line in piece.split(b"\n")])
        # The store has fewer frames than it confirmed: it was restored, or crashed before it synced.
        if moved < 0:
            if -moved > len(self._committed):
                return False
            again = [self._committed.pop()[1] for _ in range(-moved)]
            waiting[:0] = reversed(again)
        self._waiting, self._count = waiting, len(waiting)
        self._size = sum(map(len, waiting)) if waiting else 0
        while self._committed and self._committed[0][0] + self._keep_s <= now:
            self._committed.popleft()
        # Also after a loss: the source must pause while the same frames are written again.
        if self._size < _FULL_BYTES:
            self.room.set()
        return True

    def failed(self, error: LogUnavailable, now: float) -> None:
        """Handles a store that did not respond; abandons the run after a full lease: it may be closed."""
        if not self.over.is_set() and (not error.retryable or now > self._confirmed + self._lease_s):
            self._fail(error)

    def _fail(self, error: LogError) -> None:
        self._end()
        self.lost(error)

    def _end(self) -> None:
        self.over.set()
        self.room.set()


def _fenced(run: str) -> Fenced:
    return Fenced(
        f"run {run!r} no longer belongs to this process: its lease expired, and another process has closed "
        "it or taken it over. Later events of this process are not in the log."
    )


def _lost(run: str) -> LogLost:
    return LogLost(
        f"the store has lost run {run!r}, or events of it that it had confirmed; or it was deleted."
    )


class Committer:
    """Commits the outboxes of a process: one commit for all of them, at most every `every_s`.

    committed: called after each commit, with the appends and the statuses of these runs
    """

    def __init__(
        self,
        store: Store,
        *,
        every_s: float,
        lease_s: float,
        committed: Callable[[Sequence[Append], Sequence[RunStatus | None]], None],
    ) -> None:
        self._store = store
        self._every_s = every_s
        self._lease_s = lease_s
        self._committed = committed
        # Two of one run are possible: this process lost the run unnoticed and took it over again.
        self._boxes: dict[str, list[Outbox]] = {}
        self._due: dict[Outbox, None] = {}
        self._wake, self._go = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ahead = 0.0  # the offset of wall time from loop time

    def __contains__(self, run: str) -> bool:
        return run in self._boxes

    def add(self, box: Outbox) -> None:
        """Starts to commit an outbox; it is removed when its run has ended."""
        self._boxes.setdefault(box.run, []).append(box)
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._work(), name="llmstream log commits")
            self._clock_jumped(loop.time())
            self._tick()

    def changed(self, box: Outbox) -> None:
        """Wakes the committer for an outbox. The end of a run is committed without a pause."""
        if box not in self._due:  # the usual case if events come faster than commits
            self._due[box] = None
            self._wake.set()
        if box.end is not None:
            self._go.set()

    def look(self, run: str | None) -> None:
        """Requests the status of a run that another process changed; None for all, if not just requested."""
        now = asyncio.get_running_loop().time()
        for box in self._all() if run is None else self._boxes.get(run, ()):
            if run is not None or box.renewal_due(now, _POLL_S):
                self.changed(box)

    def _all(self) -> Iterable[Outbox]:
        return itertools.chain.from_iterable(self._boxes.values())

    async def drain(self, timeout_s: float) -> None:
        """Waits until all outboxes have ended; each must have an end."""
        waiting = [asyncio.ensure_future(box.over.wait()) for box in self._all()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=timeout_s)
            for waiter in late:
                waiter.cancel()

    async def aclose(self) -> None:
        """Stops committing. Waiting frames are not written."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await end_tasks(self._task)
            self._task = None

    def _tick(self) -> None:
        """Finds the leases to renew, ten times per lease length."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        jumped = self._clock_jumped(now)
        for box in self._all():
            if jumped or box.renewal_due(now):
                self.changed(box)
        self._timer = loop.call_later(self._lease_s / 10, self._tick)

    def _clock_jumped(self, now: float) -> bool:
        """Whether the wall clock was set since the last check, or the machine slept.

        Leases use wall time, renewals do not: to readers all leases may have expired by now.
        """
        ahead = time.time() - now
        jumped = abs(ahead - self._ahead) > self._lease_s / 10
        self._ahead = ahead
        return jumped

    async def _work(self) -> None:
        loop, next_s = asyncio.get_running_loop(), 0.0
        while True:
            await self._wake.wait()
            pause_s = next_s - loop.time()
            if pause_s > 0:
                self._go.clear()
                if not any(box.end is not None for box in self._due):
                    # A timer and an event instead of `sleep`: the end of a run ends the pause.
                    timer = loop.call_later(pause_s, self._go.set)
                    await self._go.wait()
                    timer.cancel()
            else:
                await asyncio.sleep(0)  # events that have already arrived join this commit
            began_s = loop.time()
            self._wake.clear()
            # Collected before the commit awaits: changes during it belong to the next one.
            due, self._due = self._due, {}
            if not await self._commit([box for box in due if not box.over.is_set()]):
                await asyncio.sleep(_AGAIN_S)
            next_s = began_s + self._every_s
            if self._store.is_local:
                ended_s = loop.time()
                next_s = max(next_s, ended_s + min(_PAUSE_FACTOR * (ended_s - began_s), _LONGEST_PAUSE_S))

    async def _commit(self, boxes: list[Outbox]) -> bool:
        """Commits; returns False if the store did not respond, so that the outboxes are due again."""
        if not boxes:
            return True
        loop = asyncio.get_running_loop()
        appends = [box.append() for box in boxes]
        try:
            statuses = await self._store.append(appends)
        except Exception as error:
            reason = error if isinstance(error, LogUnavailable) else _defect(error)
            for box in boxes:
                box.failed(reason, loop.time())
                self._after(box, again=True)
            return False
        self._committed(appends, statuses)
        now = loop.time()
        for box, status in zip(boxes, statuses, strict=True):
            box.answered(status, now)
            if box.has_pending or box.over.is_set():
                self._after(box, again=box.has_pending)
        return True

    def _after(self, box: Outbox, *, again: bool) -> None:
        if box.over.is_set():
            boxes = self._boxes.get(box.run, [])
            if box in boxes:
                boxes.remove(box)
            if not boxes:
                self._boxes.pop(box.run, None)
        elif again:
            self.changed(box)


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancels tasks until they have ended: redis-py swallows a cancellation that comes while it connects."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_AGAIN_S)


def _defect(error: Exception) -> LogUnavailable:
    _log.exception("the store of the event log failed", exc_info=error)
    failure = LogUnavailable(f"the store failed with {type(error).__name__}: {error}", retryable=False)
    failure.__cause__ = error
    return failure
