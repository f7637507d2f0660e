"""The interface of a store of event logs, and the rules by which a run changes in it.

A store has a record of each run (`RunStatus`) and its frames, in batches. It checks and makes every change in
one atomic step. `acquired`, `appended` and `swept` are the rules, as functions of a record, for stores that
can run Python inside of a transaction; others express the same rules in the store's own language.
`llmstream.log.conformance` has tests for both.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

__all__ = [
    "Acquired",
    "Append",
    "Batch",
    "Claim",
    "RunSlice",
    "RunState",
    "RunStatus",
    "Store",
    "Swept",
    "acquired",
    "appended",
    "swept",
]

RunState: TypeAlias = Literal["open", "closed", "failed", "stopped"]
"""open: events may follow; closed: complete; failed: ended by an error; stopped: ended on request."""

# Polling interval of a store without notifications; a poll of SQLite costs 6 us.
_POLL_S: Final = 0.02


# Records contain only values, so the garbage collector need not track them.
class RunStatus(msgspec.Struct, frozen=True, gc=False):
    """A run as recorded in its store. Times are seconds since 1970 by the store's clock.

    first:       sequence number of the first stored frame
    tail:        sequence number of the last frame; -1 before there is any
    epoch:       increases with each producer of the run, from the milliseconds since 1970 at its start
    owner:       its current or last producer
    changed:     when its producer last wrote, or renewed its lease
    ended:       when it ended; None while it is open
    lease_until: when the lease expires, unless its producer renews it
    lost_at:     from when on a reader may close it; later than the lease if a producer may take it over
    stopping:    whether a stop was requested
    bytes:       size of its frames
    keep_s:      how long its frames are stored after its end
    left_s:      how long it continues without a reader; None for ever
    seen:        when a reader was last present; known only with `left_s`
    now:         the time of this status
    """

    run: str
    state: RunState
    first: int
    tail: int
    epoch: int
    owner: str
    started: float
    changed: float
    ended: float | None
    lease_until: float
    lost_at: float
    stopping: bool
    bytes: int
    keep_s: float
    left_s: float | None
    seen: float
    now: float

    @property
    def age_s(self) -> float:
        """Seconds since the run was started."""
        return max(0.0, self.now - self.started)

    @property
    def is_lost(self) -> bool:
        """Whether the producer has died, as far as the store can tell, and no other took over the run."""
        return self.state == "open" and self.now > self.lost_at

    @property
    def clock_set_back(self) -> bool:
        """Whether the store's clock was set back since the producer wrote: its lease may be hours too long.

        A producer that lives renews it by the new clock within a tenth of its length.
        """
        return self.state == "open" and self.now < self.changed

    @property
    def is_left(self) -> bool:
        """Whether there was no reader for `left_s`."""
        return self.left_s is not None and self.now > self.seen + self.left_s


class Claim(NamedTuple):
    """A producer's request for a run.

    mode:       "new" accepts only an id that is not in use; "replace" also the id of a run that has ended
                or whose producer died, and deletes its frames; "take-over" continues a run whose
                producer died
    takeover_s: how long past its lease the run is left to another producer before readers close it
    """

    run: str
    owner: str
    mode: Literal["new", "replace", "take-over"]
    lease_s: float
    takeover_s: float
    keep_s: float
    left_s: float | None


class Acquired(NamedTuple):
    """granted: whether the claim was successful; status: of the run, after it."""

    granted: bool
    status: RunStatus


class Append(msgspec.Struct, frozen=True, gc=False):
    """One run's part of a commit. With a count of 0 it renews the lease.

    epoch: the producer's; an append with another one is refused
    first: sequence number of its first frame: one more than the tail, or it is refused
    count: number of frames
    data:  the frames: lines of JSON without a line end after the last
    state: of the run after it
    lost:  closes a run for a producer that died, and raises the epoch: refused before `lost_at`, unless the
           clock was set back to before the lease began
    """

    run: str
    epoch: int
    first: int
    count: int
    data: bytes
    state: RunState
    lease_s: float
    lost: bool = False


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Frames that were appended together, at the given time."""

    first: int
    count: int
    time: float
    data: bytes


class RunSlice(NamedTuple):
    """A part of a run, and its status; the status is None if there is no such run."""

    status: RunStatus | None
    batches: Sequence[Batch]


