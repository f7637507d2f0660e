"""`open_logs` and `Logs`: start runs, follow them, stop them, from any process."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import socket
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Final, Literal, Self

from llmstream.addresses import is_postgres, is_redis, shown, sqlite_path
from llmstream.errors import ErrorInfo, InvalidRequest, LogUnavailable, RunExists, error_from_info
from llmstream.events import ErrorEvent, Event, RetryNotice
from llmstream.log.committer import Committer, Outbox, end_tasks
from llmstream.log.frames import Page
from llmstream.log.producer import Live
from llmstream.log.reader import Readers
from llmstream.log.recovery import Fold, fold_run
from llmstream.log.store import Append, Claim, RunStatus, Store
from llmstream.log.takeover import Progress, Takeover, taken_over

__all__ = ["Logs", "open_logs"]

_log: Final = logging.getLogger("llmstream")

# How often a process deletes expired runs and closes lost ones without readers.
_SWEEP_S: Final = 60.0

# Number of lost runs closed concurrently; each is observed for a tenth of its lease first.
_CONCURRENT_CLOSES: Final = 50

# How long closing waits for the last commit, and for the cleanup of runs that it stops.
_CLOSING_S: Final = 5.0

# This long after its end a lease has expired by every clock.
_PAST_S: Final = 0.01

# The longest id of a run; it is part of keys and addresses.
_MOST_CHARS: Final = 512


def open_logs(
    where: str | Store,
    *,
    lease_s: float = 10.0,
    commit_every_s: float = 0.01,
    keep_s: float = 86_400.0,
    max_bytes: int = 64 * 1024 * 1024,
    owner: str | None = None,
) -> Logs:
    """Opens event logs: use it with `async with`, or call `aclose` at the end.

    where:          "sqlite:PATH", "memory:", "redis://HOST:PORT/DB" (also rediss:// and unix://; extra
                    `redis`), "postgresql://HOST/DB" (extra `postgres`), or a `Store` of your own
    lease_s:        how long a producer may be silent before its run is closed as lost; it renews the lease
                    itself, so only a process that died or hangs is silent
    commit_every_s: the longest time between an event and its commit
    keep_s:         how long the events of a run are stored after its end
    max_bytes:      the most that one run may write; a longer one fails with LimitExceeded
    owner:          name of this process in `RunStatus.owner`; default: "HOST:PID"
    raises:         InvalidRequest for an address or option that is invalid. The store is opened at first use
    """
    for name, value in {"lease_s": lease_s, "keep_s": keep_s, "max_bytes": max_bytes}.items():
        if not value > 0:
            raise InvalidRequest(f"{name} must be positive, got {value!r}")
    return Logs(
        where if isinstance(where, Store) else _store(where),
        lease_s=lease_s,
        commit_every_s=max(0.0, commit_every_s),
        keep_s=keep_s,
        max_bytes=max_bytes,
        owner=owner or f"{socket.gethostname()}:{os.getpid()}",
    )


def _store(where: str) -> Store:
    if where in ("memory", "memory:"):
        from llmstream.log.memory import MemoryStore

        return MemoryStore()
    if path := sqlite_path(where):
        from llmstream.log.sqlite import SQLiteStore

        return SQLiteStore(path)
    if is_redis(where):
        from llmstream.log.redis import RedisStore

        return RedisStore(where)
    if is_postgres(where):
        from llmstream.log.postgres import PostgresStore

        return PostgresStore(where)
    raise InvalidRequest(
        f"cannot open an event log at {shown(where)!r}. Write 'sqlite:runs.db' or "
        "'sqlite:/var/lib/app/runs.db' (no slashes before the path), 'memory:', 'redis://host:6379/0', or "
        "'postgresql://host/database'."
    )


class Logs:
    """Event logs in one store. One object per process, used by one event loop; see `open_logs`."""

    def __init__(
        self,
        store: Store,
        *,
        lease_s: float,
        commit_every_s: float,
        keep_s: float,
        max_bytes: int,
        owner: str,
    ) -> None:
        self._store = store
        self._lease_s, self._commit_every_s, self._keep_s = lease_s, commit_every_s, keep_s
        self._max_bytes, self._owner = max_bytes, owner
        self._opening: asyncio.Future[_Opened] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def start(
        self,
        run: str,
        source: AsyncIterable[Event],
        *,
        replace: bool = False,
        take_over: Takeover | None = None,
        takeover_s: float = 0.0,
        stop_when_left_s: float | None = None,
    ) -> Live:
        """Starts a task that reads a stream or a run into the log, independently of readers.

        When this returns, the run can be followed from any process. Reading `source` yourself too is not
        possible; follow the log.

        run:              id of the run, up to 512 characters: one for each answer, not one for each chat
        source:           `agent.stream(...)`, `ls.stream(...)`, or any async iterator of events
        replace:          reuses the id of a run that has ended, and deletes its events. Numbers continue, so
                          that positions in the old run are not valid in the new one
        take_over:        continues the log of a run whose producer died, if there is one: with "continue",
                          `source` yields the rest; with "repeat" or "replay", the run from its beginning. A
                          `retry` event declares an interrupted step void. Waits for the old lease
        takeover_s:       how long readers wait for a takeover if the producer dies, before they close the run
        stop_when_left_s: stops the run once it had no reader for this time; default: never
        raises:           RunExists if the id is in use
        """
        check_id(run)
        if takeover_s < 0 or (stop_when_left_s is not None and stop_when_left_s <= 0):
            raise InvalidRequest("takeover_s must not be negative, and stop_when_left_s must be positive.")
        if replace and take_over is not None:
            raise InvalidRequest("a run is either replaced or taken over. Pass one of replace and take_over.")
        opened = await self._open()
        claim = Claim(
            run=run,
            owner=self._owner,
            mode="replace" if replace else "new" if take_over is None else "take-over",
            lease_s=self._lease_s,
            takeover_s=takeover_s,
            keep_s=self._keep_s,
            left_s=stop_when_left_s,
        )
        # Claimed before its events are read: no other process can write afterwards, so the state stays valid.
        status, fold = await self._acquire(claim), Fold()
        if take_over is not None and status.tail >= 0:
            progress = Progress()
            fold, _ = await fold_run(self._store, run, progress.see)
            source = taken_over(source, progress, take_over, status.epoch)
        if self._closed:
            raise LogUnavailable("the event log was closed while the run was starting", retryable=False)
        now = asyncio.get_running_loop().time()
        box = Outbox(status, lease_s=self._lease_s, keep_s=self._store.may_lose_s, now=now)
        live = Live(
            source,
            box,
            fold=fold,
            committer=opened.committer,
            lives=opened.lives,
            max_bytes=self._max_bytes,
        )
        opened.readers.wake([run])
        return live

    async def _acquire(self, claim: Claim) -> RunStatus:
        granted, status = await self._store.acquire(claim)
        if not granted and claim.mode == "take-over" and status.state == "open":
            # Its producer may have died only just now, for example if a worker was restarted.
            # By the store's own times, so that a wrong clock on this machine does not matter.
            await asyncio.sleep(status.lease_until - status.now + _PAST_S)
            granted, status = await self._store.acquire(claim)
        if not granted:
            raise _in_use(status)
        return status

    async def follow(
        self,
        run: str,
        after: int = -1,
        *,
        max_replay: int | None = None,
        wait_s: float = 0.0,
        errors: Literal["raise", "events"] = "raise",
    ) -> AsyncGenerator[tuple[int, Event]]:
        """Yields the events of a run after a number, first the stored ones, then new ones.

        No event is missing or repeated; every process gets the same numbers. If the producer dies,
        the run ends with its written events, an `error` "producer-lost" and a `finish`.

        after:      number of the last event already read; -1 for all
        max_replay: the most events to replay
        wait_s:     how long to wait for a run that has not been started
        errors:     "events" does not raise the error of a run that failed or was stopped
        raises:     the error of the run after its last event, as a stream does; RunNotFound; ReplayTooLong;
                    LogLost if the store lost events; LogUnavailable if it does not respond for `lease_s`
        """
        failure: ErrorInfo | None = None
        async with aclosing(self.pages(run, after, max_replay=max_replay, wait_s=wait_s)) as pages:
            async for page in pages:
                for seq, event in page.events:
                    if isinstance(event, ErrorEvent):
                        failure = event.error
                    elif isinstance(event, RetryNotice):
                        failure = None
                    yield seq, event
                # An error event inside a run that completed was handled, for example by a retry or another
                # model.
                ended_well = page.status.state in ("open", "closed")
        if failure is not None and not ended_well and errors == "raise":
            raise error_from_info(failure)

    async def pages(
        self,
        run: str,
        after: int = -1,
        *,
        max_replay: int | None = None,
        wait_s: float = 0.0,
        silence_s: float | None = None,
    ) -> AsyncGenerator[Page]:
        """Yields what `follow` does, as pages of frames that are not decoded, with the status of the run.

        For servers that pass the events on. The last page has `ended`, and may have no frames. The error of a
        run is not raised.

        silence_s: yields a page without frames after this time without any: time for a heartbeat
        """
        _check_position(run, after)
        opened = await self._open()
        pages = opened.readers.pages(
            run, after, max_replay=max_replay, wait_s=wait_s, silence_s=silence_s or math.inf
        )
        async with aclosing(pages):
            async for page in pages:
                yield page

    async def read(self, run: str, after: int = -1) -> Page | None:
        """The stored frames after a number, about 256 KiB at most.

        returns: None if there is no such run
        """
        _check_position(run, after)
        return await (await self._open()).readers.read(run, after)

    async def stop(self, run: str) -> bool:
        """Stops a run, in whatever process it is produced; returns False if no such run is open.

        Its source is closed, as by `aclose`; its log ends with an `error` "stopped" and a `finish`. This
        returns once the request is stored; follow the run for its end.
        """
        check_id(run)
        opened = await self._open()
        status = await self._store.request_stop(run)
        if status is None or status.state != "open":
            return False
        # The run may be produced here; other processes are notified by the store.
        opened.committer.look(run)
        opened.readers.wake([run])
        return True

    async def status(self, run: str) -> RunStatus | None:
        """The status of a run; None if there is no such run. A run whose producer died is closed first."""
        check_id(run)
        opened = await self._open()
        (part,) = await self._store.read([(run, _NO_FRAMES)], 1)
        if part.status is not None and part.status.is_lost:
            await opened.readers.close_lost(part.status)
            (part,) = await self._store.read([(run, _NO_FRAMES)], 1)
        return part.status

    async def wait(self, run: str) -> RunStatus:
        """Waits until the log of a run is complete, in whatever process it is produced; returns its status.

        The error of a run is not raised.

        raises: RunNotFound; LogUnavailable, LogLost as `follow`
        """
        status = await self.status(run)
        async with aclosing(self.pages(run, -1 if status is None else status.tail)) as pages:
            async for page in pages:
                status = page.status
        assert status is not None  # there is no run without a page
        return status

    async def delete(self, run: str) -> None:
        """Deletes a run and its events at once. An open one is lost by its producer; stop it first."""
        check_id(run)
        opened = await self._open()
        await self._store.delete(run)
        opened.readers.wake([run])

    async def sweep(self) -> None:
        """Deletes expired runs, and closes runs whose producers died. This also happens once a minute."""
        await self._open()
        lost = list((await self._store.sweep()).lost)
        # `status` closes a run that is lost.
        for first in range(0, len(lost), _CONCURRENT_CLOSES):
            await asyncio.gather(*[self.status(run) for run in lost[first : first + _CONCURRENT_CLOSES]])

    async def aclose(self, *, drain_s: float = 0.0) -> None:
        """Stops the runs of this process, writes their ends, and closes the store. Idempotent.

        drain_s: how long the runs may first take to end by themselves
        """
        opening, self._opening, self._closed = self._opening, None, True
        if opening is None:
            return
        try:
            opened = await opening
        except Exception:  # the opener has already received it
            return
        await opened.aclose(drain_s)
        await self._store.aclose()

    async def _open(self) -> _Opened:
        if self._closed:
            raise LogUnavailable("the event log is closed", retryable=False)
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._opened())
        opening = self._opening
        if opening.get_loop() is not asyncio.get_running_loop():
            raise InvalidRequest(
                "these event logs were opened in another event loop. Call open_logs() in each, such as in "
                "each asyncio.run()."
            )
        try:
            return await asyncio.shield(opening)
        except Exception:
            if self._opening is opening:
                self._opening = None  # so that the next attempt may succeed
            raise

    async def _opened(self) -> _Opened:
        await self._store.open()
        return _Opened(self._store, self._lease_s, self._commit_every_s, self.sweep)


# A position after the end of every run. Below 2**53, up to which Lua in Redis and JavaScript are exact.
_NO_FRAMES: Final = 2**52


class _Opened:
    """The background tasks of open logs: the committer, the listener and the sweep.

    lives: the runs that this process reads
    """

    def __init__(
        self, store: Store, lease_s: float, commit_every_s: float, sweep: Callable[[], Awaitable[None]]
    ) -> None:
        self.lives: set[Live] = set()
        self._store, self._sweep = store, sweep
        self.readers = Readers(store, patience_s=lease_s, ours=lambda run: run in self.committer)
        self.committer = Committer(
            store, every_s=commit_every_s, lease_s=lease_s, committed=self.readers.committed
        )
        store.committed = self._committed
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._listen(), name="llmstream log listener"),
            loop.create_task(self._sweep_at_times(), name="llmstream log sweep"),
        ]

    async def aclose(self, drain_s: float) -> None:
        if drain_s > 0 and self.lives:
            await asyncio.wait([live.task for live in self.lives], timeout=drain_s)
        for live in list(self.lives):
            live.stop("closing")
        if self.lives:
            await asyncio.wait([live.task for live in self.lives], timeout=_CLOSING_S)
        # In this order: ends are written while the committer runs, and readers get them before further reads
        # are refused.
        await self.committer.drain(_CLOSING_S)
        await end_tasks(*self._tasks)
        await self.committer.aclose()
        await self.readers.aclose()

    def _on_change(self, run: str | None) -> None:
        self.readers.wake(None if run is None else [run])
        self.committer.look(run)

    def _committed(self, append: Append, status: RunStatus) -> None:
        self.readers.committed([append], [status])
        self.committer.look(append.run)

    async def _listen(self) -> None:
        while True:
            try:
                await self._store.listen(self._on_change)
            except LogUnavailable as error:
                _log.warning("event log: cannot listen for changes, readers look once a second: %s", error)
            except Exception:
                _log.exception("event log: the listener failed; readers look once a second")
            await asyncio.sleep(1.0)

    async def _sweep_at_times(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S * random.uniform(0.5, 1.0))  # noqa: S311  # so that processes take turns
            try:
                await self._sweep()
            except LogUnavailable as error:
                _log.warning("event log: the sweep failed: %s", error)
            except Exception:
                _log.exception("event log: the sweep failed")


def check_id(run: str) -> None:
    """Checks the id of a run.

    raises: InvalidRequest
    """
    if not isinstance(run, str) or not 0 < len(run) <= _MOST_CHARS:
        raise InvalidRequest(f"the id of a run is a str of 1 to {_MOST_CHARS} characters, got {run!r:.80}")
    # A lone surrogate cannot be encoded as UTF-8, so that it would fail in some stores and not in others.
    if not run.isascii() and any("\ud800" <= character <= "\udfff" for character in run):
        raise InvalidRequest(f"the id of a run must be valid Unicode, got {run!r:.80}")


def _check_position(run: str, after: int) -> None:
    check_id(run)
    if not isinstance(after, int) or isinstance(after, bool) or not -1 <= after < _NO_FRAMES:
        raise InvalidRequest(
            f"after is the number of the last event that was seen, or -1 for none; got {after!r:.80}"
        )


def _in_use(status: RunStatus) -> RunExists:
    if status.state == "open":
        text = f"run {status.run!r} is being produced by {status.owner}. Follow it, or stop it first."
    else:
        text = (
            f"run {status.run!r} has ended already ({status.state}). Use another id for a new answer, or "
            "replace=True to delete the old one."
        )
    return RunExists(text, reason=status.state, details={"tail": status.tail})
