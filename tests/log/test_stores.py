"""Every store does what `llmstream.log.conformance` asks."""

from __future__ import annotations

import pytest

from llmstream.log import MemoryStore, PostgresStore, RedisStore, SQLiteStore, Store
from llmstream.log.conformance import STORE_CHECKS, StoreCheck


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
async def test_store_passes_every_check(check: StoreCheck, address: str) -> None:
    await check(maker(address))


def maker(address: str):
    if address == "memory:":
        store = MemoryStore()
        return lambda: store
    if address.startswith("sqlite:"):
        return lambda: SQLiteStore(address.removeprefix("sqlite:"))
    if address.startswith("postgresql:"):
        return lambda: PostgresStore(address)
    return lambda: RedisStore(address)


class PollingStore(MemoryStore):
    """A store that cannot notify."""

    listen = Store.listen


async def test_store_with_no_notices_polls() -> None:
    changes = []

    def on_change(run: str | None) -> None:
        changes.append(run)
        if len(changes) == 3:
            raise StopAsyncIteration

    with pytest.raises((StopAsyncIteration, RuntimeError)):
        await PollingStore().listen(on_change)
    assert changes == [None] * 3
