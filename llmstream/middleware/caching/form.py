"""Answers as they are stored: all their events, and when each of them arrived.

    {"format":"llmstream.cache","version":2,"stored":1790000000.0,"timing":[[0.21,2],[0.25,1],[0.3,1]]}
    {"type":"stream-start"}
    {"type":"text-start","id":"0"}
    ...

`timing` has a pair for each batch of events: seconds since the request, and the number of events that arrived
then. Version 1 has neither times nor timing, and is read as well.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from llmstream.errors import DecodeError, InvalidRequest
from llmstream.events import Event, decode, encode
from llmstream.grammar import check

__all__ = [
    "FORMAT",
    "Answer",
    "Times",
    "Timing",
    "decode_answer",
    "encode_answer",
    "encode_lines",
    "play",
    "speed_of",
]

FORMAT: Final = "llmstream.cache"
_VERSION: Final = 2

Timing: TypeAlias = Sequence[tuple[float, int]]
"""Pairs of seconds since the request, and the number of events that arrived then."""

Times: TypeAlias = Literal["none", "original"] | float
"""At which pace a stored answer is replayed: at once, as it was recorded, or so many times faster."""


class _Head(msgspec.Struct, omit_defaults=True):
    format: str
    version: int
    stored: float | None = None
    timing: list[tuple[float, int]] = []


class Answer(msgspec.Struct, frozen=True):
    """A complete answer.

    stored: Unix time; None if it is not known, as in version 1
    timing: of its events; what it does not cover arrives with the last batch
    """

    events: list[Event]
    timing: Timing = ()
    stored: float | None = None

    @property
    def batches(self) -> Iterable[tuple[float, list[Event]]]:
        """The events that arrived together, with the seconds since the request."""
        at, start = 0.0, 0
        for seconds, count in self.timing:
            at = max(at, seconds)
            yield at, self.events[start : start + count]
            start += count
        if start < len(self.events):
            yield at, self.events[start:]


def encode_answer(answer: Answer) -> bytes:
    """The stored form.

    raises: TypeError, ValueError, OverflowError for values that JSON cannot hold
    """
    return encode_lines([encode(event) for event in answer.events], answer.timing, answer.stored)


def encode_lines(lines: Iterable[bytes], timing: Timing, stored: float | None) -> bytes:
    """The stored form of events that are encoded already."""
    # Microseconds are enough for a replay, and shorter than all digits of a float.
    head = msgspec.json.encode(_Head(FORMAT, _VERSION, stored, [(round(at, 6), n) for at, n in timing]))
    return b"\n".join([head, *lines, b""])


def decode_answer(data: bytes) -> Answer:
    """Reads the stored form, of any version.

    raises: ValueError, as msgspec's errors are, if it is damaged, truncated or of a newer version
    """
    first, *lines = data.rstrip(b"\n").split(b"\n")
    head = msgspec.json.decode(first, type=_Head)
    if head.format != FORMAT or head.version not in (1, _VERSION):
        raise ValueError(
            f"it is no answer, or of a newer version ({head.format!r}, {head.version}; known: {_VERSION})"
        )
    try:
        events = [decode(line) for line in lines]
    except DecodeError as error:
        raise ValueError(str(error)) from None
    # A truncated file may end between two lines, each of them valid.
    if broken := check(events):
        raise ValueError(broken[0])
    return Answer(events, head.timing, head.stored)


def speed_of(times: Times) -> float | None:
    """How many times faster than recorded; None for at once.

    raises: InvalidRequest
    """
    match times:
        case "none":
            return None
        case "original":
            return 1.0
        # A bool is an int: `True` would be a pace of 1.
        case bool() | str():
            pass
        case int() | float() if 0 < times < float("inf"):
            return float(times)
    raise InvalidRequest(f'times must be "none", "original" or a positive number, got {times!r}')


async def play(answer: Answer, speed: float | None, *, after: int = 0) -> AsyncGenerator[Event]:
    """Yields the events when they are due, except the first ones, which the reader has.

    speed: as many times faster than recorded; None does not wait
    """
    if speed is None:
        for event in itertools.islice(answer.events, after, None):
            yield event
        return
    loop = asyncio.get_running_loop()
    began, position = loop.time(), 0
    for at, events in answer.batches:
        wait_s = began + at / speed - loop.time()
        if position + len(events) > after and wait_s > 0:
            await asyncio.sleep(wait_s)
        for event in events:
            position += 1
            if position > after:
                yield event
