"""Readers in the process of the producer: what they are handed, and what they read from the store."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

import llmstream as ls
from llmstream.log import reader as reading
from llmstream.log.memory import MemoryStore
from llmstream.log.reader import Readers
from llmstream.log.store import Append, Claim, RunSlice, RunState, RunStatus
from tests.log.sources import answer

CLAIM = Claim("run", "here", "new", lease_s=60.0, takeover_s=0.0, keep_s=60.0, left_s=None)


class Counting(MemoryStore):
    """Counts its reads."""

    reads = 0

    async def read(self, wanted: Sequence[tuple[str, int]], max_bytes: int) -> Sequence[RunSlice]:
        self.reads += 1
        return await super().read(wanted, max_bytes)


class Bench:
    """A store with a run, its readers, and the commits of its producer."""

    def __init__(self) -> None:
        self.store = Counting()
        self.readers = Readers(self.store, patience_s=1.0, ours=lambda run: True)
        self.epoch, self.tail = 0, -1

    async def commit(self, *lines: bytes, state: RunState = "open", reported: bool = True) -> RunStatus:
        data = b"\n".join(lines)
        append = Append("run", self.epoch, self.tail + 1, len(lines), data, state, CLAIM.lease_s)
        (status,) = await self.store.append([append])
        assert status is not None
        self.tail += len(lines)
        if reported:
            self.readers.committed([append], [status])
        return status

    def follow(self) -> Following:
        return Following(self.readers)


class Following:
    """A reader that notes what it has, and is busy while `held` is set."""

    def __init__(self, readers: Readers) -> None:
        self.lines: list[bytes] = []
        self.seqs: list[int] = []
        self.free = asyncio.Event()
        self.free.set()
        self._pages = readers.pages("run", -1, max_replay=None, wait_s=0.0, silence_s=math.inf)
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for page in self._pages:
            self.lines += [frame.data for frame in page.frames]
            self.seqs += [frame.seq for frame in page.frames]
            await self.free.wait()

    async def rested(self) -> Following:
        """Lets it run until it waits for news; a store in memory answers at once."""
        for _ in range(20):
            await asyncio.sleep(0)
        return self


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    made.epoch = (await made.store.acquire(CLAIM)).status.epoch
    yield made
    await made.readers.aclose()


async def test_a_commit_is_handed_to_readers(bench: Bench) -> None:
    """Once they wait at the tail, they ask the store for nothing."""
    both = [bench.follow(), bench.follow()]
    for reader in both:
        await reader.rested()
    asked = bench.store.reads
    await bench.commit(b"0", b"1")
    await both[0].rested()
    await bench.commit(b"2")
    await bench.commit(b"3")  # before they had a turn
    await bench.commit(b"4", state="closed")
    for reader in both:
        await reader.task
        assert (reader.lines, reader.seqs) == ([b"0", b"1", b"2", b"3", b"4"], [0, 1, 2, 3, 4])
    assert bench.store.reads == asked


async def test_an_end_alone_is_handed_over(bench: Bench) -> None:
    reader = await bench.follow().rested()
    asked = bench.store.reads
    await bench.commit(state="closed")
    await reader.task
    assert (reader.lines, bench.store.reads) == ([], asked)


async def test_a_busy_reader_is_handed_nothing(bench: Bench) -> None:
    """So that it costs no memory however slow it is; it reads what it missed from the store."""
    reader = await bench.follow().rested()
    reader.free.clear()
    await bench.commit(b"0")
    await reader.rested()
    asked = bench.store.reads
    for line in (b"1", b"2", b"3"):
        await bench.commit(line)
    (state,) = bench.readers._readers["run"]
    assert not state.pages
    reader.free.set()
    await bench.commit(b"4", state="closed")
    await reader.task
    assert reader.lines == [b"0", b"1", b"2", b"3", b"4"]
    assert bench.store.reads > asked


async def test_news_beside_a_page_is_looked_at(bench: Bench) -> None:
    """A ring that comes before a reader took its page makes it look at the store afterwards."""
    reader = await bench.follow().rested()
    await bench.commit(b"0")
    await bench.commit(b"1", state="closed", reported=False)  # as another process would
    bench.readers.wake(["run"])
    await reader.rested()
    assert reader.task.done()
    assert reader.lines == [b"0", b"1"]


async def test_an_unclear_commit_is_not_shown(bench: Bench) -> None:
    """What was refused, or written by an attempt before, is only known from the store."""
    reader = await bench.follow().rested()
    status = await bench.commit(b"0", reported=False)
    other = Append("run", bench.epoch, 0, 2, b"x\ny", "open", CLAIM.lease_s)
    fenced = Append("run", bench.epoch - 1, 0, 1, b"x", "open", CLAIM.lease_s)
    bench.readers.committed([other, fenced], [status, status])
    await reader.rested()
    bench.readers.committed([other], [None])
    await bench.commit(b"1", state="closed")
    await reader.task
    assert reader.lines == [b"0", b"1"]


async def test_a_page_elsewhere_is_not_taken(bench: Bench) -> None:
    """A store that lost frames has them written again; a reader that is past them waits."""
    reader = await bench.follow().rested()
    await bench.commit(b"0", b"1")
    await reader.rested()
    status = bench.store._runs["run"]
    bench.store._runs["run"] = msgspec.structs.replace(status, tail=-1)
    bench.store._batches["run"].clear()
    bench.tail = -1
    await bench.commit(b"0")
    await bench.commit(b"1", b"2", state="closed")
    await reader.task
    assert reader.seqs == [0, 1, 2]


async def test_an_old_message_is_not_taken(bench: Bench) -> None:
    """A message from a run that was deleted since, and whose id another run has now."""
    reader = await bench.follow().rested()
    status = msgspec.structs.replace(bench.store._runs["run"], epoch=bench.epoch - 1, tail=0)
    old = Append("run", bench.epoch - 1, 0, 1, b"old", "open", CLAIM.lease_s)
    bench.readers.committed([old], [status])
    await reader.rested()
    await bench.commit(b"new", state="closed")
    await reader.task
    assert reader.lines == [b"new"]


async def test_commits_are_handed_elsewhere(shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a reader at the tail in another process, which does not ask the store for each."""
    if shared.startswith("postgres"):
        pytest.skip("PostgreSQL sends names only")
    monkeypatch.setattr(reading, "_POLL_S", 60.0)
    seen, reads, turn = list[ls.Event](), list[object](), asyncio.Event()

    async def source() -> AsyncIterator[ls.Event]:
        for event in answer(50):
            yield event
            turn.clear()
            await turn.wait()  # for the reader to have it

    async with ls.open_logs(shared) as producing, ls.open_logs(shared) as other:
        original = other._store.read
        monkeypatch.setattr(other._store, "read", lambda *args: reads.append(args) or original(*args))
        await producing.start("answer", source())
        async for _, event in other.follow("answer"):
            seen.append(event)
            turn.set()
    assert seen == answer(50)
    assert len(reads) < 10


