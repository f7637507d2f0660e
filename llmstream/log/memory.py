"""Event logs in the memory of this process, for tests and for programs of one process."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence

import msgspec

from llmstream.log.store import (
    Acquired,
    Append,
    Batch,
    Claim,
    RunSlice,
    RunStatus,
    Store,
    Swept,
    acquired,
    appended,
    swept,
)

__all__ = ["MemoryStore"]


class MemoryStore(Store):
    """Runs in a dict. Its methods do not await, so each is atomic in its event loop."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._runs: dict[str, RunStatus] = {}
        self._batches: dict[str, list[Batch]] = {}

    async def open(self) -> None:
        """As in `Store`."""

    async def aclose(self) -> None:
        """As in `Store`. The runs stay."""

    async def acquire(self, claim: Claim) -> Acquired:
        """As in `Store`."""
        old = self._status(claim.run)
        new = acquired(old, claim, self._clock())
        if new is None:
            assert old is not None  # a claim of an unused id is always granted
            return Acquired(False, old)
        self._runs[claim.run] = new
        if claim.mode != "take-over" or claim.run not in self._batches:
            self._batches[claim.run] = []
        return Acquired(True, new)

    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        """As in `Store`."""
        return [self._append(append) for append in appends]

    def _append(self, append: Append) -> RunStatus | None:
        now = self._clock()
        new = appended(self._runs.get(append.run), append, now)
        if new is None:
            return self._status(append.run)
        self._runs[append.run] = new
        if append.count:
            self._batches[append.run].append(Batch(append.first, append.count, now, append.data))
        return new

    async def read(self, wanted: Sequence[tuple[str, int]], max_bytes: int) -> Sequence[RunSlice]:
        """As in `Store`."""
        return [RunSlice(self._status(run), self._after(run, after, max_bytes)) for run, after in wanted]

    def _after(self, run: str, after: int, max_bytes: int) -> list[Batch]:
        batches = self._batches.get(run, [])
        # Batches are in order, so search from the end: a reader at the end of a long run must not scan all of
        # it.
        place = bisect_left(batches, after + 1, key=lambda batch: batch.first + batch.count - 1)
        found, size = list[Batch](), 0
        for index in range(place, len(batches)):
            found.append(batches[index])
            size += len(batches[index].data)
            if size >= max_bytes:
                break
        return found

    async def request_stop(self, run: str) -> RunStatus | None:
        """As in `Store`."""
        status = self._status(run)
        if status is not None and status.state == "open":
            status = self._runs[run] = msgspec.structs.replace(status, stopping=True)
        return status

    async def mark_seen(self, runs: Sequence[str]) -> None:
        """As in `Store`."""
        for run in runs:
            if run in self._runs:
                self._runs[run] = msgspec.structs.replace(self._runs[run], seen=self._clock())

    async def delete(self, run: str) -> None:
        """As in `Store`."""
        self._runs.pop(run, None)
        self._batches.pop(run, None)

    async def sweep(self) -> Swept:
        """As in `Store`."""
        now, lost = self._clock(), []
        for run, status in list(self._runs.items()):
            fate = swept(status, now)
            if fate == "delete":
                await self.delete(run)
            elif fate == "empty":
                self._batches[run] = []
                self._runs[run] = msgspec.structs.replace(status, first=status.tail + 1)
            elif msgspec.structs.replace(status, now=now).is_lost:
                lost.append(run)
        return Swept(lost)

    async def listen(self, on_change: Callable[[str | None], None]) -> None:
        """There is no other process."""
        on_change(None)
        await asyncio.Event().wait()

    def _status(self, run: str) -> RunStatus | None:
        found = self._runs.get(run)
        # A status has the time at which it was read, by which leases are compared.
        return None if found is None else msgspec.structs.replace(found, now=self._clock())
