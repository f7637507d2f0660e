"""Conformance checks for stores, to run against your own.

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    async def test_store(check, tmp_path):
        await check(lambda: MyStore(tmp_path / "runs"))

Each check opens the store twice, as two processes would. A store of one process may return the same object
each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeAlias

from llmstream.log.frames import page_of
from llmstream.log.store import Append, Claim, RunState, RunStatus, Store

__all__ = ["STORE_CHECKS", "StoreCheck"]

MakeStore: TypeAlias = Callable[[], Store]
"""Creates a store that is not open yet, always at the same address, which is empty at first."""

StoreCheck: TypeAlias = Callable[[MakeStore], Awaitable[None]]

_LONG_S: Final = 600.0
# Longer than the clock of any store takes to advance; a lease of 0 s has expired then.
_SOON_S: Final = 0.003


@asynccontextmanager
async def _opened(make: MakeStore) -> AsyncIterator[tuple[Store, Store]]:
    one, other = make(), make()
    await one.open()
    if other is not one:
        await other.open()
    try:
        yield one, other
    finally:
        await one.aclose()
        await other.aclose()


def _claim(
    run: str = "run",
    mode: Literal["new", "replace", "take-over"] = "new",
    lease_s: float = _LONG_S,
    **other: Any,
) -> Claim:
    fields: dict[str, Any] = {"owner": "one", "takeover_s": 0.0, "keep_s": _LONG_S, "left_s": None, **other}
    return Claim(run=run, mode=mode, lease_s=lease_s, **fields)


def _append(
    status: RunStatus,
    *lines: bytes,
    first: int | None = None,
    state: RunState = "open",
    lease_s: float = _LONG_S,
    lost: bool = False,
) -> Append:
    number = status.tail + 1 if first is None else first
    return Append(status.run, status.epoch, number, len(lines), b"\n".join(lines), state, lease_s, lost)


async def _begun(store: Store, run: str = "run", **claim: Any) -> RunStatus:
    granted, status = await store.acquire(_claim(run, **claim))
    assert granted, f"a new id is refused: {status}"
    return status


async def _written(store: Store, append: Append) -> RunStatus:
    (status,) = await store.append([append])
    assert status is not None, "an append to a run that is there has no status"
    return status


async def _seen(store: Store, run: str = "run", after: int = -1) -> tuple[RunStatus, list[tuple[int, bytes]]]:
    """The status, and all frames after a number."""
    found, position = list[tuple[int, bytes]](), after
    while True:
        (part,) = await store.read([(run, position)], 1000)
        page = page_of(part, position)
        assert page is not None, f"{run!r} is not there"
        found += [(frame.seq, frame.data) for frame in page.frames]
        if not page.frames or page.up_to_date:
            return page.status, found
        position = page.frames[-1].seq


async def new_run_is_open_and_empty(make: MakeStore) -> None:
    """A claim of a new id is granted, and visible to every process."""
    async with _opened(make) as (one, other):
        granted, status = await one.acquire(_claim(left_s=7.5, keep_s=30.0))
        assert granted
        assert (status.state, status.first, status.tail) == ("open", 0, -1)
        assert abs(status.epoch - status.started * 1000) < 2, "the epoch does not begin with the time"
        assert (status.owner, status.ended, status.stopping, status.bytes) == ("one", None, False, 0)
        assert (status.keep_s, status.left_s) == (30.0, 7.5)
        assert abs(status.lease_until - status.now - _LONG_S) < 1
        there, frames = await _seen(other)
        assert (there.epoch, there.owner, frames) == (status.epoch, "one", [])
        assert there.started == status.started
        assert [part.status for part in await other.read([("else", -1)], 1000)] == [None]


async def one_of_many_claims_wins(make: MakeStore) -> None:
    """Of concurrent claims one is granted, and the others get its status."""
    async with _opened(make) as stores:
        claims = [stores[n % 2].acquire(_claim(owner=str(n))) for n in range(8)]
        found = await asyncio.gather(*claims)
        winners = [status.owner for granted, status in found if granted]
        assert len(winners) == 1
        assert {status.owner for _, status in found} == set(winners)


async def frames_are_numbered_densely(make: MakeStore) -> None:
    """Frames are returned in order, once, with numbers from 0; a position may be inside a batch."""
    async with _opened(make) as (one, other):
        status = await _begun(one)
        lines = [b'{"n":%d,"t":"\xc3\xa9"}' % n for n in range(60)]
        for first, size in ((0, 1), (1, 9), (10, 20), (30, 30)):
            status = await _written(one, _append(status, *lines[first : first + size]))
            assert status.tail == first + size - 1
        assert status.bytes == sum(map(len, lines)) + 60 - 4  # line ends between, not after
        # Positions at batch boundaries, next to them, and within batches.
        for after in (-1, 0, 1, 5, 9, 10, 29, 58, 59):
            _, frames = await _seen(other, after=after)
            assert frames == list(enumerate(lines))[after + 1 :], f"after {after}"


async def a_page_is_bounded(make: MakeStore) -> None:
    """A slice ends once it has max_bytes, but has at least one batch."""
    async with _opened(make) as (one, other):
        status = await _begun(one)
        for _ in range(100):
            status = await _written(one, _append(status, b"x" * 100))
        (part,) = await other.read([("run", -1)], 1_000)
        assert 1 <= len(part.batches) <= 10
        (part,) = await other.read([("run", 41)], 1)
        assert [batch.first for batch in part.batches] == [42]
        large = b"y" * 2_000_000
        status = await _written(one, _append(status, large))
        (part,) = await other.read([("run", 99)], 1_000)
        assert [batch.data for batch in part.batches] == [large]


async def any_id_and_bytes_are_stored(make: MakeStore) -> None:
    """An id may have any characters; ids that look alike are different runs."""
    async with _opened(make) as (one, other):
        # Ids that a store might split or normalise: case, spaces, globs, quotes, slots of a Redis cluster,
        # Unicode forms.
        ids = [
            "a",
            "A",
            "a ",
            "a/b?c=d",
            "{a}",
            "a:b*",
            "é",
            "e\u0301",
            "'; drop table runs",
            "a\nb",
            "x" * 512,
        ]
        for run in ids:
            status = await _begun(one, run)
            await _written(one, _append(status, run.encode()))
        parts = await other.read([(run, -1) for run in ids], 10_000)
        assert [part.batches[0].data.decode() for part in parts] == ids
        assert [part.status.run for part in parts if part.status is not None] == ids


async def a_wrong_number_writes_nothing(make: MakeStore) -> None:
    """An append that does not continue the tail is refused: a gap, a repetition, another epoch, no run."""
    async with _opened(make) as (one, other):
        status = await _begun(one)
        status = await _written(one, _append(status, b"0", b"1"))
        for first in (0, 1, 3, 9):
            refused = await _written(other, _append(status, b"no", first=first))
            assert refused.tail == 1, f"an append at {first} is not refused"
        for epoch in (0, 1, status.epoch - 1, status.epoch + 1):
            wrong = Append("run", epoch, 2, 1, b"no", "open", _LONG_S)
            assert (await _written(other, wrong)).tail == 1, f"epoch {epoch} is not refused"
        assert await one.append([Append("else", status.epoch, 0, 1, b"no", "open", _LONG_S)]) == [None]
        assert (await _seen(one))[1] == [(0, b"0"), (1, b"1")]


async def one_commit_has_many_runs(make: MakeStore) -> None:
    """Runs of one commit are independent: a rejected one does not affect the others."""
    async with _opened(make) as (one, other):
        runs = [await _begun(one, f"run-{n}") for n in range(20)]
        appends = [_append(status, b"a", first=5 if n == 7 else None) for n, status in enumerate(runs)]
        found = await one.append([*appends, Append("none", 1, 0, 1, b"a", "open", _LONG_S)])
        assert [status.tail for status in found[:-1] if status is not None] == [0] * 7 + [-1] + [0] * 12
        assert found[-1] is None
        parts = await other.read([(f"run-{n}", -1) for n in range(20)], 1000)
        assert [len(part.batches) for part in parts] == [1] * 7 + [0] + [1] * 12
        assert await one.append([]) == []
        assert await one.read([], 1000) == []


async def two_writers_never_both_write(make: MakeStore) -> None:
    """Of two appends of one number at the same time one is written, though both have the epoch."""
    async with _opened(make) as (one, other):
        status = await _begun(one)
        for round_ in range(10):
            pair = (
                one.append([_append(status, b"one", b"more")]),
                other.append([_append(status, b"other")]),
            )
            await asyncio.gather(*pair)
            there, frames = await _seen(one, after=status.tail)
            written = [line for _, line in frames]
            assert written in ([b"one", b"more"], [b"other"]), f"round {round_}: {written}"
            status = there


async def an_ended_run_takes_no_more(make: MakeStore) -> None:
    """The last frames and the state are written atomically; nothing is written after them."""
    async with _opened(make) as (one, other):
        states: tuple[RunState, ...] = ("closed", "failed", "stopped")
        for state in states:
            status = await _begun(one, state)
            status = await _written(one, _append(status, b"last", state=state))
            assert (status.state, status.tail) == (state, 0)
            assert status.ended is not None
            refused = await _written(other, _append(status, b"no"))
            assert (refused.state, refused.tail) == (state, 0)
            there, frames = await _seen(other, state)
            assert (there.state, there.ended, frames) == (state, status.ended, [(0, b"last")])


async def an_id_in_use_is_refused(make: MakeStore) -> None:
    """A held run is not granted; an ended one only to "replace"."""
    async with _opened(make) as (one, other):
        status = await _begun(one)
        modes: tuple[Literal["new", "replace", "take-over"], ...] = ("new", "replace", "take-over")
        for mode in modes:
            granted, there = await other.acquire(_claim(mode=mode, owner="other"))
            assert (granted, there.owner, there.epoch) == (False, "one", status.epoch), mode
        await _written(one, _append(status, b"last", state="closed"))
        for mode in ("new", "take-over"):
            assert not (await other.acquire(_claim(mode=mode)))[0], mode
        assert (await _seen(other))[1] == [(0, b"last")]


async def a_replaced_run_goes_on_counting(make: MakeStore) -> None:
    """A new run under an old id has the next epoch and the next numbers, and none of the old frames."""
    async with _opened(make) as (one, other):
        status = await _begun(one)
        ended = await _written(one, _append(status, b"0", b"1", state="failed"))
        granted, status = await other.acquire(_claim(mode="replace", owner="other"))
        assert granted
        assert (status.state, status.first, status.tail) == ("open", 2, 1)
        assert status.epoch == ended.epoch + 1
        assert (status.bytes, status.ended, status.owner) == (0, None, "other")
        assert (await _written(one, _append(ended, b"no"))).tail == 1
        await _written(other, _append(status, b"2"))
        assert (await _seen(one))[1] == [(2, b"2")]


async def a_lease_protects_its_run(make: MakeStore) -> None:
    """A run whose lease has expired can be taken over; the old producer is fenced off. Renewing protects."""
    async with _opened(make) as (one, other):
        status = await _begun(one, lease_s=0.0)
        old = await _written(one, _append(status, b"0", lease_s=0.0))
        await _written(one, _append(old, lease_s=_LONG_S))
        assert not (await other.acquire(_claim(mode="take-over")))[0], "a renewed lease does not protect"
        await _written(one, _append(old, lease_s=0.0))
        await asyncio.sleep(_SOON_S)
        granted, new = await other.acquire(_claim(mode="take-over", owner="other"))
        assert granted
        assert (new.tail, new.first, new.owner, new.bytes) == (0, 0, "other", 1)
        assert new.epoch == old.epoch + 1
        assert new.started == status.started
        assert (await _written(one, _append(old, b"no"))).epoch == new.epoch
        await _written(other, _append(new, b"1"))
        assert (await _seen(one))[1] == [(0, b"0"), (1, b"1")]


async def one_of_many_closes_a_lost_run(make: MakeStore) -> None:
    """A run is closed for its producer only once lost, by exactly one closer, and this fences it off."""
    async with _opened(make) as stores:
        one, _ = stores
        status = await _written(one, _append(await _begun(one), b"0"))
        end = _append(status, b"end", state="failed", lost=True)
        there = await _written(one, end)
        assert (there.state, there.tail) == ("open", 0), "a run that is not lost is closed"
        status = await _written(one, _append(status, lease_s=0.0))
        await asyncio.sleep(_SOON_S)
        assert (await _seen(one))[0].is_lost
        await asyncio.gather(*[stores[n % 2].append([end]) for n in range(8)])
        there, frames = await _seen(one)
        assert (there.state, frames) == ("failed", [(0, b"0"), (1, b"end")])
        assert there.epoch == status.epoch + 1
        assert (await _written(one, _append(status, b"no"))).state == "failed"


async def takeover_time_is_left_to_producers(make: MakeStore) -> None:
    """After the lease, but within the time for a takeover, a run can be taken over but not closed."""
    async with _opened(make) as (one, other):
        status = await _begun(one, lease_s=0.0, takeover_s=_LONG_S)
        status = await _written(one, _append(status, b"0", lease_s=0.0))
        await asyncio.sleep(_SOON_S)
        there = await _written(other, _append(status, b"end", state="failed", lost=True))
        assert (there.state, there.is_lost) == ("open", False)
        granted, _ = await other.acquire(_claim(mode="take-over"))
        assert granted


async def a_stop_reaches_the_producer(make: MakeStore) -> None:
    """A request to stop is in the status of the next append; an ended run has none."""
    async with _opened(make) as (one, other):
        status = await _begun(one)
        asked = await other.request_stop("run")
        assert asked is not None
        assert asked.stopping
        status = await _written(one, _append(status))
        assert (status.stopping, status.state) == (True, "open")
        await _written(one, _append(status, b"end", state="stopped"))
        asked = await other.request_stop("run")
        assert asked is not None
        assert asked.state == "stopped"
        assert await other.request_stop("else") is None


async def readers_are_seen(make: MakeStore) -> None:
    """A run that ends without readers stores when the last one was present."""
    async with _opened(make) as (one, other):
        status = await _begun(one, left_s=0.0)
        await asyncio.sleep(_SOON_S)
        there, _ = await _seen(one)
        assert there.is_left
        await other.mark_seen(["run", "else"])
        there, _ = await _seen(one)
        assert there.seen > status.seen
        assert (await one.read([("else", -1)], 10))[0].status is None


async def what_expired_is_deleted(make: MakeStore) -> None:
    """Frames are deleted `keep_s` after the end, the record as long after that; an open run stays."""
    async with _opened(make) as (one, other):
        for run, keep_s in (("short", 0.3), ("long", _LONG_S)):
            status = await _begun(one, run, keep_s=keep_s)
            await _written(one, _append(status, b"0", state="closed"))
        await _written(one, _append(await _begun(one, "open", keep_s=0.0, lease_s=0.0), b"0", lease_s=0.0))
        await other.sweep()
        assert (await _seen(other, "short"))[1] == [(0, b"0")]
        await asyncio.sleep(0.35)
        assert list((await other.sweep()).lost) == ["open"]
        (part,) = await one.read([("short", -1)], 1000)
        if part.status is not None:  # on a busy machine it may be deleted too
            assert (part.status.state, part.status.first, list(part.batches)) == ("closed", 1, [])
            assert not (await one.acquire(_claim("short")))[0]
        await asyncio.sleep(0.35)
        await other.sweep()
        assert (await one.read([("short", -1)], 1000))[0].status is None
        for run in ("long", "open"):
            assert (await _seen(other, run))[1] == [(0, b"0")], run


async def a_deleted_run_is_not_there(make: MakeStore) -> None:
    """Deleting removes frames and record; the producer gets an error, and the id is free."""
    async with _opened(make) as (one, other):
        status = await _written(one, _append(await _begun(one), b"0"))
        await other.delete("run")
        await other.delete("else")
        assert await one.append([_append(status, b"1")]) == [None]
        assert (await one.read([("run", -1)], 1000))[0].status is None
        await asyncio.sleep(_SOON_S)
        new = await _begun(other)
        assert (new.tail, (await _seen(one))[1]) == (-1, [])
        new = await _written(other, _append(new, b"new"))
        assert (await _written(one, _append(status, b"1"))).tail == 0, "an old producer writes into a new run"
        assert (await _seen(one))[1] == [(0, b"new")]


async def changes_are_heard_elsewhere(make: MakeStore) -> None:
    """Another process is notified of new runs, frames, ends and stops, not necessarily of renewals."""
    async with _opened(make) as (one, other):
        # A store of one process has no other process to notify.
        if one is other:
            return
        changed: asyncio.Queue[str | None] = asyncio.Queue()
        listener = asyncio.ensure_future(other.listen(changed.put_nowait))
        try:
            async with asyncio.timeout(10):
                assert await changed.get() is None
                status = await _begun(one, "a run")
                await _expect("a run", changed)
                status = await _written(one, _append(status, b"0"))
                await _expect("a run", changed)
                await one.request_stop("a run")
                await _expect("a run", changed)
                await one.append([_append(status, b"end", state="stopped")])
                await _expect("a run", changed)
        finally:
            listener.cancel()
            await asyncio.wait({listener})


async def _expect(run: str, changed: asyncio.Queue[str | None]) -> None:
    while await changed.get() not in (run, None):
        pass
    while not changed.empty():
        changed.get_nowait()


STORE_CHECKS: Final[tuple[StoreCheck, ...]] = (
    new_run_is_open_and_empty,
    one_of_many_claims_wins,
    frames_are_numbered_densely,
    a_page_is_bounded,
    any_id_and_bytes_are_stored,
    a_wrong_number_writes_nothing,
    one_commit_has_many_runs,
    two_writers_never_both_write,
    an_ended_run_takes_no_more,
    an_id_in_use_is_refused,
    a_replaced_run_goes_on_counting,
    a_lease_protects_its_run,
    one_of_many_closes_a_lost_run,
    takeover_time_is_left_to_producers,
    a_stop_reaches_the_producer,
    readers_are_seen,
    what_expired_is_deleted,
    a_deleted_run_is_not_there,
    changes_are_heard_elsewhere,
)
