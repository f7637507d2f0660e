"""Steps on the way to an answer: deadlines that pass, one at the last moment, and those who leave."""

from __future__ import annotations

import asyncio

import pytest

import llmstream as ls
from llmstream.streams.attempts import AttemptClock


def steps(**deadlines: float | None) -> AttemptClock:
    made = AttemptClock(ls.Deadlines(**deadlines), None)
    made.begin()
    return made


async def test_attempt_step_ends_at_first_deadline() -> None:
    taken = steps(first_event_s=0.01, step_s=30.0)
    taken.attempt()
    with pytest.raises(ls.DeadlineExceeded) as passed:
        await taken.watched(asyncio.sleep(30))
    assert (passed.value.reason, passed.value.retryable) == ("first-event", True)


async def test_another_attempt_has_the_whole_time() -> None:
    taken = steps(first_event_s=0.05)
    taken.attempt()
    await taken.watched(asyncio.sleep(0.03))
    taken.attempt()
    await taken.watched(asyncio.sleep(0.03))
    taken.stop()
    await asyncio.sleep(0.06)
    assert await taken.watched(asyncio.sleep(0, "still here")) == "still here"


async def test_side_step_has_two_deadlines() -> None:
    """Its own deadline and the total one; it runs beside the attempt."""
    taken = steps(idle_s=0.01, total_s=30.0)
    taken.attempt()
    with pytest.raises(ls.DeadlineExceeded) as passed:
        await taken.in_time(asyncio.sleep(30), asyncio.get_running_loop().time(), "idle")
    assert passed.value.reason == "idle"
    taken.stop()
    taken = steps(total_s=0.01)
    with pytest.raises(ls.DeadlineExceeded) as passed:
        await taken.in_time(asyncio.sleep(30), None)
    assert passed.value.reason == "total"
    assert taken.past_total(0.0)


async def test_waiter_is_notified_when_one_leaves() -> None:
    taken = steps()
    taken.attempt()
    waiting = asyncio.create_task(taken.watched(asyncio.sleep(30)))
    await asyncio.sleep(0)
    taken.leave()
    with pytest.raises(ls.ConnectionLost, match="closed"):
        await waiting


async def test_timeout_of_step_itself_is_unchanged() -> None:
    async def impatient() -> None:
        raise TimeoutError("its own")

    taken = steps()
    taken.attempt()
    with pytest.raises(TimeoutError, match="its own"):
        await taken.watched(impatient())


async def test_deadline_at_the_head_is_reported() -> None:
    """The timer has fired, and the step has its result all the same: nothing would end the body."""
    taken = steps(first_event_s=0.01)
    watchdog = taken.attempt()
    await asyncio.sleep(0.03)
    told: list[ls.DeadlineExceeded] = []
    watchdog.hand_over(told.append)
    await asyncio.sleep(0.01)
    assert [error.reason for error in told] == ["first-event"]
