"""What is committed when the store fails, forgets or answers late."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llmstream as ls
from llmstream.log import Append, Claim, MemoryStore, RunStatus
from llmstream.log.committer import Outbox
from llmstream.log.store import acquired, appended
from tests.clocks import nanoseconds
from tests.log.sources import Gated, answer, followed, told

KEEP_S = 5.0


class Forgetful:
    """A store as pure data, which can lose its last commits."""

    def __init__(self) -> None:
        claim = Claim("run", "one", "new", 600.0, 0.0, 600.0, None)
        status = acquired(None, claim, 0.0)
        assert status is not None
        self.history: list[tuple[RunStatus, list[bytes]]] = [(status, [])]

    @property
    def status(self) -> RunStatus:
        return self.history[-1][0]

    @property
    def lines(self) -> list[bytes]:
        return self.history[-1][1]

    def take(self, append: Append, now: float) -> RunStatus:
        status = appended(self.status, append, now)
        if status is None:
            return self.status
        new = append.data.split(b"\n") if append.count else []
        assert len(new) == append.count
        self.history.append((status, self.lines + new))
        return status


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 5)),
        st.tuples(st.just("defer"), st.integers(1, 5)),
        st.tuples(st.just("commit"), st.sampled_from(["answered", "answer lost", "not sent"])),
        st.tuples(st.just("lose"), st.integers(1, 3)),
        st.tuples(st.just("wait"), st.integers(1, 9)),
    ),
    max_size=60,
)


@given(STEPS)
def test_the_store_has_a_prefix(steps) -> None:
    """Whatever commits, answers and crashes do, the store has the first lines, and in the end all."""
    store, now = Forgetful(), 0.0
    lost: list[ls.LLMStreamError] = []
    box = Outbox(store.status, lease_s=600.0, keep_s=KEEP_S, now=now)
    box.lost = lost.append
    produced: list[bytes] = []
    committed_at = [0.0]
    for kind, detail in steps:
        now += 0.01
        if kind == "add":
            box.encode_deferred()  # as a producer does, so that the order stays
            lines = [b"%d" % (len(produced) + n) for n in range(detail)]
            produced += lines
            box.add(b"\n".join(lines), detail)
        elif kind == "defer":
            deltas = [ls.TextDelta(str(len(produced) + n), "t") for n in range(detail)]
            produced += map(ls.events.encode, deltas)
            box.deferred.extend(deltas)
        elif kind == "commit" and detail != "not sent":
            before = len(store.history)
            status = store.take(box.append(), now)
            committed_at += [now] * (len(store.history) - before)
            if detail == "answered":
                box.answered(status, now)
        elif kind == "lose":  # only what the store may lose: commits of the last seconds
            for _ in range(detail):
                if len(store.history) > 1 and committed_at[-1] > now - KEEP_S:
                    store.history.pop()
                    committed_at.pop()
        elif kind == "wait":
            now += detail
        assert store.lines == produced[: len(store.lines)]
    box.end = "closed"
    while not box.over.is_set():
        now += 0.01
        box.answered(store.take(box.append(), now), now)
    assert lost == []
    assert store.lines == produced
    assert store.status.state == "closed"


def fresh(now: float = 0.0) -> tuple[Outbox, Forgetful, list[str]]:
    store, lost = Forgetful(), list[str]()
    box = Outbox(store.status, lease_s=10.0, keep_s=KEEP_S, now=now)
    box.lost = lambda error: lost.append(error.code)
    return box, store, lost


def test_a_loss_too_old_is_reported() -> None:
    box, store, lost = fresh()
    for now in range(20):
        box.add(b"%d" % now, 1)
        box.answered(store.take(box.append(), now), now)
    del store.history[2:]
    box.answered(store.take(box.append(), 21), 21)
    assert (lost, box.over.is_set()) == (["log-lost"], True)


def test_another_epoch_fences_off() -> None:
    box, store, lost = fresh()
    box.add(b"0", 1)
    new = acquired(store.status, Claim("run", "two", "take-over", 9.0, 0.0, 9.0, None), 601.0)
    assert new is not None
    store.history.append((new, []))
    box.answered(store.take(box.append(), 602.0), 602.0)
    assert (lost, store.lines) == (["fenced"], [])
    box.answered(store.status, 603.0)  # it is reported once
    assert lost == ["fenced"]


def test_a_full_outbox_has_no_room() -> None:
    box, store, _ = fresh()
    box.add(b"x" * 300_000, 1)
    assert not box.room.is_set()
    box.answered(store.take(box.append(), 1.0), 1.0)
    assert box.room.is_set()


class FaultyStore(MemoryStore):
    """Fails to commit: `before` or `after` it has, as often as `times`."""

    def __init__(self, where: str, times: float, error: Exception | None = None) -> None:
        super().__init__()
        self.where, self.times = where, times
        self.error = error or ls.LogUnavailable("no answer")

    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        fails, self.times = self.times > 0, self.times - 1
        if fails and self.where == "before":
            raise self.error
        found = await super().append(appends)
        if fails:
            raise self.error
        return found


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_failed_commit_is_repeated(where: str) -> None:
    """Also one whose answer was lost; then nothing is written twice."""
    async with ls.open_logs(FaultyStore(where, 2)) as logs:
        live = await logs.start("answer", told(answer(10), 0.02))
        assert await followed(logs, "answer") == answer(10)
        assert await live.wait() == "closed"


async def test_a_dead_store_ends_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """A lease without an answer, and the run is given up: a reader may have closed it."""
    async with ls.open_logs(FaultyStore("before", float("inf")), lease_s=0.3) as logs:
        source = Gated(answer(10), 5)
        live = await logs.start("answer", source)
        with pytest.raises(ls.LogUnavailable, match="no answer"):
            await live.wait()
        assert source.closed
    assert "no answer" in caplog.text


async def test_a_defect_of_a_store_is_no_hang(caplog: pytest.LogCaptureFixture) -> None:
    async with ls.open_logs(FaultyStore("before", 1, ZeroDivisionError("oh"))) as logs:
        live = await logs.start("answer", told(answer(10)))
        with pytest.raises(ls.LogUnavailable, match="the store failed with ZeroDivisionError: oh"):
            await live.wait()


class SlowStore(MemoryStore):
    """Takes 20 ms a commit, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[int] = []

    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        self.commits.append(len(appends))
        await asyncio.sleep(0.02)
        return await super().append(appends)


