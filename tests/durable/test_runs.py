"""Durable runs in one process: started, suspended, decided about, sent messages, resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.durable import Runs
from llmstream.errors import InvalidRequest, Stopped
from llmstream.events import RetryNotice
from tests.durable.clerk import ANSWER, PROMPT, Effects, clerk


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path / "effects")


async def read(runs: Runs, agent: ls.Agent, run: str = "order") -> list[ls.Event]:
    found = [event async for event in runs.stream(agent, run)]
    assert grammar.check(found) == [] or not isinstance(found[-1], ls.Finish)
    return found


def kinds(found: list[ls.Event], *types: type) -> list[str]:
    return [type(event).__name__ for event in found if isinstance(event, types)]


async def test_run_goes_to_its_end(place: str, effects: Effects) -> None:
    async with Runs(place) as runs:
        run = runs.stream(clerk(effects), "order", PROMPT)
        found = [event async for event in run]
        assert grammar.check(found) == []
        assert (run.state, run.text, run.finish_reason) == ("done", ANSWER, "stop")
        assert [message.text for message in run.messages()][-1] == ANSWER
        status = await runs.status("order")
        assert status is not None
        assert status.usage == run.total_usage
        assert status.usage.output_tokens


async def test_same_id_does_nothing_twice(place: str, effects: Effects) -> None:
    async with Runs(place) as runs:
        first = [event async for event in runs.stream(clerk(effects), "order", PROMPT)]
        done = effects.path.read_text()
        assert [event async for event in runs.stream(clerk(effects), "order", PROMPT)] == first
        assert effects.path.read_text() == done


async def test_decision_while_nobody_runs(place: str, effects: Effects) -> None:
    """Each part in another `Runs`, as in another process; the log is one sentence without a retry."""
    async with Runs(place) as runs:
        run = runs.stream(clerk(effects, approval=True), "order", PROMPT)
        assert not isinstance([event async for event in run][-1], ls.Finish)
        assert run.state == "waiting"
        (call,) = run.pending
        assert call.name == "pay"
    async with Runs(place) as runs:
        (info,) = await runs.list(state="waiting")
        assert info.pending == (call,)
        await runs.decide("order", {call.approval_id: True})
        with pytest.raises(InvalidRequest, match="before"):
            await runs.decide("order", {call.approval_id: False})
    async with Runs(place) as runs:
        assert await runs.resume({"clerk": clerk(effects, approval=True)}, once=True) == 1
        found = await read(runs, clerk(effects))
        assert isinstance(found[-1], ls.Finish)
        assert kinds(found, RetryNotice) == []
        assert len(kinds(found, ls.ToolApprovalRequest)) == 1
        assert effects.lines("tool")[-1] == "order/1/call/call_1_0"
        assert len(effects.lines("tool")) == len(effects.lines("asked")) == 3


async def test_message_reaches_the_next_step(place: str, effects: Effects) -> None:
    async with Runs(place) as runs:
        run = runs.stream(clerk(effects, approval=True), "order", PROMPT)
        _ = [event async for event in run]
        await runs.send("order", "And be quick.")
        await runs.decide("order", {run.pending[0].approval_id: True})
        again = runs.stream(clerk(effects, approval=True), "order")
        _ = [event async for event in again]
        assert [m.text for m in again.messages() if m.role == "user"] == [PROMPT, "And be quick."]
        with pytest.raises(InvalidRequest, match="over"):
            await runs.send("order", "Too late.")


async def test_waiting_run_can_be_stopped(place: str, effects: Effects) -> None:
    async with Runs(place) as runs:
        run = runs.stream(clerk(effects, approval=True), "order", PROMPT)
        _ = [event async for event in run]
        assert await runs.stop("order")
        assert not await runs.stop("order")
        again = runs.stream(clerk(effects, approval=True), "order")
        with pytest.raises(Stopped):
            _ = [event async for event in again]
        assert again.state == "stopped"


async def test_reader_takes_over_from_the_dead(place: str, effects: Effects) -> None:
    """A process left the run in its middle; who streams it goes on with it."""
    async with Runs(place, lease_s=0.2) as runs:
        await runs.submit("clerk", "order", PROMPT)
        assert await runs._store.claim("order", "dead", 0.2) is not None
        run = runs.stream(clerk(effects), "order")
        found = [event async for event in run]
        assert grammar.check(found) == []
        assert (run.state, run.text) == ("done", ANSWER)
