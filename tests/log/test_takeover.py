"""A run whose producer died is continued in the same log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.events import RetryNotice, StepFinish, StepStart
from llmstream.log import Logs, MemoryStore
from tests.log.sources import Gated, answer, followed, told


class Clock:
    """The clock of a store, moved by the test."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def steps(count: int) -> list[ls.Event]:
    """A run of an agent: each step but the last calls a tool. Ids repeat from run to run."""
    found: list[ls.Event] = [ls.StreamStart()]
    for n in range(count):
        found += [
            StepStart(n),
            ls.TextStart(f"t{n}"),
            ls.TextDelta(f"step {n}", f"t{n}"),
            ls.TextEnd(f"t{n}"),
        ]
        if n < count - 1:
            found += [
                ls.ToolInputStart("tool", f"c{n}"),
                ls.ToolInputDelta("{}", f"c{n}"),
                ls.ToolInputEnd(f"c{n}"),
                ls.ToolCall("tool", "{}", f"c{n}"),
                StepFinish(n, "tool-calls", ls.Usage(1, 1, 2)),
                ls.ToolResult("done", f"c{n}", "tool"),
            ]
        else:
            found += [StepFinish(n, "stop", ls.Usage(1, 1, 2))]
    return [*found, ls.Finish("stop", ls.Usage(count, count, 2 * count))]


async def cut_off(store: MemoryStore, clock: Clock, events: list[ls.Event]) -> None:
    """Leaves a log whose producer died after these events."""
    logs = ls.open_logs(store, lease_s=10)
    never = asyncio.Event()

    async def source():
        for event in events:
            yield event
        await never.wait()

    await logs.start("answer", source(), takeover_s=600)
    while (status := await logs.status("answer")) is None or status.tail < len(events) - 1:
        await asyncio.sleep(0.001)
    opened = logs._opening.result()
    (live,) = opened.lives
    for task in [*opened._tasks, opened.committer._task]:  # what kill -9 does
        task.cancel()
    opened.committer._timer.cancel()
    live.task.remove_done_callback(live._done)
    live.task.cancel()
    clock.now += 11


@pytest.fixture
async def take_over():
    clock = Clock()
    store = MemoryStore(clock=clock)

    async def run(before: list[ls.Event], after: list[ls.Event], kind: str) -> list[ls.Event]:
        await cut_off(store, clock, before)
        async with ls.open_logs(store) as logs:
            reader = asyncio.ensure_future(followed(logs, "answer"))
            live = await logs.start("answer", told(after), take_over=kind)
            assert await live.wait() == "closed"
            status = await logs.status("answer")
            assert status is not None
            await logs.delete("answer")
            found = await reader
            assert found[: len(before)] == before
            return found

    return run


Run = Callable[[list[ls.Event], list[ls.Event], str], "asyncio.Future[list[ls.Event]]"]


def of_kind(found: list[ls.Event], kind: type) -> list[ls.Event]:
    return [event for event in found if type(event) is kind]


@pytest.mark.parametrize("at", range(1, len(steps(3))))
async def test_repeated_at_every_event(take_over, at: int) -> None:
    """Cut after any event: the log is valid, and what is not void is each step once."""
    found = await take_over(steps(3)[:at], steps(3), "repeat")
    assert grammar.check(found) == []
    assert found[-1] == steps(3)[-1]
    assert valid_texts(found) == ["step 0", "step 1", "step 2"]
    results = [event.tool_call_id for event in of_kind(found, ls.ToolResult)]
    assert len(results) == len(set(results))
    calls = [event.tool_call_id for event in of_kind(found, ls.ToolCall)]
    assert set(results) <= set(calls)


