"""Closes runs whose producers died, so that no reader waits for ever.

A run is lost when its lease has passed and its producer has neither renewed it nor ended; if the clock was
set back since, when a reader has seen no renewal for the length of a lease by its own clock. The reader or
sweep that detects this accumulates the stored frames, gets the missing end events from the grammar, and
appends them in one atomic step that only one of several can make. The step increments the epoch, so that a
producer that was only suspended is fenced off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from llmstream.errors import DecodeError, ErrorInfo, ProducerLost
from llmstream.events import Event, Finish, StepFinish, StreamStart, Usage, decode
from llmstream.grammar import Guard
from llmstream.log.frames import Page, encode_frames, page_of
from llmstream.log.store import Append, RunState, RunStatus, Store

__all__ = ["Fold", "close_lost", "fold_run"]

# The accumulated state of a run's events: whether the stream is valid so far, and which events are missing at
# its end.
#
# Used by producers, and to close or take over a run after its producer died.


class Fold:
    """Passes events through the grammar's guard, and counts tokens."""

    def __init__(self) -> None:
        self._guard = Guard()
        self._began = False
        self._finish: Finish | None = None
        self._usage = Usage()

    def feed(self, event: Event) -> list[Event]:
        """Returns the event, repaired if it breaks a rule of the grammar; the first one begins the stream."""
        if self._began:
            found = self._guard.feed([event])
        else:
            self._began = True
            found = (
                # A source that is a bare generator has no `stream-start`; the grammar requires one.
                [event]
                if isinstance(event, StreamStart)
                else [*self._guard.start(), *self._guard.feed([event])]
            )
        for out in found:
            if type(out) is StepFinish:
                self._usage += out.usage
            elif type(out) is Finish:
                self._finish = out
        return found

    @property
    def finished(self) -> bool:
        """Whether the finish has come."""
        return self._guard.finished

    @property
    def state(self) -> RunState:
        """The state of a run that has finished."""
        return "failed" if self._finish is not None and self._finish.finish_reason == "error" else "closed"

    def close(self, error: ErrorInfo, usage: Usage | None = None) -> list[Event]:
        """Ends a stream without a finish: open blocks are incomplete, then the error and the finish.

        usage: tokens of the run; default: those of its completed steps
        """
        start = [] if self._began else self._guard.start()
        self._began = True
        # The source may already have reported the error before it ended without a finish.
        known = any(found.code == error.code for found in self._guard.errors)
        return [*start, *self._guard.close(usage or self._usage, None if known else error)]


_log: Final = logging.getLogger("llmstream")

# As for readers: limits memory for runs of any length.
_PAGE_BYTES: Final = 256 * 1024

# Fraction of the lease for which a lost run is observed before it is closed. When a machine wakes from sleep,
# or its clock is set, all leases have expired; producers detect this within a tenth of theirs, and renew
# them.
_SECOND_LOOK: Final = 0.2


async def close_lost(store: Store, status: RunStatus) -> bool:
    """Closes a run whose producer died, after a second check; returns whether this call closed it."""
    await asyncio.sleep((status.lease_until - status.changed) * _SECOND_LOOK)
    fold, seen = await fold_run(store, status.run)
    if seen is None or (seen.epoch, seen.changed) != (status.epoch, status.changed):
        return False
    if not seen.is_lost and not seen.clock_set_back:
        return False
    # The producer may have died after its last event but before closing the run.
    state, missing = fold.state, list[Event]()
    if not fold.finished:
        state, missing = "failed", fold.close(_lost(seen).info)
    append = Append(
        run=seen.run,
        epoch=seen.epoch,
        first=seen.tail + 1,
        count=len(missing),
        data=encode_frames(missing),
        state=state,
        lease_s=0.0,
        lost=True,
    )
    (found,) = await store.append([append])
    # Of several concurrent attempts, one writes the end; the others get the resulting status.
    closed = found is not None and found.ended == found.now
    if closed:
        _log.warning("event log: closed run %r, whose producer %s died", seen.run, seen.owner)
    return closed


async def fold_run(
    store: Store, run: str, see: Callable[[Event], object] = lambda event: None
) -> tuple[Fold, RunStatus | None]:
    """Reads a run up to its tail; returns the accumulated state, and its status at that point.

    see: called with each event
    """
    fold, position = Fold(), -1
    while True:
        (part,) = await store.read([(run, position)], _PAGE_BYTES)
        page = page_of(part, position)
        if page is None:
            return fold, None
        _feed(fold, page, see)
        if page.up_to_date:
            return fold, page.status
        position = page.frames[-1].seq


def _feed(fold: Fold, page: Page, see: Callable[[Event], object]) -> None:
    for frame in page.frames:
        try:
            event = decode(frame.data)
        except DecodeError as error:  # an event of a newer version; the run is still closed properly
            _log.warning("event log: event %d of run %r: %s", frame.seq, page.status.run, error)
            continue
        fold.feed(event)
        see(event)


def _lost(status: RunStatus) -> ProducerLost:
    return ProducerLost(
        "The process that produced this run ended before the run did. What it had written is above.",
        details={"owner": status.owner},
    )
