"""SQLite files: their versions, durability, and what else is wrong with them."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.events import encode
from llmstream.log import Append, Claim, RunStatus, SQLiteStore
from tests.log.sources import Gated, answer, followed, told


async def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("pragma user_version = 99")
    connection.close()
    with pytest.raises(ls.LogUnavailable, match="newer version of llmstream") as refused:
        await SQLiteStore(tmp_path / "runs.db").open()
    assert not refused.value.retryable


async def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_bytes(b"not a database " * 100)
    with pytest.raises(ls.LogUnavailable, match="cannot be used: file is not a database"):
        await SQLiteStore(tmp_path / "runs.db").open()


async def test_full_durability_is_an_option(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db", synchronous="full")
    async with ls.open_logs(store) as logs:
        await logs.start("answer", told(answer(5)))
        assert await followed(logs, "answer") == answer(5)
        assert store._writing is not None
        row = await store._writing.run(lambda found: found.execute("pragma synchronous").fetchone())
        assert row == (2,)
    with pytest.raises(ls.InvalidRequest, match='"normal" or "full"'):
        SQLiteStore(tmp_path / "runs.db", synchronous="off")


async def test_a_locked_file_is_waited_for(tmp_path: Path) -> None:
    """By a backup, for example; nothing is lost, and readers are not held up."""
    async with ls.open_logs(f"sqlite:{tmp_path}/runs.db") as logs:
        await (await logs.start("before", told(answer(5)))).wait()
        backup = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
        backup.execute("begin immediate")
        assert await followed(logs, "before") == answer(5)
        backup.execute("commit")
        backup.close()
        live = await logs.start("after", told(answer(5)))
        assert await live.wait() == "closed"


async def test_a_file_outlives_its_processes(tmp_path: Path) -> None:
    for run in ("one", "two"):
        async with ls.open_logs(f"sqlite:{tmp_path}/runs.db") as logs:
            await (await logs.start(run, told(answer(5)))).wait()
    async with ls.open_logs(f"sqlite:{tmp_path}/runs.db") as logs:
        for run in ("one", "two"):
            assert await followed(logs, run) == answer(5)


OLD_TABLES = """
create table runs (
    run text primary key, state text not null, first integer not null, tail integer not null,
    epoch integer not null, owner text not null, started real not null, changed real not null, ended real,
    lease_until real not null, lost_at real not null, stopping integer not null, bytes integer not null,
    keep_s real not null, left_s real, seen real not null
) without rowid;
create table batches (
    run text not null, last integer not null, count integer not null, time real not null, data blob not null,
    primary key (run, last)
) without rowid;
create index open_runs on runs (run) where ended is null;
create index ended_runs on runs (ended) where ended is not null;
pragma user_version = 1;
"""


async def test_an_earlier_file_is_converted(tmp_path: Path) -> None:
    lines = [encode(event) for event in answer(5)]
    half, now = len(lines) // 2, time.time()
    parts = [(half - 1, half, b"\n".join(lines[:half])), (10, 11 - half, b"\n".join(lines[half:]))]
    size = sum(len(data) for _, _, data in parts)
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.executescript(OLD_TABLES)
        for run, state, ended in (("done", "closed", now), ("lost", "open", None)):
            row = (run, state, 0, 10, 7, "me", now, now, ended, now - 1, now - 1, 0, size, 600.0, None, now)
            connection.execute(f"insert into runs values ({', '.join('?' * 16)})", row)
            for last, count, data in parts:
                connection.execute(
                    "insert into batches values (?, ?, ?, ?, ?)", (run, last, count, now, data)
                )
    connection.close()
    async with ls.open_logs(f"sqlite:{tmp_path}/runs.db") as logs:
        assert await followed(logs, "done") == answer(5)
        status = await logs.status("done")
        assert status is not None
        assert (status.tail, status.bytes, status.epoch) == (10, size, 7)
        assert await followed(logs, "lost") == answer(5)  # its finish stands there already
        await (await logs.start("new", told(answer(3)))).wait()
        assert await followed(logs, "new") == answer(3)


async def test_a_busy_run_is_never_lost(tmp_path: Path) -> None:
    """Its record is written now and then; the lease is that of its newest batch all the time."""
    now = [1_000.0]
    writer, reader = [SQLiteStore(tmp_path / "runs.db", clock=lambda: now[0]) for _ in range(2)]
    await writer.open()
    await reader.open()
    try:
        run = (await writer.acquire(Claim("run", "me", "new", 10.0, 5.0, 600.0, None))).status
        for seq in range(100):
            now[0] += 2.0
            append = Append("run", run.epoch, seq, 1, b"{}", "open", 10.0)
            assert await writer.append([append]) != [None]
            for store in (writer, reader):
                ((status, _),) = await store.read([("run", seq)], 1000)
                assert status is not None
                assert (status.tail, status.bytes, status.changed) == (seq, 2 * seq + 2, now[0])
                assert (status.lease_until, status.lost_at) == (now[0] + 10.0, now[0] + 15.0)
                assert (await store.sweep()).lost == []
        now[0] += 16.0
        assert (await reader.sweep()).lost == ["run"]
    finally:
        await writer.aclose()
        await reader.aclose()


@pytest.mark.parametrize("count", [5, 6, 97, 127, 250])
async def test_commits_of_many_runs(tmp_path: Path, count: int) -> None:
    """Their rows are written many at a time, also after another process wrote, and where one is refused."""
    now = [1_000.0]
    one, other = [SQLiteStore(tmp_path / "runs.db", clock=lambda: now[0]) for _ in range(2)]
    await one.open()
    await other.open()
    try:
        claims = [Claim(f"run {n}", "me", "new", 10.0, 0.0, 600.0, None) for n in range(count)]
        epochs = [(await one.acquire(claim)).status.epoch for claim in claims]

        def appends(seq: int, size: int = 1) -> list[Append]:
            lines = [b"\n".join([b"%d of %d" % (seq, n)] * size) for n in range(count)]
            return [
                Append(claim.run, epoch, seq, size, line, "open", 10.0)
                for claim, epoch, line in zip(claims, epochs, lines, strict=True)
            ]

        await one.append(appends(0, 2))
        await other.acquire(Claim("another", "you", "new", 60.0, 0.0, 600.0, None))
        await one.append(appends(2))  # nobody has written to them, which has to be looked at
        await other.append(appends(3)[-1:])
        found = await one.append(appends(3))
        assert [status.tail for status in found if status is not None] == [3] * count
        now[0] += 9.0
        await one.append(appends(4))  # which renews the leases, too
        now[0] += 9.0
        assert (await other.sweep()).lost == []
        for n, part in enumerate(await other.read([(claim.run, -1) for claim in claims], 10_000)):
            lines = [line for batch in part.batches for line in batch.data.split(b"\n")]
            assert lines == [b"%d of %d" % (seq, n) for seq in (0, 0, 2, 3, 4)]
            assert part.status is not None
            assert (part.status.bytes, part.status.changed) == (len(b"".join(lines)) + 1, 1_009.0)
    finally:
        await one.aclose()
        await other.aclose()


async def test_a_late_look_is_still_fenced(tmp_path: Path) -> None:
    """Of a run that a fork of the producer wrote to, although another run was committed in between."""
    one, other = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
    await one.open()
    await other.open()
    try:
        claims = [Claim(run, "me", "new", 60.0, 0.0, 600.0, None) for run in "ab"]
        epochs = [(await one.acquire(claim)).status.epoch for claim in claims]

        def frame(run: int, seq: int, data: bytes) -> list[Append]:
            return [Append("ab"[run], epochs[run], seq, 1, data, "open", 60.0)]

        await one.append(frame(0, 0, b"0") + frame(1, 0, b"0"))
        await other.append(frame(0, 1, b"fork") + frame(0, 2, b"fork"))
        await one.append(frame(1, 1, b"1"))
        await one.append(frame(1, 2, b"2"))
        for seq in (1, 1):  # and asked again
            (status,) = await one.append(frame(0, seq, b"refused"))
            assert status is not None
            assert status.tail == 2
        parts = await other.read([("a", -1), ("b", -1)], 1000)
        lines = [b"\n".join(batch.data for batch in part.batches) for part in parts]
        assert lines == [b"0\nfork\nfork", b"0\n1\n2"]
    finally:
        await one.aclose()
        await other.aclose()


async def test_a_clock_set_back_loses_nothing(tmp_path: Path) -> None:
    """A run that goes on has its lease by the new time, so that its producer's death is noticed by it."""
    now = [10_000.0]
    store = SQLiteStore(tmp_path / "runs.db", clock=lambda: now[0])
    await store.open()
    try:
        run = (await store.acquire(Claim("run", "me", "new", 10.0, 0.0, 600.0, None))).status
        for seq in range(3):
            await store.append([Append("run", run.epoch, seq, 1, b"{}", "open", 10.0)])
            now[0] -= 3_600.0 if seq == 0 else -1.0
        ((status, _),) = await store.read([("run", 2)], 1000)
        assert status is not None
        assert (status.tail, status.is_lost, status.lease_until) == (2, False, 6_411.0)
        now[0] += 20.0
        assert (await store.sweep()).lost == ["run"]
    finally:
        await store.aclose()


