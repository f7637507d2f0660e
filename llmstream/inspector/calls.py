"""One call as it was: the lines of a trace, folded, and what can be seen of them."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from llmstream.display.plot import percentile
from llmstream.events import Event, decode
from llmstream.inspector.trace import (
    AttemptEnded,
    CallBegan,
    CallEnded,
    EventsSeen,
    Frame,
    Head,
    Line,
    Read,
    RequestSent,
    TraceBegan,
)

__all__ = ["CallTrace", "Finding", "Seen", "State", "Summary"]

State: TypeAlias = Literal["open", "complete", "cut", "failed", "left"]
"""open: it continues; cut: the body ended before the answer did; left: closed by its reader."""

# Errors of a body that ended early: the received part is correct, but incomplete.
_CUT: Final = frozenset({"incomplete-stream", "connection-lost"})
_CONTENT: Final = frozenset({"text-delta", "reasoning-delta", "tool-input-delta"})

# From this many events on, one read looks like a buffer; a model writes them one by one.
_BUFFERED: Final = 10
# Shorter silences are usual between two tokens.
_SILENCE_S: Final = 1.0
# So much time between two reads is not decoding.
_BUSY_S: Final = 0.25
_BUSY_SHARE: Final = 0.1
_NS: Final = 1e9


class Seen(NamedTuple):
    """An event. at_ns: when its reader got it; frame: number of the frame that made it, or -1."""

    at_ns: int
    frame: int
    kind: str
    data: bytes


class Finding(msgspec.Struct, frozen=True):
    """A notable finding, in a sentence. event: its position, or None."""

    kind: Literal["cut", "error", "buffer", "silence", "busy", "warning", "retry"]
    text: str
    event: int | None = None


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """What the list of calls shows of one. Times are seconds, `began_at` since 1970.

    first_s:  from the beginning to the first text, reasoning or tool input
    gap_p50_s, gap_p99_s: between two times at which content arrived
    silence_s: the longest time that a read waited
    busy_s:   between reads: what the program took to decode and use what it had read
    has_bytes: whether the bytes of the wire are known
    """

    id: str
    source: str
    provider: str
    model: str
    dialect: str
    state: State
    began_at: float
    duration_s: float
    first_s: float | None
    gap_p50_s: float | None
    gap_p99_s: float | None
    silence_s: float
    busy_s: float
    events: int
    reads: int
    bytes: int
    finish_reason: str
    input_tokens: int | None
    output_tokens: int | None
    tokens_per_s: float | None
    cost: float | None
    error: str
    attempts: int
    has_bytes: bool
    version: int


class CallTrace:
    """A call, folded from its lines in any number of steps.

    source:  where it was read from, for people
    began_at: seconds since 1970; 0 if unknown
    version: rises with each line
    """

    def __init__(self, call: str, source: str = "", began_at: float = 0.0) -> None:
        self.id = call
        self.source = source
        self.began_at = began_at
        self.version = 0
        self.began: CallBegan | None = None
        self.ended: CallEnded | None = None
        self.requests: list[RequestSent] = []
        self.heads: list[Head] = []
        self.failed: list[AttemptEnded] = []
        self.reads: list[Read] = []
        self.frames: list[Frame] = []
        self.events: list[Seen] = []
        self._frame_at: dict[int, int] = {}
        self._read_of: list[int] = []  # by the number of the frame
        self._finish: dict[str, Any] = {}
        self._content_ns: list[int] = []  # at which content arrived, each once

    def feed(self, line: Line) -> None:
        """Adds a line."""
        self.version += 1
        match line:
            case CallBegan():
                self.began = line
            case RequestSent():
                self.requests.append(line)
            case Head():
                self.heads.append(line)
            case Read():
                self.reads.append(line)
            case Frame():
                self._frame_at[line.offset] = len(self.frames)
                self.frames.append(line)
                self._read_of.append(self._find_read(line))
            case EventsSeen():
                self._see(line)
            case AttemptEnded():
                self.failed.append(line)
            case CallEnded():
                self.ended = line
            case TraceBegan():
                pass

    def _see(self, line: EventsSeen) -> None:
        content = False
        for offset, raw in line.events:
            kind = _kind(raw)
            content = content or kind in _CONTENT
            self.events.append(Seen(line.ns, self._frame_at.get(offset, -1), kind, bytes(raw)))
            if kind == "finish":
                self._finish = msgspec.json.decode(raw)
        if content:
            self._content_ns.append(line.ns)

    # What is known.

    @property
    def start_ns(self) -> int:
        """When the call began, on the clock of its lines."""
        if self.began is not None:
            return self.began.ns
        return self.events[0].at_ns if self.events else 0

    @property
    def end_ns(self) -> int:
        """When the last thing happened that is known."""
        if self.ended is not None:
            return self.ended.ns
        last: list[Read | RequestSent | Head] = [*self.reads[-1:], *self.requests[-1:], *self.heads[-1:]]
        times = [line.ns for line in last] + [seen.at_ns for seen in self.events[-1:]]
        return max([self.start_ns, *times])

    @property
    def state(self) -> State:
        """How it ended, as far as is known."""
        ended = self.ended
        if ended is None:
            return "open"
        if ended.error is not None:
            return "cut" if ended.error.code in _CUT and self.events else "failed"
        return "left" if ended.left else "complete"

    @property
    def body(self) -> bytes:
        """The bytes of all response bodies, as far as they were read."""
        return b"".join([frame.data for frame in self.frames])

    def decoded(self) -> list[Event]:
        """The events."""
        return [decode(seen.data) for seen in self.events]

    def read_of(self, frame: int) -> int:
        """Number of the read that completed a frame; -1 if it is not known."""
        return self._read_of[frame] if 0 <= frame < len(self.frames) else -1

    def _find_read(self, frame: Frame) -> int:
        last = frame.offset + frame.size - 1
        at = bisect.bisect_right(self.reads, last, key=lambda read: read.offset) - 1
        # A read of 0 bytes has the offset of the next one.
        while at > 0 and not self.reads[at].size:
            at -= 1
        return at

    def groups(self) -> list[tuple[int, int]]:
        """(first event, number of content events) of each group that came at once: in a read, or a batch."""
        found: list[tuple[int, int]] = []
        known: object = None
        for place, seen in enumerate(self.events):
            if seen.kind not in _CONTENT:
                continue
            # A number that no read has.
            key = self.read_of(seen.frame) if seen.frame >= 0 and self.reads else -1 - seen.at_ns
            if key == known:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                known = key
                found.append((place, 1))
        return found

    def waits_s(self) -> list[tuple[float, float]]:
        """Of each read, how long it waited and how long the program was busy before it, in seconds."""
        waits, before = list[tuple[float, float]](), None
        for read in self.reads:
            began = read.ns - read.waited_ns
            waits.append((read.waited_ns / _NS, 0.0 if before is None else max(0, began - before) / _NS))
            before = read.ns
        return waits

    def gaps_s(self) -> list[float]:
        """Times between two arrivals of content, in order."""
        times = self._content_ns
        return [(later - earlier) / _NS for earlier, later in pairwise(times)]

    def summary(self) -> Summary:
        """What a list of calls shows."""
        began, start = self.began, self.start_ns
        usage = self.ended.usage if self.ended is not None else None
        gaps = sorted(self.gaps_s())
        waits = self.waits_s()
        first = (self._content_ns[0] - start) / _NS if self._content_ns else None
        duration = (self.end_ns - start) / _NS
        written = usage.output_tokens if usage is not None else None
        # From the first content on: the time before it is not writing.
        writing_s = duration - first if first is not None else 0.0
        error = self.ended.error if self.ended is not None else None
        return Summary(
            id=self.id,
            source=self.source,
            provider=began.provider if began is not None else "",
            model=began.model if began is not None else "",
            dialect=began.dialect if began is not None else "",
            state=self.state,
            began_at=self.began_at,
            duration_s=duration,
            first_s=first,
            gap_p50_s=percentile(gaps, 50) if gaps else None,
            gap_p99_s=percentile(gaps, 99) if gaps else None,
            silence_s=max((wait for wait, _ in waits), default=max(gaps, default=0.0)),
            busy_s=sum(busy for _, busy in waits),
            events=len(self.events),
            reads=sum(1 for read in self.reads if read.size),
            bytes=sum(read.size for read in self.reads),
            finish_reason=str(self._finish.get("finishReason", "")),
            input_tokens=usage.input_tokens if usage is not None else None,
            output_tokens=written,
            tokens_per_s=written / writing_s if written and writing_s > 0 else None,
            cost=self.ended.cost if self.ended is not None else None,
            error="" if error is None else f"{error.code}: {error.message}",
            attempts=max(len(self.requests), 1),
            has_bytes=bool(self.frames),
            version=self.version,
        )

    def findings(self) -> list[Finding]:
        """What an expert would point at, the most important first."""
        return [*_ending(self), *_buffers(self), *_silences(self), *_warnings(self)]


class _Kind(msgspec.Struct):
    type: str


_kind_of: Final = msgspec.json.Decoder(_Kind).decode


def _kind(raw: msgspec.Raw) -> str:
    return _kind_of(raw).type


def _ending(call: CallTrace) -> Iterable[Finding]:
    last = len(call.events) - 1 if call.events else None
    error = call.ended.error if call.ended is not None else None
    if call.state == "cut":
        rest = next((frame for frame in reversed(call.frames) if not frame.complete), None)
        inside = f", within a frame of which {rest.size} bytes came" if rest is not None else ""
        received = sum(read.size for read in call.reads)
        after = f" after {received:,} bytes" if received else ""
        yield Finding(
            "cut",
            f"The response is cut: it ended{after}{inside}, before the vendor marked it complete.",
            last,
        )
    elif error is not None:
        yield Finding("error", f"The call failed: {error.code}: {error.message}", last)
    for attempt in call.failed:
        if attempt.wait_s is not None:
            status = f" (HTTP {attempt.status})" if attempt.status else ""
            text = f"Attempt {attempt.attempt} failed: {attempt.error_code}{status}."
            yield Finding("retry", f"{text} The next one waited {_seconds(attempt.wait_s)}.")


def _buffers(call: CallTrace) -> Iterable[Finding]:
    """The largest group of events that arrived at once, and who is to blame."""
    groups = call.groups()
    largest = max(groups, key=lambda group: group[1], default=(0, 0))
    if largest[1] < _BUFFERED:
        return
    place, count = largest
    if not call.reads:
        yield Finding("buffer", f"{count} events came in one batch.", place)
        return
    wait, busy = call.waits_s()[call.read_of(call.events[place].frame)]
    why = (
        f"after this program had been busy for {_seconds(busy)}: they had waited for it"
        if busy > max(wait, _BUSY_S)
        else f"after a wait of {_seconds(wait)}: something between model and program buffers"
    )
    yield Finding("buffer", f"{count} events came in one read, {why}.", place)


def _silences(call: CallTrace) -> Iterable[Finding]:
    waits = call.waits_s()
    # Backwards, so that the first event of a read stays.
    firsts = {call.read_of(seen.frame): place for place, seen in reversed(list(enumerate(call.events)))}
    if waits:
        at = max(range(len(waits)), key=lambda place: waits[place][0])
        if waits[at][0] >= _SILENCE_S:
            text = f"The longest silence was {_seconds(waits[at][0])}, before read {at + 1} of {len(waits)}."
            yield Finding("silence", text, firsts.get(at))
        busy = sum(busy for _, busy in waits)
        at = max(range(len(waits)), key=lambda place: waits[place][1])
        if busy >= max(_BUSY_S, _BUSY_SHARE * (call.end_ns - call.start_ns) / _NS):
            total = _seconds((call.end_ns - call.start_ns) / _NS)
            most = f"{_seconds(waits[at][1])} before read {at + 1}"
            text = f"This program did not read for {_seconds(busy)} of {total} ({most}): its code was busy."
            yield Finding("busy", text, firsts.get(at))
        return
    gaps = call.gaps_s()
    if gaps and max(gaps) >= _SILENCE_S:
        yield Finding("silence", f"The longest gap between events was {_seconds(max(gaps))}.")


def _warnings(call: CallTrace) -> Iterable[Finding]:
    for text in dict.fromkeys(text for request in call.requests for text in request.warnings):
        yield Finding("warning", f"The request: {text}")


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1e3:.0f} ms"