class SlowToFail(MemoryStore):
    """Fails at first to close a run, after longer than readers have patience."""

    failed = False

    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        if appends[0].lost and not self.failed:
            self.failed = True
            await asyncio.sleep(0.1)
            raise ls.LogUnavailable("a paused process has a lock")
        return await super().append(appends)


async def test_a_slow_failure_to_close_is_tried_again() -> None:
    """The patience of a reader may be shorter than the timeout of one statement."""
    store = SlowToFail()
    readers = Readers(store, patience_s=0.05, ours=lambda run: False)
    await store.acquire(CLAIM._replace(lease_s=0.05))
    async with asyncio.timeout(10):
        pages = [page async for page in readers.pages("run", -1, max_replay=None, wait_s=0.0, silence_s=10.0)]
    assert store.failed
    assert pages[-1].ended
    assert pages[-1].status.state == "failed"


class SlowToRead(MemoryStore):
    """Fails at first to read, after longer than readers have patience; or at every time."""

    failures = 0
    always = False

    async def read(self, wanted: Sequence[tuple[str, int]], max_bytes: int) -> Sequence[RunSlice]:
        if self.always or not self.failures:
            self.failures += 1
            await asyncio.sleep(0.1)
            raise ls.LogUnavailable("the server restarts")
        return await super().read(wanted, max_bytes)


async def test_a_slow_failure_to_read_is_tried_again() -> None:
    """The patience counts from the first failure, for reads too."""
    store = SlowToRead()
    readers = Readers(store, patience_s=0.05, ours=lambda run: False)
    await store.acquire(CLAIM)
    async with asyncio.timeout(10):
        page = await readers.read("run", -1)
    assert page is not None
    assert store.failures == 1


async def test_patience_ends() -> None:
    store = SlowToRead()
    store.always = True
    readers = Readers(store, patience_s=0.05, ours=lambda run: False)
    async with asyncio.timeout(10):
        with pytest.raises(ls.LogUnavailable, match="restarts"):
            await readers.read("run", -1)
    assert store.failures == 2