class Filling(SQLiteStore):
    """Its disk is full from `fill` on, as SQLite reports it; knows how many commits failed."""

    failed = 0

    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        try:
            return await super().append(appends)
        except ls.LogUnavailable as error:
            self.failed += "database or disk is full" in str(error)
            raise

    async def fill(self, pages: int | None = None) -> None:
        """pages: how many the file may have; default: those that it has"""
        assert self._writing is not None
        limit = "1" if pages is None else str(pages)  # less than there are means no more
        await self._writing.run(lambda found: found.execute(f"pragma max_page_count = {limit}").fetchone())


async def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    """What was not written is written once there is room."""
    store = Filling(tmp_path / "runs.db")
    found = [*answer(5)[:4], *[ls.TextDelta("x" * 5_000, "t")] * 20, *answer(5)[4:]]
    async with ls.open_logs(store, lease_s=60) as logs:
        source = Gated(found, 4)
        live = await logs.start("answer", source)
        reader = asyncio.ensure_future(followed(logs, "answer"))
        await store.fill()
        source.gate.set()
        while not store.failed:
            await asyncio.sleep(0.01)
        await store.fill(1_000_000)
        assert await live.wait() == "closed"
        assert await reader == found


async def test_a_disk_that_stays_full(tmp_path: Path) -> None:
    """After the lease it is an error for the producer and for readers, which have seen a part."""
    store = SQLiteStore(tmp_path / "runs.db")
    async with ls.open_logs(store, lease_s=0.5) as logs:
        source = Gated(answer(5), 4)
        live = await logs.start("answer", source)
        seen = list[ls.Event]()

        async def read() -> None:
            async for _, event in logs.follow("answer"):
                seen.append(event)

        reader = asyncio.ensure_future(read())
        while len(seen) < 4:
            await asyncio.sleep(0.01)
        assert store._writing is not None
        # Not a single page can be written, not even the end of the run.
        await store._writing.run(lambda found: found.execute("pragma query_only = on"))
        source.gate.set()
        async with asyncio.timeout(60):
            with pytest.raises(ls.LogUnavailable, match="that the disk is not full"):
                await live.wait()
            with pytest.raises(ls.LogUnavailable, match="that the disk is not full"):
                await reader
        assert seen == answer(5)[:4]