def acquired(old: RunStatus | None, claim: Claim, now: float) -> RunStatus | None:
    """Returns the record of a run after a claim; None if the claim is refused.

    A run that replaces another continues its numbers, so that a reader's position in the old run is never
    valid in the new one.
    """
    first, tail, started, size = 0, -1, now, 0
    # Not 1: a suspended producer of an earlier, deleted run of this id must have a lower one.
    epoch = int(now * 1000)
    if old is not None:
        held = old.state == "open" and _began(old) <= now <= old.lease_until
        if held or claim.mode == "new" or (claim.mode == "take-over" and old.state != "open"):
            return None
        tail, epoch, first = old.tail, old.epoch + 1, old.tail + 1
        if claim.mode == "take-over":
            first, started, size = old.first, old.started, old.bytes
    return RunStatus(
        run=claim.run,
        state="open",
        first=first,
        tail=tail,
        epoch=epoch,
        owner=claim.owner,
        started=started,
        changed=now,
        ended=None,
        lease_until=now + claim.lease_s,
        lost_at=now + claim.lease_s + claim.takeover_s,
        stopping=False,
        bytes=size,
        keep_s=claim.keep_s,
        left_s=claim.left_s,
        seen=now,
        now=now,
    )


def _began(status: RunStatus) -> float:
    """A time before its lease began. The current time may be earlier if the clock was set back."""
    return 2 * status.changed - status.lease_until


def appended(old: RunStatus | None, append: Append, now: float) -> RunStatus | None:
    """Returns the record of a run after an append; None if the append is refused, and writes nothing."""
    if (
        old is None
        or old.epoch != append.epoch
        or old.state != "open"
        or old.tail + 1 != append.first
        or (append.lost and _began(old) <= now <= old.lost_at)
    ):
        return None
    return msgspec.structs.replace(
        old,
        state=append.state,
        tail=old.tail + append.count,
        epoch=old.epoch + append.lost,
        changed=now,
        ended=None if append.state == "open" else now,
        lease_until=now + append.lease_s,
        # The distance between the two is the time for a takeover, which stays as it was claimed.
        lost_at=now + append.lease_s + old.lost_at - old.lease_until,
        bytes=old.bytes + len(append.data),
        now=now,
    )


class Swept(NamedTuple):
    """The result of a sweep. lost: runs whose producers died, to be closed."""

    lost: Sequence[str]


def swept(old: RunStatus, now: float) -> Literal["keep", "empty", "delete"]:
    """Decides whether a run stays, loses its frames, or is deleted.

    The record of a run outlives its frames by `keep_s`, so that a late reader gets the reason, and
    so that an old producer of the id stays fenced off.
    """
    if old.ended is None or now <= old.ended + old.keep_s:
        return "keep"
    return "empty" if now <= old.ended + 2 * old.keep_s else "delete"


class Store(ABC):
    """Where event logs are stored. One object a process; it is used by one event loop.

    A store that cannot be reached, or refuses to write, raises LogUnavailable from every method. Whether the
    change was made is unknown then; the next status shows it.

    may_lose_s: for how long after a commit a crash of the store may lose it; producers keep their last frames
    for that time, and write them again
    committed:  set by `Logs`: a store whose `listen` learns of a commit by another process may call this with
                it in place of `on_change`, so that its readers need no request
    is_local:   whether a commit is work for this machine rather than a wait for another; then there are
                fewer commits when each takes long
    """

    may_lose_s: float = 0.0
    is_local: bool = False
    committed: Callable[[Append, RunStatus], None] | None = None

    @abstractmethod
    async def open(self) -> None:
        """Connects. Called once, before any other method."""

    @abstractmethod
    async def aclose(self) -> None:
        """Disconnects. Idempotent."""

    @abstractmethod
    async def acquire(self, claim: Claim) -> Acquired:
        """Makes the claimant the producer of a run, if the rule `acquired` grants it."""

    @abstractmethod
    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        """Appends to any number of runs in one commit, each by the rule `appended`.

        returns: the status of each run after it, also if it was refused; None if there is no such run
        """

    @abstractmethod
    async def read(self, wanted: Sequence[tuple[str, int]], max_bytes: int) -> Sequence[RunSlice]:
        """Returns frames of any number of runs, each after a sequence number.

        A slice ends once it has `max_bytes` or more, and has at least one batch if there is any. Its first
        batch may begin with frames before the wanted ones.
        """

    @abstractmethod
    async def request_stop(self, run: str) -> RunStatus | None:
        """Marks an open run as `stopping`; returns its status, or None if there is no such run."""

    @abstractmethod
    async def mark_seen(self, runs: Sequence[str]) -> None:
        """Records that the runs have readers now."""

    @abstractmethod
    async def delete(self, run: str) -> None:
        """Deletes the frames and the record of a run, whatever its state."""

    @abstractmethod
    async def sweep(self) -> Swept:
        """Deletes by the rule `swept`."""

    async def listen(self, on_change: Callable[[str | None], None]) -> None:
        """Calls `on_change` with each run that changes in another process, until it is cancelled.

        None means any run. Calls `on_change(None)` once it listens, and may miss later changes: readers also
        poll once a second. This default polls every 20 ms.
        """
        while True:
            on_change(None)
            await asyncio.sleep(_POLL_S)