@pytest.mark.parametrize("at", range(1, len(steps(3))))
async def test_continued_at_every_event(take_over, at: int) -> None:
    """The rest gets the next step numbers, every call one result, and the tokens are added."""
    before = steps(3)[:at]
    done = len(of_kind(before, StepFinish))
    if isinstance(before[-1], StepFinish) and done == 3:
        return  # nothing is left to continue
    found = await take_over(before, steps(3 - done), "continue")
    assert grammar.check(found) == []
    texts = [f"step {n}" for n in range(done)] + [f"step {n}" for n in range(3 - done)]
    assert valid_texts(found) == texts
    assert isinstance(found[-1], ls.Finish)
    assert found[-1].usage.total_tokens == 6
    kept = [event.step for event in of_kind(found, StepFinish)]
    assert kept == [0, 1, 2]
    calls = [event.tool_call_id for event in of_kind(found, ls.ToolCall)]
    results = [event.tool_call_id for event in of_kind(found, ls.ToolResult)]
    void = len(calls) - len(results)
    assert set(results) <= set(calls)
    assert void in (0, 1)  # the call of a step that is void has none


def valid_texts(found: list[ls.Event]) -> list[str]:
    """The texts of the steps that no retry declares void."""
    texts: dict[int, list[str]] = {}
    step = 0
    for event in found:
        match event:
            case StepStart(step):
                texts.setdefault(step, [])
            case RetryNotice(discard_step=void):
                texts[void] = []
            case ls.TextDelta(text):
                texts.setdefault(step, []).append(text)
    return ["".join(texts[step]) for step in sorted(texts)]


async def test_a_response_is_taken_over(take_over) -> None:
    whole = [event for event in answer(5) if not isinstance(event, StepStart | StepFinish)]
    for kind in ("repeat", "continue"):
        found = await take_over(whole[:4], whole, kind)
        assert [type(event) for event in found[4:6]] == [ls.TextEnd, RetryNotice]
        assert isinstance(found[6], ls.TextStart)
        assert found[6].id.startswith("t~")


async def test_finished_run_lacks_its_end(take_over) -> None:
    assert await take_over(answer(5), answer(7), "repeat") == answer(5)


async def test_a_living_run_is_not_taken_over() -> None:
    async with ls.open_logs("memory:", lease_s=0.2) as logs:
        never = asyncio.Event()

        async def source():
            yield ls.StreamStart()
            await never.wait()

        await logs.start("answer", source())
        with pytest.raises(ls.RunExists, match="is being produced"):
            await logs.start("answer", told(answer(1)), take_over="repeat")


async def test_one_process_takes_its_run_over(caplog: pytest.LogCaptureFixture) -> None:
    """It had lost the lease without knowing; the old producer is fenced off, the new one is not."""
    clock = Clock()
    async with ls.open_logs(MemoryStore(clock=clock)) as logs:
        old = Gated(answer(5), 4)
        first = await logs.start("answer", old, takeover_s=600)
        while (status := await logs.status("answer")) is None or status.tail < 3:
            await asyncio.sleep(0.001)
        clock.now += 11
        new = Gated(answer(5), 4)
        second = await logs.start("answer", new, take_over="repeat", takeover_s=600)
        old.gate.set()
        with pytest.raises(ls.Fenced):
            await first.wait()
        new.gate.set()
        assert await second.wait() == "closed"
        assert (await followed(logs, "answer"))[-1] == answer(5)[-1]


async def test_a_new_run_needs_no_takeover() -> None:
    async with ls.open_logs("memory:") as logs:
        await logs.start("answer", told(answer(5)), take_over="continue")
        assert await followed(logs, "answer") == answer(5)
        with pytest.raises(ls.InvalidRequest, match="either replaced or taken over"):
            await logs.start("answer", told([]), take_over="continue", replace=True)


async def test_readers_wait_for_a_takeover(address: str) -> None:
    """Past the lease they do not close the run while another producer may come."""
    async with ls.open_logs(address) as logs:
        assert isinstance(logs, Logs)
        await logs.start("answer", told(answer(5)[:4], 0.0), takeover_s=600)
        status = await logs.status("answer")
        assert status is not None
        assert status.lost_at - status.lease_until == pytest.approx(600)
