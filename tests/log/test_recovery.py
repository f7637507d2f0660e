"""Runs whose producers died, and are closed by their readers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.log import Append, Claim, MemoryStore, SQLiteStore, Store
from tests.log.sources import followed
from tests.redis_servers import flushed

LEASE_S = 0.2


async def abandoned(store: Store, takeover_s: float = 0.0) -> None:
    """Leaves a run with one event whose producer is gone."""
    claim = Claim("answer", "gone", "new", LEASE_S, takeover_s, 600.0, None)
    status = (await store.acquire(claim)).status
    line = ls.events.encode(ls.StreamStart())
    (written,) = await store.append([Append("answer", status.epoch, 0, 1, line, "open", LEASE_S)])
    assert written is not None
    assert written.tail == 0


def assert_closed(found: list[ls.Event]) -> None:
    assert [type(event) for event in found] == [ls.StreamStart, ls.ErrorEvent, ls.Finish]
    assert isinstance(found[1], ls.ErrorEvent)
    assert found[1].error.code == "producer-lost"


@pytest.mark.parametrize("back_s", [3_600.0, 0.1], ids=["an hour", "a moment"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_clock_set_back_bounds_the_wait(kind: str, back_s: float, tmp_path: Path) -> None:
    """A lease that ends in an hour, by the new clock, holds readers for its own length."""
    ahead = [0.0]

    def clock(real=time.time) -> float:
        return real() + ahead[0]

    store = MemoryStore(clock=clock) if kind == "memory" else SQLiteStore(tmp_path / "runs.db", clock=clock)
    async with ls.open_logs(store, lease_s=LEASE_S) as logs:
        await abandoned(store)
        ahead[0] = -back_s
        assert_closed(await followed(logs, "answer"))


async def test_a_servers_clock_may_be_set_back(redis_server: str) -> None:
    address = flushed(redis_server)
    async with ls.open_logs(address, lease_s=LEASE_S) as logs:
        await abandoned(logs._store)
        client = logs._store._client
        for field in ("changed", "lease_until", "lost_at"):
            await client.hincrbyfloat("llmstream:{answer}:run", field, 3_600.0)
        assert_closed(await followed(logs, "answer"))


async def test_a_takeover_is_waited_for() -> None:
    """Also with a clock that was set back: whoever takes the run over is not forestalled."""
    ahead = [0.0]
    store = MemoryStore(clock=lambda real=time.time: real() + ahead[0])
    async with ls.open_logs(store, lease_s=LEASE_S) as logs:
        await abandoned(store, takeover_s=600.0)
        ahead[0] = -3_600.0
        pages = logs.pages("answer", silence_s=3 * LEASE_S)
        seen = [await anext(pages) for _ in range(3)]
        assert [page.status.state for page in seen] == ["open"] * 3
        await pages.aclose()
