"""Frames: the events of a run as numbered lines of JSON, and pages of them for readers.

JSON lines are readable in any store, can be the data of an SSE frame unchanged, and can be read by a later
version. As msgpack they would be a fifth smaller and no faster to decode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from llmstream.events import Event, decode
from llmstream.log.store import Batch, RunSlice, RunStatus

__all__ = ["Frame", "Page", "encode_frames", "page_of"]

# As that of `events.encode`.
_encoder: Final = msgspec.json.Encoder()


class Frame(NamedTuple):
    """One event of a run.

    seq:  its number; the first of a run is 0
    time: commit time, in seconds since 1970 by the store's clock
    data: the event as JSON, without a line end; `events.decode` reads it
    """

    seq: int
    time: float
    data: bytes


class Page:
    """Consecutive frames of a run, and the status of the run when they were read.

    frames: may be empty in the last page of a run
    """

    def __init__(self, frames: Sequence[Frame], status: RunStatus) -> None:
        self.frames = frames
        self.status = status
        self._events: list[tuple[int, Event]] | None = None

    @property
    def events(self) -> list[tuple[int, Event]]:
        """The frames, decoded. Pages are shared by readers at the same position, so this is done once."""
        # Not a `cached_property`, which takes a lock before Python 3.12: most pages have one frame.
        if self._events is None:
            self._events = [(frame.seq, decode(frame.data)) for frame in self.frames]
        return self._events

    @property
    def up_to_date(self) -> bool:
        """Whether these were the last frames of the run when they were read."""
        return not self.frames or self.frames[-1].seq >= self.status.tail

    @property
    def ended(self) -> bool:
        """Whether no frame can follow these."""
        return self.status.state != "open" and self.up_to_date


def encode_frames(events: Sequence[Event]) -> bytes:
    """The lines of events, without an end of line after the last. JSON has no raw line ends."""
    # One call for all: encoding and joining lines takes twice as long.
    return _encoder.encode_lines(events)[:-1]


def page_of(part: RunSlice, after: int) -> Page | None:
    """The page of a slice, from the frame after a number on; None if there is no such run."""
    if part.status is None:
        return None
    frames = [frame for batch in part.batches for frame in _frames(batch, after)]
    return Page(frames, part.status)


def _frames(batch: Batch, after: int) -> list[Frame]:
    lines = batch.data.split(b"\n")
    # A position may be inside a batch: commits determine the batches, and readers stop anywhere.
    skip = max(0, after + 1 - batch.first)
    return [Frame(batch.first + index, batch.time, lines[index]) for index in range(skip, len(lines))]
