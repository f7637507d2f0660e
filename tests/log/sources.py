"""Sources of events for the tests, and readers of logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec.structs import replace

import llmstream as ls
from llmstream import events, grammar
from llmstream.log import Append, Logs, MemoryStore, RunStatus


def answer(words: int) -> list[ls.Event]:
    """A complete stream of so many deltas: five more events than words."""
    deltas = [ls.TextDelta(f"word {n} ", "t") for n in range(words)]
    step = events.StepFinish(0, "stop", ls.Usage(3, words, 3 + words))
    start = [ls.StreamStart(), ls.StepStart(0), ls.TextStart("t")]
    return [*start, *deltas, ls.TextEnd("t"), step, ls.Finish("stop", ls.Usage(3, words, 3 + words))]


async def told(found: list[ls.Event], pause_s: float = 0.0) -> AsyncIterator[ls.Event]:
    for event in found:
        yield event
        await asyncio.sleep(pause_s)


class Gated:
    """Gives the first events, and the rest when `gate` is set; knows whether it was left."""

    def __init__(self, found: list[ls.Event], first: int) -> None:
        self.gate = asyncio.Event()
        self.held = asyncio.Event()
        self.closed = False
        self._found, self._first = found, first

    async def __aiter__(self) -> AsyncIterator[ls.Event]:
        for event in self._found[: self._first]:
            yield event
        self.held.set()
        await self.gate.wait()
        for event in self._found[self._first :]:
            yield event

    async def aclose(self) -> None:
        self.closed = True


async def followed(logs: Logs, run: str, after: int = -1) -> list[ls.Event]:
    """The events of a run to its end, which have to be numbered without gaps, and valid."""
    found = [item async for item in logs.follow(run, after, errors="events", wait_s=10)]
    assert [seq for seq, _ in found] == list(range(after + 1, after + 1 + len(found)))
    if after == -1:
        assert grammar.check(event for _, event in found) == []
    return [event for _, event in found]


class LateEnds(MemoryStore):
    """Does not end runs before `allowed` is set: a slow machine, whose pages are quicker."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = asyncio.Event()
        self._wake: Callable[[str | None], None] = lambda run: None

    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        open_ones = [replace(one, state="open") for one in appends]
        found = await super().append(open_ones)
        if list(appends) == open_ones:
            return found
        self._wake(None)
        await self.allowed.wait()
        rest = [replace(one, first=one.first + one.count, count=0, data=b"") for one in appends]
        return await super().append(rest)

    async def listen(self, on_change: Callable[[str | None], None]) -> None:
        self._wake = on_change
        await super().listen(on_change)
