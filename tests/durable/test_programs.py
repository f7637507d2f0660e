"""Random agents on a fleet whose workers are killed, stopped and woken at random times.

Some workers have a newer version of the agents. Each run ends as one that nobody disturbs: with the same
conversation and tokens, no tool twice, and one log for all readers. The quick form has fixed programs; the
full one has new ones: `scripts/drills programs`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from llmstream import grammar
from llmstream.agent.recorder import INTERRUPTED
from llmstream.chats import Message
from llmstream.durable import RunInfo, Runs
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.events import ErrorEvent, Event, Finish, Usage
from tests.durable.clerk import Effects
from tests.durable.processes import LEASE_S, Process, Processes, forked
from tests.durable.programs import EXTRA, PROMPT, Program, agents_of, pause, program_of
from tests.durable.test_kills import SWEEP
from tests.progress import Progress

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked"),
]

WORKERS = 3
AT_ONCE = 8
END_S = 240.0  # of a run in the middle of 200, on a machine with other work
REJECTED = "rejected for the reason"


async def answer_all(runs: Runs, info: RunInfo) -> None:
    """Decides about all calls that wait, always in the same way."""
    decisions: dict[str, bool] = {}
    results: dict[str, Any] = {}
    for call in info.pending:
        if call.approval_id:
            decisions[call.approval_id] = not call.arguments.endswith("1}")
        else:
            results[call.call_id] = f"from elsewhere for {call.arguments}"
    # Another person may have been quicker.
    with contextlib.suppress(InvalidRequest):
        await runs.decide(info.run, decisions, results=results)


def conversation(messages: list[Message]) -> list[Any]:
    """What is compared: roles, texts, calls and results."""
    found: list[Any] = []
    for message in messages:
        calls = [(call.name, call.arguments) for call in message.tool_calls]
        results = [(each.content, each.is_error) for each in message.tool_results]
        found.append((message.role, message.text, calls, results))
    return found


@dataclass
class Undisturbed:
    """How a run ends that nobody disturbs."""

    info: RunInfo
    messages: list[Message]


async def undisturbed(folder: Path, seeds: list[int]) -> dict[int, Undisturbed]:
    agents = agents_of(seeds, Effects(folder / "alone"))

    async def one(runs: Runs, seed: int) -> Undisturbed:
        while True:
            run = runs.stream(agents[f"program-{seed}"], f"run-{seed}", PROMPT)
            with contextlib.suppress(LLMStreamError):
                await run.collect()
            info = await runs.status(run.id)
            assert info is not None
            if info.is_over:
                return Undisturbed(info, run.messages())
            await answer_all(runs, info)

    async with Runs(f"sqlite:{folder / 'alone.db'}", lease_s=60) as runs:
        return dict(zip(seeds, await asyncio.gather(*(one(runs, seed) for seed in seeds)), strict=True))


@dataclass
class Disturbed:
    """One run of the fleet, and what was done to it."""

    seed: int
    dice: random.Random
    sent: list[str] = field(default_factory=list)
    seen: list[tuple[int, Event]] = field(default_factory=list)
    stopped: bool = False

    @property
    def id(self) -> str:
        return f"run-{self.seed}"

    @property
    def agent(self) -> str:
        return f"program-{self.seed}"

    @property
    def program(self) -> Program:
        return program_of(self.seed)


class Fleet:
    """Workers, persons and readers of random runs in one database."""

    def __init__(self, folder: Path, processes: Processes, address: str, seeds: list[int]) -> None:
        self.effects = Effects(folder / "effects")
        self.kills = self.sleeps = 0
        self._processes = processes
        self._job = {"address": address, "effects": str(self.effects.path), "seeds": seeds}
        self._living = list[Process]()
        self._sleeping = list[tuple[float, Process]]()
        self._sqlite = address.startswith("sqlite:")

    async def fill(self) -> None:
        """Starts workers: some with a wrong clock or a newer version, some that leave by themselves."""
        self._living = [worker for worker in self._living if not worker.end.done()]
        while len(self._living) < WORKERS:
            clock_s = random.choice([0, 0, 3600, -3600]) if self._sqlite else 0
            seconds = random.choice([600, 600, random.uniform(0.2, 3)])
            job = {**self._job, "newer": random.choice([False, True])}
            self._living.append(await self._processes.start(seconds=seconds, clock_s=clock_s, **job))

    async def read(self, run: Disturbed) -> None:
        """Lets a process read a run, which may then also produce it."""
        started = await self._processes.start(
            **{**self._job, "run": run.id, "reads": run.agent, "after": random.choice([-1, 0, 5])},
            newer=random.choice([False, True]),
        )
        self._living.append(started)

    async def disturb(self) -> None:
        """Kills a worker, puts one to sleep, or wakes those that have slept past their leases."""
        now = asyncio.get_running_loop().time()
        for until, worker in [each for each in self._sleeping if each[0] <= now]:
            self._sleeping.remove((until, worker))
            if random.random() < 0.2:
                await worker.kill()
            elif not worker.end.done():
                worker.wake()
                self._living.append(worker)
        if not self._living:
            return
        worker = random.choice(self._living)
        if random.random() < 0.6:
            self._living.remove(worker)
            await worker.kill()
            self.kills += 1
        elif not worker.end.done() and len(self._sleeping) < 2:
            self._living.remove(worker)
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid.result(), signal.SIGSTOP)
            self._sleeping.append((now + random.uniform(0.2, 4) * LEASE_S, worker))
            self.sleeps += 1

    async def calm(self) -> None:
        """Wakes all sleepers."""
        for _, worker in self._sleeping:
            if not worker.end.done():
                worker.wake()
            self._living.append(worker)
        self._sleeping.clear()


async def read_along(runs: Runs, run: Disturbed) -> None:
    """Reads the events of a run as a browser does that loses its connection now and then."""
    while True:
        left = run.dice.randint(1, 40)
        after = run.seen[-1][0] if run.seen else -1
        async with aclosing(events_of(runs, run.id, after)) as events:
            async for each in events:
                run.seen.append(each)
                left -= 1
                if not left:
                    break
            else:
                return
        await pause(0.3)


async def events_of(runs: Runs, run: str, after: int = -1) -> AsyncGenerator[tuple[int, Event]]:
    """The events of a run until its end; the error of a failed run is one of them."""
    async with aclosing(runs.logs.follow(run, after=after, wait_s=END_S)) as events:
        try:
            async for each in events:
                yield each
        except LLMStreamError as error:
            status = await runs.logs.status(run)
            if status is None or status.state not in ("failed", "stopped"):
                raise error


async def interfere(runs: Runs, run: Disturbed) -> None:
    """Sends messages, or stops the run, at random times."""
    if run.seed % 5 == 1:
        for number in range(run.dice.randint(1, 3)):
            await asyncio.sleep(run.dice.uniform(0, 2))
            text = f"{EXTRA} {number}"
            try:
                await runs.send(run.id, text)
            except InvalidRequest:
                return
            run.sent.append(text)
    elif run.seed % 11 == 3:
        await asyncio.sleep(run.dice.uniform(0, 3))
        run.stopped = await runs.stop(run.id)


async def lived(runs: Runs, run: Disturbed, room: asyncio.Semaphore, fleet: Fleet) -> None:
    """Submits a run, and answers what it waits for, until it has ended for all readers."""
    async with room:
        await runs.submit(run.agent, run.id, PROMPT)
        reader = asyncio.create_task(read_along(runs, run))
        other = asyncio.create_task(interfere(runs, run))
        try:
            async with asyncio.timeout(END_S):
                while not ((info := await runs.status(run.id)) and info.is_over):
                    assert info is not None
                    if info.state == "waiting" and not info.ready:
                        await answer_all(runs, info)
                    if run.dice.random() < 0.02:
                        await fleet.read(run)
                    await asyncio.sleep(run.dice.uniform(0, 0.4))
                await reader
                await other
        except TimeoutError:
            pytest.fail(f"{run.id} does not end: {info}, its log is {await runs.logs.status(run.id)}")
        finally:
            reader.cancel()
            other.cancel()


async def check_run(runs: Runs, run: Disturbed, alone: Undisturbed, effects: Effects) -> None:
    """The run has ended as one that nobody disturbs."""
    pages = [each async for each in events_of(runs, run.id)]
    events = [event for _, event in pages]
    assert [seq for seq, _ in pages] == list(range(len(pages)))
    assert run.seen == pages, "a reader saw other events"
    assert grammar.check(events) == []
    ran = Counter(key for key in effects.lines("tool") if key.startswith(run.id + "/"))
    differences = effects.lines("differs")
    assert not [each for each in differences if each.startswith((f"run {run.id}:", f"run {run.id}/"))]
    assert set(ran.values()) <= {1}, {key: count for key, count in ran.items() if count > 1}
    info, log = await runs.status(run.id), await runs.logs.status(run.id)
    assert info is not None
    assert log is not None
    (listed,) = [each for each in await runs.list(limit=1000) if each.run == run.id]
    used = {model: usage for model, usage in listed.usage_by_model.items() if usage != Usage()}
    assert used == {model: usage for model, usage in info.usage_by_model.items() if usage != Usage()}
    assert (listed.state, listed.text, listed.error) == (info.state, info.text, info.error)
    if info.cost_estimate is not None:
        assert listed.cost_estimate == pytest.approx(info.cost_estimate)
    states = {"done": "closed", "failed": "failed", "stopped": "stopped"}
    assert log.state == states[info.state]
    last = events[-1]
    assert isinstance(last, Finish)
    failure = [event.error for event in events if isinstance(event, ErrorEvent)]
    if info.state == "failed":
        assert info.error == (failure[-1].code, failure[-1].message)
    if info.state != "stopped":
        assert last.usage == info.usage
        assert last.finish_reason == (info.finish_reason or "error")
    follower = runs.follow(run.id)
    with contextlib.suppress(LLMStreamError):
        await follower.collect()
    messages = follower.messages()
    if run.stopped or info.state == "stopped":
        assert info.state in ("stopped", alone.info.state)
        return
    assert info.state == alone.info.state, (info, alone.info)
    if run.program.effects != "lasting summary":
        texts = [message.text for message in messages]
        for text in run.sent:
            assert texts.count(text) == 1, f"{text} is in the history {texts.count(text)} times"
    if not run.sent:
        interrupted = INTERRUPTED in str(events) or INTERRUPTED in str(messages)
        check_conversation(run, messages, info, alone, interrupted)


def check_conversation(
    run: Disturbed, messages: list[Message], info: RunInfo, alone: Undisturbed, interrupted: bool
) -> None:
    """Like the one of the undisturbed run, but for calls that were interrupted."""
    found, expected = conversation(messages), conversation(alone.messages)
    if "summary" in run.program.effects or (run.program.helper is not None and interrupted):
        assert len(found) == len(expected) or interrupted
        return
    if run.program.max_cost and interrupted:
        return  # a longer result costs more
    for one, other in zip(found, expected, strict=True):
        assert one[:3] == other[:3]
        for mine, its in zip(one[3], other[3], strict=True):
            # An eager call of a response that a hook rejects may have ended before.
            texts = (mine[0], its[0])
            ended = any(REJECTED in text for text in texts) and any(
                text.endswith("fetched") for text in texts
            )
            assert mine == its or ended or mine[0].startswith(INTERRUPTED), (mine, its)
    assert info.text == alone.info.text
    if not interrupted and not _summarises(run.program):
        assert info.usage_by_model == alone.info.usage_by_model
        assert info.cost_estimate == pytest.approx(alone.info.cost_estimate)


def _summarises(program: Program) -> bool:
    """Whether a process asks for summaries, which it remembers, and the next one does not."""
    return "summary" in program.effects or (program.helper is not None and _summarises(program.helper))


async def drill(folder: Path, processes: Processes, address: str, seeds: list[int], dice: int) -> None:
    """Gives all runs to a fleet and disturbs it until they have ended."""
    expected = await undisturbed(folder, seeds)
    fleet, room = Fleet(folder, processes, address, seeds), asyncio.Semaphore(AT_ONCE)
    progress = Progress(f"programs on {address.partition(':')[0]}", len(seeds))
    runs_of = [Disturbed(seed, random.Random(f"{dice}/{seed}")) for seed in seeds]
    async with Runs(address, lease_s=LEASE_S) as runs:
        tasks = [asyncio.create_task(lived(runs, run, room, fleet)) for run in runs_of]
        left = len(tasks)
        while pending := [task for task in tasks if not task.done()]:
            await fleet.fill()
            await asyncio.wait(pending, timeout=random.uniform(0.1, 0.7))
            await fleet.disturb()
            progress.step(f"{fleet.kills} killed", count=left - len(pending))
            left = len(pending)
        await fleet.calm()
        failed = list[BaseException]()
        for run, task in zip(runs_of, tasks, strict=True):
            try:
                await task
                await check_run(runs, run, expected[run.seed], fleet.effects)
            except (Exception, pytest.fail.Exception) as error:
                error.add_note(f"run {run.id}: {run.program}, sent {run.sent}, stopped {run.stopped}")
                failed.append(error)
    print(f"{len(seeds)} runs over {fleet.kills} kills, {fleet.sleeps} sleeps, {len(failed)} failed")
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {len(seeds)} runs failed", failed)


async def test_random_agents_on_a_fleet(tmp_path: Path, make_place: Callable[[], str]) -> None:
    first = int(os.environ.get("DURABLE_SEED", 0 if not SWEEP else random.randrange(10**6)))
    count = int(os.environ.get("DURABLE_COUNT", 200 if SWEEP else 12))
    async with forked() as processes:
        await drill(tmp_path, processes, make_place(), list(range(first, first + count)), first)
