"""The producing side of a run: reads its source to the end, independently of readers, and writes its log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable
from typing import Final, Protocol, runtime_checkable

from llmstream.chats.chat import logged_run
from llmstream.errors import (
    ErrorInfo,
    IncompleteStream,
    LimitExceeded,
    LLMStreamError,
    LogError,
    Stopped,
)
from llmstream.events import DELTAS, Event, Finish, Usage, encode
from llmstream.log.committer import Committer, Outbox
from llmstream.log.frames import encode_frames
from llmstream.log.recovery import Fold
from llmstream.log.store import RunState

__all__ = ["Closable", "Live"]

_log: Final = logging.getLogger("llmstream")

# How long the cleanup of a stopped run may take before its end is written for readers.
_CLEANUP_S: Final = 1.0


# Maximum of deferred characters: some 70 deltas of a word. A character of a delta or an id takes 6 bytes of
# JSON at most, and the rest of the frame 50.
_DEFERRED_BYTES: Final = 16 * 1024
_FRAME_BYTES: Final = 64


@runtime_checkable
class Closable(Protocol):
    """A stream, a run or a generator, closed by `aclose`."""

    async def aclose(self) -> None:
        """Closes it."""


@runtime_checkable
class _Counting(Protocol):
    """A stream or a run, which counts its tokens."""

    @property
    def total_usage(self) -> Usage: ...


class Live:
    """A run that this process produces. It continues with or without readers.

    run:   its id
    task:  reads the source; its exceptions end in `error`; cancelled by `stop`
    error: why the log lost it, or the exception of the source; otherwise None
    """

    def __init__(
        self,
        source: AsyncIterable[Event],
        box: Outbox,
        *,
        fold: Fold,
        committer: Committer,
        lives: set[Live],
        max_bytes: int,
    ) -> None:
        self.run = box.run
        self.error: BaseException | None = None
        self._source, self._box, self._committer, self._fold = source, box, committer, fold
        self._lives, self._max_bytes = lives, max_bytes
        self._reason: str | None = None  # the reason for stopping
        self._lost: LogError | None = None
        self._cleanup: asyncio.TimerHandle | None = None
        box.lost, box.stop = self._lose, self.stop
        # Before the task exists: the lease must be renewed from the start.
        committer.add(box)
        self.task = asyncio.get_running_loop().create_task(self._read(), name=f"llmstream run {box.run}")
        self.task.add_done_callback(self._done)
        lives.add(self)

    @property
    def state(self) -> RunState:
        """The state in the log once everything is committed; "open" while events may follow."""
        return self._box.end or "open"

    async def wait(self) -> RunState:
        """Waits until the log has the complete run, and the source is closed; returns its final state.

        raises: Fenced, LogLost or LogUnavailable if the log lost the run
        """
        await self._box.over.wait()
        await asyncio.wait({self.task})
        if self._lost is not None:
            raise self._lost
        return self.state

    def stop(self, reason: str = "requested") -> None:
        """Stops the run: closes its source and its log. `Logs.stop` does so from any process."""
        if self._reason is None and not self.task.done():
            self._reason = reason
            loop = asyncio.get_running_loop()
            loop.call_soon(self.task.cancel)  # not before it began, or it would not close its source
            self._cleanup = loop.call_later(_CLEANUP_S, self._close)

    def release(self) -> None:
        """Closes the source at once, and leaves the log open for the process that takes the run over.

        For a run that waits for something, or whose process shuts down. Readers wait for its next producer,
        as long as `takeover_s` allows.
        """
        if self._reason is None and not self.task.done():
            self._box.released = True
            self.stop("released")

    async def _read(self) -> None:
        box, fold, source = self._box, self._fold, self._source
        deferred, changed = box.deferred, self._committer.changed
        kind: type | None = None  # of the previous event, if it was a delta
        block_id, frame, room = "", 0, 0
        logged_run.set(self.run)  # for chats in the source, which this task reads
        try:
            if fold.finished:  # an adopted run that lacked only its end
                return
            async for event in source:
                # A delta that continues the block of the previous one is always valid, and is encoded at the
                # commit. A measured hot loop: with 1,000 runs this saves a third of the CPU per event.
                if type(event) is kind and event.id is block_id and event.provider_metadata is None:  # type: ignore[union-attr]  # a delta
                    delta: str = event.delta  # type: ignore[union-attr]  # as above
                    room -= 6 * len(delta) + frame
                    if not delta.isascii():
                        delta.encode()  # raises here instead of in a shared commit
                    if room > 0 and box.end is None:
                        if not deferred:
                            changed(box)
                        deferred.append(event)
                        continue
                if deferred:
                    box.encode_deferred()
                if box.end is not None:  # the log was closed before its source had cleaned up
                    continue
                found = self._write(event)
                if not box.room.is_set():
                    await box.room.wait()
                kind = type(event) if type(event) in DELTAS and found and found[-1] is event else None
                if kind is not None:
                    block_id = event.id  # type: ignore[union-attr, assignment]  # as above
                    frame = _FRAME_BYTES + 6 * len(block_id)
                    room = min(_DEFERRED_BYTES, self._max_bytes - box.total)
        finally:
            if isinstance(source, Closable):
                await source.aclose()

    def _write(self, event: Event) -> list[Event]:
        """Adds an event to the log; returns it as the grammar repaired it.

        raises: LimitExceeded if the log would become too long
        """
        box, line = self._box, encode(event)
        # Checked before the state includes it: closing the run must end exactly the blocks in the log.
        if box.total + len(line) > self._max_bytes and type(event) is not Finish:
            raise LimitExceeded(
                f"the run is longer than the {self._max_bytes:,} bytes that a log may have. "
                "Raise max_bytes of open_logs().",
                reason="max_bytes",
            )
        found = self._fold.feed(event)
        lines = line if len(found) == 1 and found[0] is event else encode_frames(found)
        # A run that the log has lost is still read until `stop` cancels its task, whose cleanup needs it.
        if found and not box.over.is_set():
            box.add(lines, len(found))
            self._committer.changed(box)
        return found

    def _done(self, task: asyncio.Task[None]) -> None:
        self._lives.discard(self)
        error = None if task.cancelled() else task.exception()
        self.error = self.error or error
        if self._cleanup is not None:
            self._cleanup.cancel()
        self._close(error)

    def _close(self, error: BaseException | None = None) -> None:
        """Writes the missing end events. Called twice if the cleanup of a stopped run takes long."""
        box, fold = self._box, self._fold
        if box.end is not None or box.over.is_set():
            return
        if box.released and not fold.finished:
            box.end = "open"  # after the waiting frames, an append that ends the lease
            self._committer.changed(box)
            return
        if fold.finished:
            state = fold.state
        elif self._reason is not None or (error is None and self.task.cancelled()):
            state = "stopped"
            self._add(fold.close(_stopped(self._reason or "cancelled"), self._usage()))
        else:
            state = "failed"
            self._add(fold.close(_why(error, self.run), self._usage()))
        box.end = state
        self._committer.changed(box)

    def _add(self, events: list[Event]) -> None:
        self._box.encode_deferred()
        self._box.add(encode_frames(events), len(events))

    def _usage(self) -> Usage | None:
        return self._source.total_usage if isinstance(self._source, _Counting) else None

    def _lose(self, error: LogError) -> None:
        self.error = self._lost = error
        _log.warning("event log: %s", error)
        self.stop("lost")


_STOPPED: Final = {
    "requested": "The run was stopped on request.",
    "left": "The run was stopped because it had no reader.",
    "closing": "The run was stopped because its process is shutting down.",
    "cancelled": "The run was stopped because its task was cancelled.",
}


def _stopped(reason: str) -> ErrorInfo:
    return Stopped(_STOPPED.get(reason, "The run was stopped."), reason=reason).info


def _why(error: BaseException | None, run: str) -> ErrorInfo:
    """The error in the log of a source that failed, or ended, without a finish."""
    if isinstance(error, LLMStreamError):
        return error.info
    if error is None:
        return IncompleteStream("the source of the run ended without a finish").info
    # Its message may be private, and readers may be strangers.
    _log.error("event log: the source of run %r failed", run, exc_info=error)
    return LLMStreamError(f"the program that produced the run failed with {type(error).__name__}").info
