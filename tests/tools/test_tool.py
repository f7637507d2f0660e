"""A tool: options, one call, and a call that blocks the loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import llmstream as ls
from llmstream.errors import InvalidToolInput, ToolError, ToolTimeout
from llmstream.request import ToolSpec
from llmstream.testing import ScriptedModel
from llmstream.tools import Tool, ToolOutcome, tool, tool_from_function
from llmstream.tools.tool import Watched


async def test_sync_function_runs_in_a_thread() -> None:
    @tool
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert (await where.run("")).content == "false"


async def test_an_async_function_runs_in_the_loop() -> None:
    @tool
    async def where(n: int) -> list[int]:
        await asyncio.sleep(0)
        return [n, int(threading.current_thread() is threading.main_thread())]

    assert (await where.run('{"n":5}')).content == "[5,1]"


async def test_last_generator_value_is_the_result() -> None:
    closed = []

    @tool
    async def count(to: int) -> AsyncIterator[int]:
        try:
            for n in range(to):
                yield n
        finally:
            closed.append(True)

    seen: list[Any] = []
    assert (await count.run('{"to":3}', on_progress=seen.append)).content == "2"
    assert seen == [0, 1, 2]
    assert (await count.run('{"to":0}')).content == ""
    assert closed == [True, True]


async def test_sync_function_may_give_awaitable() -> None:
    async def inner() -> str:
        return "inner"

    assert (await tool_from_function(lambda: inner(), name="t").run("")).content == "inner"


async def test_a_callable_object_may_be_async() -> None:
    class Adder:
        async def __call__(self, a: int) -> int:
            return a + 1

    assert (await tool(Adder()).run('{"a":1}')).content == "2"


async def test_exceptions_are_results() -> None:  # S0.9, case 48, RELIABILITY 43
    @tool
    def fail(how: str) -> None:
        raise {"value": ValueError, "stop": StopIteration, "tool": ToolError}[how](f"{how} broke")

    assert (await fail.run('{"how":"value"}')).content == "ValueError: value broke"
    assert (await fail.run('{"how":"tool"}')).error == "tool broke"
    assert (await fail.run('{"how":"stop"}')).error is not None
    assert isinstance((await fail.run('{"how":"value"}')).exception, ValueError)


async def test_exception_group_is_a_result() -> None:
    @tool
    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(0)).add_done_callback(lambda _: None)
            raise ValueError("inside")

    assert "ExceptionGroup" in str((await group.run("")).error)


async def test_base_exceptions_pass_through() -> None:  # RELIABILITY 43
    class Halt(BaseException):
        pass

    @tool
    async def halt() -> None:
        raise Halt

    with pytest.raises(Halt):
        await halt.run("")


async def test_bad_arguments_run_no_function() -> None:  # case 49, RELIABILITY 34
    runs: list[int] = []

    @tool
    def act(n: int) -> None:
        runs.append(n)

    found = await act.run('{"n":"one"}')
    assert found.content.startswith("Invalid arguments for act: expected `int` at `n`; got `str`.")
    assert isinstance(found.exception, InvalidToolInput)
    assert runs == []


@pytest.mark.parametrize("sync", [True, False])
async def test_slow_tool_is_stopped_by_timeout(sync: bool) -> None:  # RELIABILITY 43
    release = threading.Event()

    async def slow_async() -> None:
        await asyncio.Event().wait()

    def slow_sync() -> None:
        release.wait(5)

    found = await tool(timeout_s=0.01, name="slow")(slow_sync if sync else slow_async).run("")
    release.set()
    assert found.error == "The tool slow was stopped after 0.01 s."
    assert isinstance(found.exception, ToolTimeout)


async def test_own_timeout_of_tool_is_its_error() -> None:
    @tool(timeout_s=60)
    async def inner() -> None:
        raise TimeoutError("database")

    found = await inner.run("")
    assert found.error == "TimeoutError: database"


async def test_cancelling_caller_cancels_the_tool() -> None:
    ended: list[str] = []
    started = asyncio.Event()

    @tool
    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    task = asyncio.create_task(wait.run(""))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cancelled"]


async def test_a_long_result_is_cut() -> None:  # RELIABILITY 44
    @tool(max_result_chars=5)
    def long() -> str:
        return "123456789"

    assert (await long.run("")).content == "12345\n[cut: the first 5 of 9 characters]"
    found = await tool(max_result_chars=5)(fails).run("")
    assert found.content.startswith("Value\n[cut")


def fails() -> None:
    raise ValueError("x")


async def test_unsendable_result_is_an_error() -> None:  # RELIABILITY 44
    @tool
    def give() -> object:
        return object()

    assert "cannot be sent" in str((await give.run("")).error)


async def test_foreign_schema_fills_keywords() -> None:
    async def call(**arguments: Any) -> Any:
        return arguments

    found = Tool(ToolSpec("remote", "", {"type": "object"}), call)
    assert await found.run('{"a-b":1}') == ToolOutcome('{"a-b":1}')
    assert (await found.run("")).content == "{}"
    assert "not a JSON object" in str((await found.run("[]")).error)


def test_tool_is_still_callable_as_function() -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, b=2) == 3
    assert repr(add) == "Tool('add')"


async def test_timed_out_tool_may_await_in_cleanup() -> None:
    log: list[str] = []

    @tool(timeout_s=0.01)
    async def act() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            log.append("cleaned up")

    outcome = await act.run("{}")
    assert "stopped after 0.01 s" in (outcome.error or "")
    assert log == ["cleaned up"]


async def test_own_timeout_is_distinct_from_ours() -> None:
    @tool(timeout_s=5)
    async def act() -> None:
        raise TimeoutError("the server was slow")

    assert (await act.run("{}")).error == "TimeoutError: the server was slow"


async def two_steps() -> str:
    await asyncio.sleep(0)
    return "done"


async def test_slow_step_is_logged_with_its_tool(caplog) -> None:
    times = iter([0.0, 0.1, 5.0, 6.0])  # the second step takes 1 s
    assert await Watched(two_steps(), "w", clock=lambda: next(times)) == "done"
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("the tool w blocked the event loop for 1.0 s. Write it as a plain `def`")


async def test_a_tool_that_waits_is_not(caplog) -> None:
    assert await Watched(two_steps(), "w", clock=lambda: 1.0) == "done"
    assert caplog.records == []


async def test_errors_and_cancellation_propagate() -> None:
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
    monkeypatch.setattr(sys.modules[Watched.__module__], "_BLOCKED_S", 0.0)
    counted = itertools.count()

    async def works() -> str:
        return f"done {next(counted)}"

    async def yields() -> AsyncIterator[str]:
        yield f"done {next(counted)}"

    tool = ls.tool(works if kind == "coroutine" else yields)
    assert (await tool.run("{}")).content == "done 0"
    assert any(f"the tool {tool.name} blocked" in record.getMessage() for record in caplog.records)


async def test_a_tool_of_ours_is_not_watched(caplog, monkeypatch) -> None:
    """What takes long in a sub-agent is somewhere in its run."""
    monkeypatch.setattr(sys.modules[Watched.__module__], "_BLOCKED_S", 0.0)
    tool = ls.Agent(ScriptedModel("Yes."), name="clerk").as_tool()
    assert (await tool.run('{"prompt":"Hi"}')).content == "Yes."
    assert caplog.records == []


async def test_unsendable_result_is_logged(caplog) -> None:
    class Inner:
        pass

    @ls.tool
    async def w() -> object:
        """Returns what cannot be sent."""
        return Inner()

    outcome = await w.run("{}")
    assert outcome.error is not None
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("the tool w returned a value of type Inner that cannot be sent: Encoding")


def test_untyped_parameter_is_refused() -> None:
    def w(x, y: int = 1):
        return x

    with pytest.raises(ls.InvalidRequest, match="tool w: the parameter x has no type"):
        ls.tool(w)
    with pytest.raises(ls.InvalidRequest, match="has no type"):
        ls.stream("sim:demo", "Hi", tools=[w])


@pytest.mark.parametrize(
    "options",
    [
        {"timeout_s": -1},
        {"timeout_s": "5"},
        {"timeout_s": float("nan")},
        {"concurrency": 0},
        {"concurrency": "two"},
        {"sequential": True, "concurrency": 3},
        {"eager": "yes"},
        {"needs_approval": "yes"},
        {"max_result_chars": -1},
        {"max_result_bytes": 1.5},
        {"timeout": 5},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    name = next(iter(options)) if "sequential" not in options else "sequential"
    with pytest.raises(ls.InvalidRequest, match=name):

        @ls.tool(**options)
        def look() -> str:
            return "seen"
