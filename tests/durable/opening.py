"""Opens the steps of a run over a store as a process does that takes the run over."""

from __future__ import annotations

from llmstream.durable.conformance import OpenSteps
from llmstream.durable.store import RunStore
from llmstream.durable.store_steps import StoreSteps


def opener(store: RunStore) -> OpenSteps:
    """What the conformance checks need: the steps of a run whose earlier process is dead."""

    async def open_steps(run: str) -> StoreSteps:
        await store.create(run, "clerk", "{}")
        known = await store.record(run)
        assert known is not None
        await store.leave(run, known.epoch, "running", "", "")
        record = await store.claim(run, "process", 600)
        assert record is not None
        return StoreSteps(store, run, record.epoch, await store.steps(run))

    return open_steps