async def test_runs_share_their_commits() -> None:
    store = SlowStore()
    async with ls.open_logs(store) as logs:
        lives = [await logs.start(f"answer {n}", told(answer(20), 0.001)) for n in range(30)]
        assert [await live.wait() for live in lives] == ["closed"] * 30
        assert [await followed(logs, f"answer {n}") for n in range(30)] == [answer(20)] * 30
    assert len(store.commits) < 30
    assert max(store.commits) == 30


async def test_a_fast_source_is_held_up() -> None:
    """Memory does not grow with what the store has not taken yet."""
    store = SlowStore()
    sizes = []

    async def source():
        yield ls.StreamStart()
        for _ in range(200):
            yield ls.TextDelta("x" * 20_000, "t")
            sizes.append(sum(size for size in map(len, waiting(logs))))
        yield ls.Finish("stop")

    def waiting(logs) -> list[bytes]:
        ((box,),) = logs._opening.result().committer._boxes.values()
        return list(box._waiting)

    async with ls.open_logs(store) as logs:
        live = await logs.start("answer", source())
        assert await live.wait() == "closed"
    assert max(sizes) < 2 * 256 * 1024


async def test_a_silent_run_renews_its_lease() -> None:
    async with ls.open_logs("memory:", lease_s=0.2) as logs:
        source = Gated(answer(10), 5)
        await logs.start("answer", source)
        async with asyncio.timeout(30):  # it renews sooner or later, by the load of the machine
            status = await logs.status("answer")
            while status is None or status.is_lost or status.changed - status.started <= 0.5:
                await asyncio.sleep(0.05)
                status = await logs.status("answer")
        source.gate.set()
        assert await followed(logs, "answer") == answer(10)


class BusyStore(MemoryStore):
    """Keeps a core busy for 30 ms with each commit; notes when each began and ended, in seconds."""

    is_local = True

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[tuple[float, float]] = []

    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(0.03)
        self.commits.append((began, loop.time()))
        return await super().append(appends)


async def test_long_commits_are_rare() -> None:
    """Events that come meanwhile share the next commit, and the end of a run does not wait for it."""
    store, found = BusyStore(), answer(40)
    async with ls.open_logs(store) as logs:
        live = await logs.start("run", told(found, 0.01))
        assert await live.wait() == "closed"
        assert await followed(logs, "run") == found
    commits = [(nanoseconds(began), nanoseconds(ended)) for began, ended in store.commits]
    rests = [after[0] - before[1] for before, after in itertools.pairwise(commits[:-1])]
    took = [ended - began for began, ended in commits]
    assert rests
    assert all(rest >= min(100_000_000, 4.9 * last) for rest, last in zip(rests, took, strict=False))


async def test_a_clock_set_forward_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the sleep of a machine: leases have passed for readers, and are renewed at the next look."""
    ahead = [0.0]
    monkeypatch.setattr(time, "time", lambda real=time.time: real() + ahead[0])
    store = MemoryStore(clock=lambda: time.time())
    async with ls.open_logs(store, lease_s=600.0) as logs:
        source = Gated(answer(5), 4)
        await logs.start("run", source)
        while (before := await logs.read("run")) is None or before.status.tail < 3:
            await asyncio.sleep(0.001)
        committer = logs._opening.result().committer
        committer._tick()
        await asyncio.sleep(0)
        assert not committer._due  # nothing is due for minutes
        ahead[0] = 3_600.0
        assert (await logs.read("run")).status.is_lost
        committer._tick()
        while (await logs.read("run")).status.is_lost:
            await asyncio.sleep(0.001)
        source.gate.set()
        assert await followed(logs, "run") == answer(5)


async def test_a_clock_set_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease of a producer that lives is renewed by the new clock, so that no reader closes its run."""
    ahead = [0.0]
    monkeypatch.setattr(time, "time", lambda real=time.time: real() + ahead[0])
    store = MemoryStore(clock=lambda: time.time())
    async with ls.open_logs(store, lease_s=600.0) as logs:
        source = Gated(answer(5), 4)
        await logs.start("run", source)
        while (before := await logs.read("run")) is None or before.status.tail < 3:
            await asyncio.sleep(0.001)
        ahead[0] = -3_600.0
        assert (await logs.read("run")).status.clock_set_back
        logs._opening.result().committer._tick()
        while (await logs.read("run")).status.clock_set_back:
            await asyncio.sleep(0.001)
        source.gate.set()
        assert await followed(logs, "run") == answer(5)
