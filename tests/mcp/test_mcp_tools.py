"""The tools of real MCP servers, over stdio and HTTP, in all the ways that a session can end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.chats import ToolCall
from llmstream.mcp import mcp_tools
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.tools import run_call, run_calls

pytest.importorskip("mcp", reason="the extra mcp is not installed")

SERVER = str(Path(__file__).with_name("server.py"))
Tools = AbstractAsyncContextManager[list[ls.Tool]]
Connect = Callable[..., Tools]


def over_stdio(**options: Any) -> Tools:
    return mcp_tools(stdio=(sys.executable, [SERVER]), **options)


@pytest.fixture(params=["stdio", "http"])
def connect(request: pytest.FixtureRequest) -> Connect:
    if request.param == "stdio":
        return over_stdio
    url, _ = request.getfixturevalue("http_server")
    return lambda **options: mcp_tools(url=url, headers={"x-test": "yes"}, **options)


async def call(tools: list[ls.Tool], name: str, /, **arguments: object) -> Any:
    return await run_call(ToolCall("c1", name, json.dumps(arguments)), tools)


def content(mark: Path) -> str:
    return mark.read_text() if mark.exists() else ""


async def until_there(mark: Path, said: str) -> None:
    async with asyncio.timeout(30):
        while content(mark) != said:
            await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("connect", ["stdio", "http"], indirect=True)
async def test_result_kinds_equal_other_tools(connect: Connect) -> None:
    async with connect(prefix="t_") as tools:
        assert {"t_add", "t_clock", "t_odd_name_with_space"} <= {tool.name for tool in tools}
        by_name = {tool.name: tool.spec for tool in tools}
        assert by_name["t_add"].description == "Add two numbers."
        assert by_name["t_add"].input_schema["required"] == ["a", "b"]

        status = await call(tools, "t_clock", city="Oslo")
        assert (status.error, status.result.content) == (None, "09:30 in Oslo")

        status = await call(tools, "t_row", name="Ada")
        assert status.output == {"name": "Ada", "id": 7}
        assert json.loads(status.result.content) == {"name": "Ada", "id": 7}

        status = await call(tools, "t_fail")
        assert "the disk is full" in status.error
        assert status.result.is_error
        assert isinstance(status.exception, ls.ToolError)

        status = await call(tools, "t_add", a="no number", b=1)
        assert status.result.is_error
        assert "a" in status.error

        status = await call(tools, "t_picture")
        image = ls.chats.Image(data=b"\x89PNG\r\n\x1a\n" + bytes(8), media_type="image/png")
        assert status.result.parts == (image,)

        status = await call(tools, "t_papers")
        paper = ls.chats.Document(data=b"%PDF-", media_type="application/pdf", filename="report.pdf")
        assert status.result.parts == (paper,)
        assert status.result.content == "Two papers.\nmore: https://example.test/more"


async def test_agent_uses_tools_and_gets_progress() -> None:
    async with over_stdio() as tools:
        counting = [tool for tool in tools if tool.name == "count"]
        async with ls.Agent("sim:demo", tools=counting).stream("Count, please.") as run:
            events = [event async for event in run]
        told = [event for event in events if isinstance(event, ls.ToolResult)]
    assert grammar.check(events) == []
    assert [event.preliminary for event in told] == [True, True, True, False]
    assert told[0].result == {"progress": 0, "total": 3, "message": "at 0"}
    assert "done" in run.text


@pytest.mark.slow
async def test_calls_run_in_parallel_from_any_task() -> None:
    async with over_stdio() as tools:
        calls = [ToolCall(f"c{n}", "add", json.dumps({"a": n, "b": 1})) for n in range(20)]
        statuses = await run_calls(calls, tools)
        assert [status.result.content for status in statuses] == [str(n + 1) for n in range(20)]
        other = asyncio.create_task(call(tools, "add", a=1, b=1))
        assert (await other).result.content == "2"


@pytest.mark.slow
async def test_process_sees_only_given_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMSTREAM_TEST_TOKEN", "ours")
    async with over_stdio() as tools:
        assert (await call(tools, "odd_name_with_space")).result.content == "no token"
    given = {"LLMSTREAM_TEST_TOKEN": "theirs"}
    async with mcp_tools(stdio=(sys.executable, [SERVER], given)) as tools:
        assert (await call(tools, "odd_name_with_space")).result.content == "theirs"


@pytest.mark.slow
@pytest.mark.parametrize("connect", ["stdio", "http"], indirect=True)
async def test_cancelled_call_cancelled_on_server(connect: Connect, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with connect() as tools:
        task = asyncio.create_task(call(tools, "hang", mark=str(mark)))
        await until_there(mark, "started")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_there(mark, "cancelled")
        assert (await call(tools, "add", a=1, b=2)).result.content == "3"


@pytest.mark.slow
async def test_slow_call_is_an_error_result(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with over_stdio(timeout_s=2) as tools:
        status = await call(tools, "hang", mark=str(mark))
        assert isinstance(status.exception, ls.ToolTimeout)
        await until_there(mark, "cancelled")


@pytest.mark.slow
@pytest.mark.parametrize("connect", ["stdio", "http"], indirect=True)
async def test_leaving_fails_the_running_call(connect: Connect, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with connect() as tools:
        task = asyncio.create_task(call(tools, "hang", mark=str(mark)))
        await until_there(mark, "started")
    status = await task
    assert status.result.is_error
    assert "was lost while hang ran" in status.error
    late = await call(tools, "add", a=1, b=1)
    assert "no longer connected" in late.error


@pytest.mark.slow
@pytest.mark.parametrize("connect", ["stdio", "http"], indirect=True)
async def test_leaving_passes_on_the_exception(connect: Connect) -> None:
    """A cancellation too."""
    with pytest.raises(ZeroDivisionError):
        async with connect():
            raise ZeroDivisionError
    entered = asyncio.Event()

    async def use() -> None:
        async with connect():
            entered.set()
            await asyncio.sleep(3600)

    task = asyncio.create_task(use())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.slow
async def test_block_may_be_left_by_another_task() -> None:
    block = over_stdio()
    tools = await asyncio.create_task(block.__aenter__())
    assert (await call(tools, "add", a=2, b=2)).result.content == "4"
    await asyncio.create_task(block.__aexit__(None, None, None))
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.slow
async def test_agent_cancel_in_call_keeps_session(tmp_path: Path) -> None:
    mark, file = tmp_path / "mark", tmp_path / "script.json"
    file.write_text(json.dumps({"turns": [{"calls": [{"name": "hang", "arguments": {"mark": str(mark)}}]}]}))
    async with over_stdio() as tools:
        run = ls.Agent(f"sim:{file}", tools=tools).stream("Go.")
        task = asyncio.create_task(run.collect())
        await until_there(mark, "started")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await run.aclose()
        await until_there(mark, "cancelled")
        assert run.messages()[-1].role.value == "tool"
        assert (await call(tools, "add", a=1, b=2)).result.content == "3"


async def test_tools_that_need_a_task_are_left_out() -> None:
    """`server-everything` has one; a plain call of it is refused with -32601."""
    server = str(Path(__file__).with_name("task_server.py"))
    async with mcp_tools(stdio=(sys.executable, [server])) as tools:
        assert [tool.spec.name for tool in tools] == ["now", "plain"]


@pytest.mark.slow
async def test_server_death_is_an_error_result() -> None:
    async with over_stdio() as tools:
        status = await call(tools, "crash")
        assert status.result.is_error
        assert isinstance(status.exception, ls.ToolError)
        assert "was lost while crash ran" in status.error
        again = await call(tools, "add", a=1, b=1)
        assert isinstance(again.exception, ls.ToolError)
        assert "no longer connected. add has not run" in again.error


@pytest.mark.slow
async def test_http_server_death_is_error_result(
    http_server: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    url, process = http_server
    mark = tmp_path / "mark"
    async with mcp_tools(url=url) as tools:
        task = asyncio.create_task(call(tools, "hang", mark=str(mark)))
        await until_there(mark, "started")
        process.kill()
        status = await asyncio.wait_for(task, 60)
        assert isinstance(status.exception, ls.ToolError)
        again = await call(tools, "add", a=1, b=1)
        assert isinstance(again.exception, ls.ToolError)


async def test_unstartable_server_is_a_typed_error() -> None:
    with pytest.raises(ls.ConnectionFailed, match="no-such-program"):
        async with mcp_tools(stdio=("no-such-program",)):
            pass
    with pytest.raises(ls.ConnectionFailed, match="cannot connect to the MCP server"):
        async with mcp_tools(url="http://127.0.0.1:9/mcp"):
            pass
    with pytest.raises(ls.ConnectionFailed, match=r"no answer in 0\.3 s"):
        async with mcp_tools(
            stdio=(sys.executable, ["-c", "import sys; sys.stdin.read()"]), connect_timeout_s=0.3
        ):
            pass
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_exactly_one_of_process_and_address() -> None:
    for options in ({}, {"stdio": ("x",), "url": "http://x"}, {"stdio": ("x",), "headers": {"a": "b"}}):
        with pytest.raises(ls.InvalidRequest):
            async with mcp_tools(**options):
                pass


@pytest.mark.parametrize("options", [{"stdio": "python server.py"}, {"stdio": ()}, {"url": 5}], ids=str)
async def test_meaningless_process_or_url_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ls.InvalidRequest, match="is a"):
        async with mcp_tools(**options):
            pass


LEARNS = (Turn(calls=(Call("learn"),)), Turn(calls=(Call("juggle"),)), "Done.")


@pytest.mark.slow
async def test_added_tools_offered_at_next_step() -> None:
    async with over_stdio() as tools:
        assert "juggle" not in [tool.name for tool in tools]
        model = ScriptedModel(*LEARNS)
        run = ls.Agent(model, tools=[tools]).stream("Go")
        await run.collect()
        assert [status.result.content for status in run.statuses] == ["learned", "three balls"]
        offered = [[tool.name for tool in request.tools] for request in model.requests]
        assert ["juggle" in names for names in offered] == [False, True, True]


@pytest.mark.slow
async def test_manual_loop_offers_tools_each_turn() -> None:
    async with over_stdio() as tools, ScriptedModel(*LEARNS).stream("Go", tools=tools) as stream:
        assert str(*await stream.call_tools()) == "> Ran tool: `learn`\n"
        assert str(*await stream.call_tools()) == "> Ran tool: `juggle`\n"


@pytest.mark.slow
async def test_notice_on_other_connection_is_seen(connect: Connect) -> None:
    async with connect(prefix="t_") as tools:
        await call(tools, "t_learn")
        async with asyncio.timeout(20):
            while "t_juggle" not in [tool.name for tool in tools]:
                await asyncio.sleep(0.01)
        assert (await call(tools, "t_juggle")).result.content == "three balls"
