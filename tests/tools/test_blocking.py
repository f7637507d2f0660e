"""An async tool that holds up the loop is named in the log."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest

import llmstream as ls
from llmstream.tools import blocking
from llmstream.tools.blocking import Watched


async def two_steps() -> str:
    await asyncio.sleep(0)
    return "done"


async def test_a_step_that_takes_long_is_logged_with_its_tool(caplog) -> None:
    times = iter([0.0, 0.1, 5.0, 6.0])  # the second step takes 1 s
    assert await Watched(two_steps(), "w", clock=lambda: next(times)) == "done"
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("the tool w blocked the event loop for 1.0 s. Write it as a plain `def`")


async def test_a_tool_that_waits_is_not(caplog) -> None:
    assert await Watched(two_steps(), "w", clock=lambda: 1.0) == "done"
    assert caplog.records == []


async def test_errors_and_cancellation_pass_through() -> None:
    cleaned = []

    async def hangs() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    async def outer() -> None:
        await Watched(hangs(), "w")

    task = asyncio.create_task(outer())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert cleaned == [True]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await Watched(asyncio.sleep(3600), "w")


@pytest.mark.parametrize("kind", ["coroutine", "generator"])
async def test_every_async_tool_is_watched(kind, caplog, monkeypatch) -> None:
    monkeypatch.setattr(blocking, "_HELD_S", 0.0)
    counted = itertools.count()

    async def works() -> str:
        return f"done {next(counted)}"

    async def yields() -> AsyncIterator[str]:
        yield f"done {next(counted)}"

    tool = ls.tool(works if kind == "coroutine" else yields)
    assert (await tool.run("{}")).content == "done 0"
    assert any(f"the tool {tool.name} blocked" in record.getMessage() for record in caplog.records)


async def test_a_result_that_cannot_be_sent_is_logged(caplog) -> None:
    class Inner:
        pass

    @ls.tool
    async def w() -> object:
        return Inner()

    outcome = await w.run("{}")
    assert outcome.error is not None
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("the tool w gave a Inner that cannot be sent: Encoding objects of type")


def test_a_parameter_without_a_type_is_refused() -> None:
    def w(x, y: int = 1):
        return x

    with pytest.raises(ls.InvalidRequest, match="tool w: the parameter x has no type"):
        ls.tool(w)
    with pytest.raises(ls.InvalidRequest, match="has no type"):
        ls.stream("sim:demo", "Hi", tools=[w])
