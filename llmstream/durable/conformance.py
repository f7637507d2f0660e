"""Conformance checks for implementations of `Steps` and `RunStore`, to run against your own.

    @pytest.mark.parametrize("check", STEPS_CHECKS, ids=lambda check: check.__name__)
    async def test_steps(check):
        await check(open_steps)

`open_steps(run)` opens the steps of a run as a new process does, after the one that had it has died.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from llmstream.agent.durable_steps import Do, Steps
from llmstream.durable.store import RunRecord, RunStore
from llmstream.errors import Interrupted, Lost

__all__ = ["STEPS_CHECKS", "STORE_CHECKS", "OpenSteps", "StepsCheck", "StoreCheck"]

OpenSteps: TypeAlias = Callable[[str], Awaitable[Steps]]
StepsCheck: TypeAlias = Callable[[OpenSteps], Awaitable[None]]
StoreCheck: TypeAlias = Callable[[RunStore], Awaitable[None]]
"""Receives an open, empty store."""

# Longer than any check: this lease never expires during one.
_LONG_S: Final = 600.0


def _returns(data: bytes) -> Do:
    async def do() -> bytes:
        return data

    return do


async def _never() -> bytes:
    raise AssertionError("a step that is recorded was done again")


async def done_step_is_not_done_again(open_steps: OpenSteps) -> None:
    """A recorded step is returned, in this process and in the next one."""
    steps = await open_steps("done")
    assert await steps.step("0/model", _returns(b"one"), again=True) == b"one"
    assert await steps.step("0/call/a", _returns(b"two"), again=False) == b"two"
    for after in (steps, await open_steps("done")):
        assert await after.step("0/model", _never, again=True) == b"one"
        assert await after.step("0/call/a", _never, again=False) == b"two"
        assert await after.wait("0/model", 0) == b"one"


async def order_does_not_matter(open_steps: OpenSteps) -> None:
    """Steps run concurrently, and are found by their keys in any order."""
    steps, gate = await open_steps("order"), asyncio.Event()

    async def first() -> bytes:
        await gate.wait()
        return b"a"

    async def second() -> bytes:
        gate.set()
        return b"b"

    both = (steps.step("0/call/a", first, again=False), steps.step("0/call/b", second, again=False))
    assert list(await asyncio.gather(*both)) == [b"a", b"b"]
    after = await open_steps("order")
    assert await after.step("0/call/b", _never, again=False) == b"b"
    assert await after.step("0/before_model", _returns(b"new"), again=True) == b"new"
    assert await after.step("0/call/a", _never, again=False) == b"a"


async def _interrupt(steps: Steps, key: str, again: bool) -> None:
    """Begins a step and is cancelled in the middle of it."""
    begun = asyncio.Event()

    async def do() -> bytes:
        begun.set()
        await asyncio.Event().wait()
        return b""

    task = asyncio.ensure_future(steps.step(key, do, again=again))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def interrupted_step_is_reported(open_steps: OpenSteps) -> None:
    """An interrupted step is repeated only if it may be; otherwise it raises, each time."""
    steps = await open_steps("broken")
    await _interrupt(steps, "0/call/a", again=False)
    await _interrupt(steps, "0/model", again=True)
    # Twice: a refusal must not clear the record of the interrupted step.
    for _ in range(2):
        steps = await open_steps("broken")
        try:
            await steps.step("0/call/a", _never, again=False)
        except Interrupted:
            continue
        raise AssertionError("an interrupted step raised nothing")
    assert await steps.step("0/model", _returns(b"again"), again=True) == b"again"


async def failure_is_not_recorded(open_steps: OpenSteps) -> None:
    """Exceptions of a step propagate; the step may be repeated."""
    steps = await open_steps("failed")

    async def fail() -> bytes:
        raise KeyError("this")

    try:
        await steps.step("0/model", fail, again=True)
    except KeyError:
        pass
    else:
        raise AssertionError("a step that raises raised nothing")
    after = await open_steps("failed")
    assert await after.wait("0/model", 0) is None
    assert await after.step("0/model", _returns(b"better"), again=True) == b"better"


async def loser_writes_nothing(open_steps: OpenSteps) -> None:
    """Once another process has the run, a step of the first one is refused."""
    old = await open_steps("lost")
    new = await open_steps("lost")
    for again in (False, True):
        try:
            await old.step(f"0/{again}", _returns(b"old"), again=again)
        except Lost:
            continue
        raise AssertionError("a process that has lost its run could write")
    assert await new.step("0/True", _returns(b"new"), again=True) == b"new"


STEPS_CHECKS: Final[tuple[StepsCheck, ...]] = (
    done_step_is_not_done_again,
    order_does_not_matter,
    interrupted_step_is_reported,
    failure_is_not_recorded,
    loser_writes_nothing,
)


async def _claimed(store: RunStore, run: str, owner: str) -> RunRecord:
    record = await store.claim(run, owner, _LONG_S)
    assert record is not None
    return record


async def one_of_many_claims_wins(store: RunStore) -> None:
    """Of concurrent claims one is granted; a waiting run can be claimed again at once."""
    made = await store.create("run", "clerk", "{}")
    assert (made.state, made.owner) == ("running", "")
    assert await store.create("run", "other", "[]") == made
    found = await asyncio.gather(*[store.claim("run", str(n), _LONG_S) for n in range(5)])
    (record,) = [record for record in found if record is not None]
    assert record.epoch > made.epoch
    assert await store.leave("run", record.epoch, "waiting", "", "")
    again = await _claimed(store, "run", "next")
    assert (again.owner, again.state) == ("next", "running")
    assert again.epoch > record.epoch
    assert not await store.leave("run", record.epoch, "done", "", "")


async def deleted_claim_counts_no_more(store: RunStore) -> None:
    """A process that had a deleted run has no part in a new one of the same id."""
    await store.create("run", "clerk", "{}")
    old = (await _claimed(store, "run", "one")).epoch
    await store.delete("run")
    await store.create("run", "clerk", "{}")
    new = await _claimed(store, "run", "two")
    assert (await store.renew({"run": old}, _LONG_S)).ours == frozenset()
    assert not await store.begin("run", old, "0/call/a")
    assert not await store.done("run", old, "0/model", b"old", ("", ""))
    assert not await store.leave("run", old, "running", "", "")
    assert await store.record("run") == new
    assert await store.steps("run") == {}


async def passed_lease_makes_a_run_due(store: RunStore) -> None:
    """A run whose lease has expired is due, and renewing it fails once another process has it."""
    await store.create("run", "clerk", "{}")
    # Short, because the check waits for it to expire by the store's clock.
    first = await store.claim("run", "one", 0.05)
    assert first is not None
    assert (await store.renew({"run": first.epoch}, 0.05)).ours == {"run"}
    async with asyncio.timeout(30):
        while not await store.due(["clerk"], 10):  # noqa: ASYNC110  # a lease passes, and tells nobody
            await asyncio.sleep(0.01)
    assert not await store.due(["other"], 10)
    await _claimed(store, "run", "two")
    assert not await store.due(["clerk"], 10)
    assert (await store.renew({"run": first.epoch}, _LONG_S)).ours == frozenset()
    assert not await store.begin("run", first.epoch, "0/call/a")
    assert not await store.done("run", first.epoch, "0/model", b"old", ("", ""))
    assert await store.steps("run") == {}


async def unclaimed_runs_are_counted(store: RunStore) -> None:
    """Due runs of agents other than those named are counted by agent, once they are overdue."""
    for run, agent in (("a", "clark"), ("b", "clark"), ("c", "clerk"), ("d", "teller"), ("e", "baker")):
        await store.create(run, agent, "{}")
    first = await _claimed(store, "d", "one")
    await _claimed(store, "e", "two")  # in progress
    assert await store.leave("d", first.epoch, "waiting", "", "")
    async with asyncio.timeout(30):
        while not await store.unclaimed(["clerk"], 0):  # noqa: ASYNC110  # a clock may be coarse
            await asyncio.sleep(0.01)
    assert await store.unclaimed(["clerk"], 0) == {"clark": 2}
    assert await store.unclaimed(["clerk"], _LONG_S) == {}
    assert await store.unclaimed(["clerk", "clark"], 0) == {}
    assert await store.give("d", "0/decision/a", b"yes")
    async with asyncio.timeout(30):
        while len(await store.unclaimed(["clerk"], 0)) < 2:  # noqa: ASYNC110  # a clock may be coarse
            await asyncio.sleep(0.01)
    assert await store.unclaimed(["clerk"], 0) == {"clark": 2, "teller": 1}


async def given_once_and_heard(store: RunStore) -> None:
    """The first decision applies, and makes a waiting run due; messages are numbered in order."""
    await store.create("run", "clerk", "{}")
    first = await _claimed(store, "run", "one")
    await store.leave("run", first.epoch, "waiting", "", "")
    assert not await store.due(["clerk"], 10)
    assert await store.give("run", "0/decision/a", b"yes")
    assert not await store.give("run", "0/decision/a", b"no")
    assert [record.run for record in await store.due(["clerk"], 10)] == ["run"]
    assert await store.look("run", "0/decision/a") == b"yes"
    sent = [f"message {n}".encode() for n in range(5)]
    assert all(await asyncio.gather(*[store.send("run", data) for data in sent]))
    found = [await store.look("run", f"inbox/{n}") for n in range(6)]
    assert {data for data in found if data is not None} == set(sent)
    assert found[5] is None
    claimed = await _claimed(store, "run", "two")
    assert not await store.done("run", claimed.epoch, "inbox/4", b"", ("", ""))
    assert await store.done("run", claimed.epoch, "inbox/5", b"", ("", ""))
    assert not await store.send("run", b"after the last look")
    assert await store.leave("run", claimed.epoch, "waiting", "", "")
    stopped = await store.request_stop("run")
    assert stopped is not None
    assert stopped.state == "stopped"
    assert not await store.send("run", b"late")
    assert not await store.give("run", "0/decision/b", b"late")


async def ended_runs_are_deleted(store: RunStore) -> None:
    """Runs and their steps go once they have been over for long, and no others."""
    for run in ("open", "over"):
        await store.create(run, "clerk", "{}")
        epoch = (await _claimed(store, run, "one")).epoch
        await store.done(run, epoch, "0/model", b"x", ("m", '{"inputTokens": 3, "cost": 0.5}'))
        await store.done(run, epoch, "1/model", b"x", ("m", '{"inputTokens": 4}'))
    assert [usage.input_tokens for usage in (await store.usage("over")).values()] == [7]
    assert await store.cost("over") == 0.5
    await store.leave("over", epoch, "done", "", "")
    (record,) = await store.records("done", None, 10)
    assert record.ended is not None
    assert await store.delete_ended(record.ended) == 0
    assert await store.delete_ended(record.ended + 1) == 1
    assert await store.record("over") is None
    assert await store.steps("over") == {}
    assert sorted(await store.steps("open")) == ["0/model", "1/model"]


async def changes_side_by_side_count(store: RunStore) -> None:
    """Changes that come together each have an answer of their own; that of a lost run is False."""
    runs, epochs = ["b", "a", "c"], dict[str, int]()
    for run in runs:
        await store.create(run, "clerk", "{}")
        epochs[run] = (await _claimed(store, run, "one")).epoch
    epochs["c"] -= 1
    keys = [(run, f"0/call/{number}") for number in range(20) for run in runs]
    begun = await asyncio.gather(*(store.begin(run, epochs[run], key) for run, key in keys))
    assert begun == [run != "c" for run, _ in keys]
    nothing = ("", "")
    done = await asyncio.gather(*(store.done(run, epochs[run], key, b"x", nothing) for run, key in keys))
    assert done == begun
    assert [len(await store.steps(run)) for run in runs] == [20, 20, 0]
    assert all(step.data == b"x" for step in (await store.steps("a")).values())


STORE_CHECKS: Final[tuple[StoreCheck, ...]] = (
    one_of_many_claims_wins,
    deleted_claim_counts_no_more,
    passed_lease_makes_a_run_due,
    unclaimed_runs_are_counted,
    given_once_and_heard,
    ended_runs_are_deleted,
    changes_side_by_side_count,
)
