"""Datagrams between processes that share a file."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmstream.log import Append, Claim, RunStatus, SQLiteStore, acquired, sqlite, wake
from llmstream.log.wake import Bells

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no Unix sockets")


class Ear:
    """A listener in a task."""

    def __init__(self, bells: Bells) -> None:
        self.changes: asyncio.Queue[str | None] = asyncio.Queue()
        self.task = asyncio.ensure_future(bells.listen(self.changes.put_nowait))

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


@pytest.fixture(params=["short", "long"])
async def pair(request, short_path: Path):
    """Two processes; with a path that is longer than the address of a socket may be."""
    folder = short_path if request.param == "short" else short_path / ("d" * 120)
    folder.mkdir(exist_ok=True)
    one, other = Bells(folder / "wake"), Bells(folder / "wake")
    one.open()
    other.open()
    ear = Ear(other)
    assert await ear.changes.get() is None
    yield one, other, ear
    await ear.stop()
    one.close()
    other.close()
    assert list((folder / "wake").iterdir()) == []


async def test_names_are_heard_elsewhere(pair) -> None:
    one, _, ear = pair
    one.ring(["a", "é\n"])
    assert [await ear.changes.get(), await ear.changes.get()] == ["a", "é\n"]


async def test_the_own_bell_is_silent(pair) -> None:
    one, other, ear = pair
    other.ring(["own"])
    one.ring(["a"])
    assert await ear.changes.get() == "a"


async def test_many_names_mean_any(pair) -> None:
    one, _, ear = pair
    one.ring([f"run {number}" for number in range(2_000)])
    assert await ear.changes.get() is None


async def test_a_full_queue_means_any(pair) -> None:
    """A process that did not read for long looks at everything."""
    one, _, ear = pair
    for number in range(5_000):
        one.ring([f"run {number}"])
    found = [await ear.changes.get()]
    while not ear.changes.empty():
        found.append(ear.changes.get_nowait())
    assert None in found


async def test_what_was_missed_comes_again(pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the next message that the queue has room for."""
    one, other, ear = pair
    monkeypatch.setattr(other, "_looked_s", float("inf"))  # it does not look at everything
    names = [f"run {number}" for number in range(100)]
    for name in names:
        one.ring([name])
    found = {await ear.changes.get()}
    one.ring(["last"])
    async with asyncio.timeout(10):
        while not found >= {*names, "last"}:
            found.add(await ear.changes.get())
    assert None not in found


def commit(run: str, data: bytes = b"{}", *, epoch: int = 1) -> tuple[Append, RunStatus]:
    status = acquired(None, Claim(run, "one", "new", 10.0, 0.0, 10.0, None), 1.0)
    assert status is not None
    return Append(run, status.epoch - 1 + epoch, 0, 1, data, "open", 10.0), replace(status, tail=0)


def ring(bells: Bells, news: Sequence[tuple[Append, RunStatus | None]]) -> None:
    bells.ring_commit([append for append, _ in news], [status for _, status in news])


async def test_a_renewal_wakes_nobody(pair) -> None:
    one, _, ear = pair
    append, status = commit("a")
    ring(one, [(replace(append, count=0, data=b""), status)])
    one.ring(["b"])
    assert await ear.changes.get() == "b"


async def test_a_small_commit_is_sent(pair) -> None:
    """As it is; of a large one, or one that the store refused in part, the names."""
    one, other, ear = pair
    found: list[tuple[Append, RunStatus]] = []
    other.committed = lambda append, status: found.append((append, status))
    small = [commit("a"), commit("é", "ü".encode())]
    ring(one, small)
    for news in ([commit("b", b"x" * 20_000)], [commit("c", epoch=2)], [(commit("d")[0], None)]):
        ring(one, news)
    many = [commit(f"run {number}") for number in range(30)]
    ring(one, many)
    changes = [await ear.changes.get() for _ in range(33)]
    assert found == small
    assert changes[:3] == ["b", "c", "d"]
    assert set(changes[3:]) == {append.run for append, _ in many}


async def test_a_commit_needs_a_taker(pair) -> None:
    """A process that does not take commits, such as one of an earlier version, looks at everything."""
    one, _, ear = pair
    ring(one, [commit("a")])
    assert await ear.changes.get() is None


async def test_strangers_get_no_frames(short_path: Path) -> None:
    """In a folder that others may read, names alone are sent, and commits are not believed."""
    (short_path / "wake").mkdir(mode=0o755)
    one, other = Bells(short_path / "wake"), Bells(short_path / "wake")
    one.open()
    other.open()
    found: list[object] = []
    other.committed = lambda append, status: found.append(append)
    ear = Ear(other)
    assert await ear.changes.get() is None
    ring(one, [commit("a")])
    assert await ear.changes.get() == "a"
    one._private = True
    ring(one, [commit("b")])
    assert await ear.changes.get() is None
    assert found == []
    await ear.stop()
    one.close()
    other.close()


async def test_dead_sockets_are_removed(short_path: Path) -> None:
    bells = Bells(short_path / "wake")
    bells.open()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(str(short_path / "wake" / "dead"))
    bells.ring(["a"])
    assert list((short_path / "wake").iterdir()) == []
    bells.close()
    bells.ring(["a"])  # after closing it does nothing


async def test_without_sockets_it_is_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from llmstream.log.conformance import changes_are_heard_elsewhere

    with monkeypatch.context() as patched:  # undone before uvloop closes, which makes such sockets itself
        patched.delattr(wake.socket, "AF_UNIX")
        patched.setattr(sqlite, "_POLL_S", 0.001)
        await changes_are_heard_elsewhere(lambda: SQLiteStore(tmp_path / "runs.db"))
    assert not (tmp_path / "runs.db-wake").exists()


async def test_the_folder_is_private(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    await store.open()
    mode = (tmp_path / "runs.db-wake").stat().st_mode & 0o777
    await store.aclose()
    assert mode == 0o700
