"""The tap: records the frames of a response as its decoder reads them, and which frame produced each event.

A decoder returns the same events however its input is cut. So the tap cuts it after each frame, and the
events returned then belong to that frame. A call that is not traced has no tap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from llmstream.dialects.base import Decoder
from llmstream.errors import LLMStreamError
from llmstream.events import Event
from llmstream.structured import OutputToolDecoder

__all__ = ["FrameCutter", "FrameNote", "FrameTap", "TappedDecoder"]

# Possessive, or the CRLF of one line would count as two line ends.
_BLANK_LINE: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
# The bytes before a cut that its blank line may begin in.
_CONTEXT: Final = 3
_AWS: Final = "application/vnd.amazon.eventstream"
_SSE: Final = "text/event-stream"
_NDJSON: Final = "application/x-ndjson"
# A longer AWS message has a broken length; its decoder reports that.
_LONGEST_AWS: Final = 32 * 1024 * 1024
# How far an event is looked for among those that the decoder made: the grammar inserts few and drops few.
_LOOK_AHEAD: Final = 32


class FrameCutter:
    """Finds the ends of frames in a body, however its chunks are cut.

    content_type: SSE, NDJSON or AWS event stream; a body of another kind is one frame
    """

    def __init__(self, content_type: str) -> None:
        kinds = {_SSE: self._sse, _NDJSON: self._ndjson, _AWS: self._aws}
        self._ends: Callable[[bytes], list[int]] = kinds.get(content_type, lambda chunk: [])
        self._before = b""
        self._left = 0  # of an AWS message

    def feed(self, chunk: bytes) -> list[int]:
        """The positions in the chunk at which a frame ends, in order."""
        return self._ends(chunk)

    def _sse(self, chunk: bytes) -> list[int]:
        text, known = self._before + chunk, len(self._before)
        ends = [found.end() - known for found in _BLANK_LINE.finditer(text) if found.end() > known]
        self._before = text[max(known + ends[-1] if ends else 0, len(text) - _CONTEXT) :]
        return ends

    def _ndjson(self, chunk: bytes) -> list[int]:
        return [found.end() for found in re.finditer(rb"\n", chunk)]

    def _aws(self, chunk: bytes) -> list[int]:
        ends: list[int] = []
        at = 0
        while at < len(chunk):
            if not self._left:
                head = self._before + chunk[at : at + 4 - len(self._before)]
                at += len(head) - len(self._before)
                self._before = head
                if len(head) < 4:
                    break
                self._before = b""
                total = int.from_bytes(head, "big")
                # At least its own length, or a broken one would never end.
                self._left = max(total if total <= _LONGEST_AWS else len(chunk), 4) - 4
            step = min(self._left, len(chunk) - at)
            at += step
            self._left -= step
            if not self._left:
                ends.append(at)
        return ends


class FrameNote(Protocol):
    """Receives the frames of a body."""

    def __call__(self, offset: int, data: bytes, *, complete: bool) -> None:
        """Takes a frame; `complete` is False for the rest of a body that ended within one."""


class FrameTap:
    """Notes the frames of one call, over all its response bodies.

    frame:  called with each frame
    offset: of the next byte
    """

    def __init__(self, content_type: str, frame: FrameNote) -> None:
        self.offset = 0
        self._content_type = content_type
        self._cutter = FrameCutter(content_type)
        self._frame = frame
        self._held = bytearray()  # the unfinished frame
        self._made: list[tuple[int, Event]] = []  # since the last batch
        self._place = -1

    def feed(self, chunk: bytes, decode: Callable[[bytes], list[Event]]) -> list[Event]:
        """Decodes a chunk frame by frame; returns all its events."""
        events: list[Event] = []
        start = 0
        for end in self._cutter.feed(chunk):
            events += self._decoded(chunk[start:end], decode, ends=True)
            start = end
        if start < len(chunk) or not chunk:
            events += self._decoded(chunk[start:], decode, ends=False)
        return events

    def _decoded(self, piece: bytes, decode: Callable[[bytes], list[Event]], *, ends: bool) -> list[Event]:
        self._held += piece
        self.offset += len(piece)
        begin = self.offset - len(self._held)
        if ends:
            # Before the decoding, so that a trace has a frame before its events.
            self._give(complete=True)
        events = decode(piece)
        self._made += [(begin, event) for event in events]
        return events

    def end_body(self) -> None:
        """Records the rest of a body that ended, broke or was closed. Idempotent."""
        if self._held:
            self._give(complete=False)
        self._cutter = FrameCutter(self._content_type)

    def note(self, data: bytes) -> None:
        """Notes bytes that no decoder reads: the body of a refusal, as one frame."""
        self.end_body()
        self._frame(self.offset, data, complete=True)
        self.offset += len(data)

    def _give(self, *, complete: bool) -> None:
        data = bytes(self._held)
        self._held.clear()
        self._frame(self.offset - len(data), data, complete=complete)

    def places(self, batch: Sequence[Event]) -> list[int]:
        """The offsets of the frames that made the events of a batch; -1 before the first frame.

        The grammar may have changed, inserted and dropped events since they were decoded; an inserted one
        belongs to the frame of the event before it.
        """
        made, at, found = self._made, 0, list[int]()
        for event in batch:
            for index in range(at, min(at + _LOOK_AHEAD, len(made))):
                begin, other = made[index]
                if other is event or _is_alike(other, event):
                    self._place, at = begin, index + 1
                    break
            found.append(self._place)
        self._made = []
        return found


def _is_alike(one: Event, other: Event) -> bool:
    return type(one) is type(other) and getattr(one, "id", None) == getattr(other, "id", None)


class TappedDecoder:
    """A decoder whose input passes a tap. It is what its decoder is, in every other respect."""

    complete: bool
    done: bool
    failure: LLMStreamError | None

    def __init__(self, decoder: Decoder, tap: FrameTap) -> None:
        self._decoder = decoder
        self._tap = tap

    def __getattr__(self, name: str) -> Any:
        decoder = self._decoder
        # Streams look for the abilities of the decoder that makes text of a tool's input inside of it.
        if isinstance(decoder, OutputToolDecoder) and not hasattr(decoder, name):
            return getattr(decoder.decoder, name)
        return getattr(decoder, name)

    def feed(self, chunk: bytes) -> list[Event]:
        """Decodes a slice of the body, frame by frame."""
        return self._tap.feed(chunk, self._decoder.feed)
