"""Three steps with calls side by side, over real sockets in each dialect, broken off wherever they can be."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import cache
from typing import Any

import pytest

import llmstream as ls
from llmstream.dialects.base import Dialect
from llmstream.providers.base import Provider
from llmstream.providers.registry import find_provider
from llmstream.server_side.wires import server_side
from llmstream.simulator import Call, Simulator, Turn
from llmstream.testing import no_leaks
from llmstream.transport.sessions import current_session
from tests.cancelling import CancelledAt

pytestmark = pytest.mark.slow

PROVIDERS = [
    "sim",
    "sim-anthropic",
    "sim-bedrock",
    "sim-cohere",
    "sim-gemini",
    "sim-gemini-interactions",
    "sim-mistral",
    "sim-ollama",
    "sim-openai-responses",
]
HANGS = 0.005
"""Seconds after which a tool that hangs is timed out."""


class ThreeSteps:
    """Asks for four calls, then for two, then says that it is done; and answers a second question."""

    def turn(self, request: ls.Request, number: int) -> Turn:
        if request.messages[-1].text.endswith("Go on."):  # some wires join neighbours
            return Turn(text="Here I am.")
        asked = sum(bool(message.tool_calls) for message in request.messages)
        calls = [Call("plain", {"n": 1}), Call("early", {"n": 2}), Call("steps", {"n": 3}), Call("asked")]
        turns = [Turn(text="One.", calls=tuple(calls)), Turn(calls=tuple(calls[:2])), Turn(text="Done.")]
        return turns[min(asked, 2)]


class Server:
    """The simulator in a thread with a loop of its own, so that every task in ours is ours."""

    def __init__(self, dialect: Dialect) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._simulator = Simulator(ThreeSteps(), dialects=[dialect])
        self._do(self._simulator.start())
        self.url = self._simulator.url

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def close(self) -> None:
        self._do(self._simulator.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module", params=PROVIDERS)
def model(request: pytest.FixtureRequest) -> Iterator[Callable[[], ls.Model]]:
    """Makes models of one dialect whose server is there."""
    sim: Any = find_provider(request.param)
    server = Server(sim.dialect)
    provider = Provider(
        name=sim.name, dialect=sim.dialect, base_url=server.url + sim.path, key_required=False
    )
    yield lambda: ls.Model(f"{sim.name}:m", provider=provider)
    server.close()


@cache
def every_dialect() -> list[Dialect]:
    return [find_provider(name).dialect for name in PROVIDERS]


class Workshop:
    """Tools that wait three times and clean up; `name` misbehaves in `how` at its nth place, in one step."""

    def __init__(self, name: str = "", how: str = "", place: int = 0, step: int = 0) -> None:
        self.open = 0
        self.hanging = asyncio.Event()
        self._wrong = (name, how, place, step)

    async def _busy(self, name: str, step: int) -> None:
        wrong, how, at, when = self._wrong
        self.open += 1
        try:
            for place in range(3):
                if (name, place, step) == (wrong, at, when):
                    await self._misbehave(how)
                await asyncio.sleep(0)
        finally:
            try:
                await asyncio.sleep(0)
            finally:
                self.open -= 1

    async def _misbehave(self, how: str) -> None:
        if how == "fail":
            raise OSError("gone")
        self.hanging.set()
        await asyncio.Event().wait()

    def tools(self) -> list[ls.Tool]:
        timeout_s = HANGS if self._wrong[1] == "time out" else None

        @ls.tool(timeout_s=timeout_s)
        async def plain(n: int, context: ls.ToolContext) -> int:
            await self._busy("plain", context.step)
            return n

        @ls.tool(eager=True, timeout_s=timeout_s)
        async def early(n: int, context: ls.ToolContext) -> int:
            await self._busy("early", context.step)
            return n

        @ls.tool(timeout_s=timeout_s)
        async def steps(n: int, context: ls.ToolContext) -> AsyncIterator[int]:
            for i in range(n):
                await self._busy("steps", context.step)
                yield i

        @ls.tool(needs_approval=True, sequential=True, timeout_s=timeout_s)
        async def asked(context: ls.ToolContext) -> str:
            await self._busy("asked", context.step)
            return "agreed"

        return [plain, early, steps, asked]


def agent(model: ls.Model, workshop: Workshop) -> ls.Agent:
    async def approve(pending: object) -> bool:
        await asyncio.sleep(0)
        return True

    return ls.Agent(model, tools=workshop.tools(), approve=approve)


async def driven(work: Coroutine[Any, Any, None], place: int = 0) -> tuple[bool, int]:
    """Whether the work was cancelled at this place, and how many places it has."""
    driver = CancelledAt(work, place)

    async def drive() -> None:
        await driver

    task = asyncio.create_task(drive())
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return task.cancelled(), driver.reached


async def read(run: ls.agent.AgentRun) -> None:
    async with run:
        async for _ in run:
            await asyncio.sleep(0)  # a reader that waits too, at every event


async def assert_nothing_is_left(workshop: Workshop, where: object) -> None:
    assert asyncio.all_tasks() == {asyncio.current_task()}, f"a task is left after {where}"
    assert workshop.open == 0, f"a tool is left open after {where}"
    connector: Any = (await current_session()).connector
    assert not connector._acquired, f"a socket is open after {where}"


def assert_whole(messages: list[ls.Message], where: object) -> None:
    """Every call has exactly one result, in call order, in the message behind it."""
    for at, message in enumerate(messages):
        ids = [call.id for call in message.tool_calls]
        assert len(set(ids)) == len(ids), where
        if ids:
            assert [r.tool_call_id for r in messages[at + 1].tool_results] == ids, where
        if message.role == "tool":
            assert messages[at - 1].tool_calls, where


def assert_every_dialect_takes(messages: list[ls.Message], where: object) -> None:
    """Encoded and read as a server reads it, nothing refused: the same calls and as many results."""
    asked = ls.Request(model="m", messages=(*messages, ls.Message.user("Go on.")))
    count = sum(len(message.tool_calls) for message in messages)
    for dialect in every_dialect():
        found = server_side(dialect).decode_request(dialect.encode(asked, provider="x").http)
        calls = [call.id for message in found.messages for call in message.tool_calls]
        results = [result.tool_call_id for message in found.messages for result in message.tool_results]
        assert len(calls) == count, (dialect.name, where)
        assert sorted(calls) == sorted(results), (dialect.name, where)


async def assert_goes_on(model: ls.Model, messages: list[ls.Message], where: object) -> None:
    """The next step works, over the wire."""
    again = ls.Agent(model).stream([*messages, ls.Message.user("Go on.")])
    assert (await again.collect()).text == "Here I am.", where


def shape(messages: list[ls.Message]) -> str:
    """What a history says, whatever its ids are."""
    return repr([[getattr(p, "text", getattr(p, "content", p.part_kind)) for p in m.parts] for m in messages])


async def test_a_run_is_cancelled_at_every_await(model: Callable[[], ls.Model]) -> None:
    seen: set[str] = set()
    async with no_leaks():
        for place in itertools.count(1):
            workshop = Workshop()
            run = agent(model(), workshop).stream("Go")
            cancelled, places = await driven(read(run), place)
            await assert_nothing_is_left(workshop, place)
            messages = run.messages()
            assert_whole(messages, place)
            if shape(messages) not in seen:
                seen.add(shape(messages))
                assert_every_dialect_takes(messages, place)
                await assert_goes_on(model(), messages, place)
            if not cancelled and places < place:
                break
    assert run.text == "Done."
    assert len(seen) > 5
    assert place > 25


@pytest.mark.parametrize("how", ["fail", "hang", "time out"])
async def test_each_tool_fails_at_each_await(model: Callable[[], ls.Model], how: str) -> None:
    seen: set[str] = set()
    async with no_leaks():
        for name, step in [
            ("plain", 0),
            ("early", 0),
            ("steps", 0),
            ("asked", 0),
            ("plain", 1),
            ("early", 1),
        ]:
            for place in range(3):
                where = (name, how, place, step)
                workshop = Workshop(*where)
                run = agent(model(), workshop).stream("Go")
                if how == "hang":
                    reading = asyncio.create_task(read(run))
                    await workshop.hanging.wait()
                    reading.cancel()
                    await asyncio.wait([reading])
                else:
                    assert (await run.collect()).text == "Done.", where
                    assert any(status.error for status in run.statuses), where
                await assert_nothing_is_left(workshop, where)
                messages = run.messages()
                assert_whole(messages, where)
                if shape(messages) not in seen:
                    seen.add(shape(messages))
                    assert_every_dialect_takes(messages, where)
                    await assert_goes_on(model(), messages, where)
    assert len(seen) >= 3
