"""A run cancelled at each of its await points: nothing is left running, and the history is whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import llmstream as ls
from llmstream.agent import Hooks
from llmstream.chats.content import ToolCall
from llmstream.dialects.base import DIALECTS, Dialect, dialect_class
from llmstream.server_side.wires import server_side
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from tests.cancelling import CancelledAt


class Workshop:
    """Tools that count what began and what was cleaned up."""

    def __init__(self) -> None:
        self.open = 0

    async def _busy(self) -> None:
        self.open += 1
        try:
            for _ in range(3):
                await asyncio.sleep(0)
        finally:
            try:
                await asyncio.sleep(0)
            finally:
                self.open -= 1

    def tools(self) -> list[ls.Tool]:
        @ls.tool
        async def plain(n: int) -> int:
            await self._busy()
            return n

        @ls.tool(eager=True)
        async def early(n: int) -> int:
            await self._busy()
            return n

        @ls.tool
        async def steps(n: int) -> AsyncIterator[int]:
            for i in range(n):
                await self._busy()
                yield i

        @ls.tool(needs_approval=True, sequential=True)
        async def asked(n: int) -> int:
            await self._busy()
            return n

        return [plain, early, steps, asked]


CALLS = (
    Call("early", {"n": 1}),
    Call("plain", {"n": 2}),
    Call("steps", {"n": 2}),
    Call("asked", {"n": 3}),
    Call("plain", {"m": 0}),
)


def made(workshop: Workshop) -> ls.Agent:
    async def approve(pending: object) -> bool:
        await asyncio.sleep(0)
        return True

    async def look(state: object, call: ToolCall) -> None:
        await asyncio.sleep(0)

    model = ScriptedModel(
        Turn(text="One.", calls=CALLS), Turn(calls=(Call("early", {"n": 5}), *CALLS)), "Done."
    )
    return ls.Agent(model, tools=workshop.tools(), approve=approve, hooks=Hooks(before_tool=look))


async def consume(run: ls.agent.AgentRun, held: bool) -> None:
    if held:
        async with run:
            async for _ in run:
                await asyncio.sleep(0)
    else:
        await run.collect()


def assert_whole(messages: list[ls.Message]) -> None:
    """Every call has exactly one result, in call order, in the message behind it."""
    for at, message in enumerate(messages):
        ids = [call.id for call in message.tool_calls]
        if ids:
            assert len(set(ids)) == len(ids)
            assert [r.tool_call_id for r in messages[at + 1].tool_results] == ids
        if message.role == "tool":
            assert messages[at - 1].tool_calls


def assert_accepted(dialect: Dialect, messages: list[ls.Message]) -> None:
    request = ls.Request(model="m", messages=(*messages, ls.Message.user("Go on.")))
    encoded = dialect.encode(request, provider="x")
    read = server_side(dialect).decode_request(encoded.http)
    calls = [call.id for message in read.messages for call in message.tool_calls]
    results = [result.tool_call_id for message in read.messages for result in message.tool_results]
    assert len(calls) == len(results) == sum(len(m.tool_calls) for m in messages)
    assert sorted(calls) == sorted(results)


async def cancelled_run(held: bool, *places: int) -> tuple[bool, ls.agent.AgentRun]:
    """Whether it was cancelled, and the run."""
    workshop = Workshop()
    run = made(workshop).stream("Go")
    driver = CancelledAt(consume(run, held), *places)

    async def drive() -> None:
        await driver

    task = asyncio.create_task(drive())
    await asyncio.wait([task])
    assert asyncio.all_tasks() == {asyncio.current_task()}, f"a task is left after a cancellation at {places}"
    assert workshop.open == 0
    if task.cancelled():
        return True, run
    task.result()
    return driver.reached >= places[0], run


@pytest.mark.parametrize("held", [False, True])
async def test_cancelled_run_leaves_nothing_open(held: bool) -> None:
    """Cancelled at any await; the history stays complete."""
    place, seen = 0, list[list[ls.Message]]()
    while True:
        place += 1
        cancelled, run = await cancelled_run(held, place)
        messages = run.messages()
        assert_whole(messages)
        if not cancelled:
            break
        if messages not in seen:
            seen.append(messages)
    assert place > 40
    assert run.text == "Done."
    assert len(seen) > 5
    for messages in seen:
        again = ls.Agent(ScriptedModel("Here I am."))
        assert (await again.run(messages)).text == "Here I am."


async def test_twice_cancelled_run_leaves_nothing() -> None:  # RELIABILITY 37
    for place in range(1, 120, 3):
        for later in (1, 2):
            cancelled, run = await cancelled_run(False, place, place + later)
            assert_whole(run.messages())
            if not cancelled:
                return


@pytest.mark.parametrize("name", DIALECTS)
async def test_cancelled_history_fits_each_dialect(name: str) -> None:
    dialect = dialect_class(name)()
    for place in range(1, 200, 4):
        cancelled, run = await cancelled_run(False, place)
        assert_accepted(dialect, run.messages())
        if not cancelled:
            return


@pytest.mark.parametrize("how", ["fail", "hang", "cancel"])
@pytest.mark.parametrize("place", range(4))
async def test_next_step_works_after_bad_tool_end(how: str, place: int) -> None:
    """The tool fails, hangs or is cancelled at any await."""

    @ls.tool(timeout_s=0.02)
    async def odd() -> None:
        for _ in range(place):
            await asyncio.sleep(0)
        if how == "fail":
            raise OSError("gone")
        if how == "hang":
            await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    workshop = Workshop()
    model = ScriptedModel(Turn(calls=(Call("odd"), Call("plain", {"n": 1}), Call("odd"))), "Done.")
    run = ls.Agent(model, tools=[odd, *workshop.tools()]).stream("Go")
    assert (await run.collect()).text == "Done."
    assert_whole(run.messages())
    assert [r.is_error for r in run.messages()[2].tool_results] == [True, False, True]
    assert len(asyncio.all_tasks()) == 1


async def test_prompt_with_open_calls_is_repaired() -> None:
    calls = [ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}")]
    prompt = [
        ls.Message.user("Go"),
        ls.Message.assistant(*calls),
        ls.Message.tool([ls.chats.ToolResult("b", "seen", name="look")]),
        ls.Message.user("And?"),
        ls.Message.assistant(ToolCall("a", "look", "{}")),
    ]
    run = ls.Agent(ScriptedModel("Done.")).stream(prompt)
    await run.collect()
    messages = run.messages()
    assert_whole(messages)
    assert [r.is_error for m in messages for r in m.tool_results] == [True, False, True]


@pytest.mark.parametrize("spec", ["sim:demo", "sim-anthropic:demo", "sim-ollama:demo"])
async def test_run_cancelled_over_http_is_resumed(spec: str) -> None:
    tools = Workshop().tools()[:1]
    for place in (1, 4, 8, 12, 16):
        run = ls.Agent(spec, tools=tools).stream("Count, please.")

        async def read(run: ls.agent.AgentRun = run, place: int = place) -> None:
            count = 0
            async for _ in run:
                count += 1
                if count == place:
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                    await asyncio.sleep(0)

        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(read())
        assert_whole(run.messages())
        again = ls.Agent(spec, tools=tools).stream([*run.messages(), ls.Message.user("Again.")])
        assert (await again.collect()).text
        assert again.error is None
