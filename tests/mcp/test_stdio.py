"""Messages over stdio are bounded, and their processes end with the session."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

import llmstream as ls
from llmstream.chats import ToolCall
from llmstream.tools import run_call

pytest.importorskip("mcp", reason="mcp is not installed (extra: mcp)")

from llmstream.mcp import mcp_tools, transports
from llmstream.mcp.transports import StdioServer, read_json

CAP = 1_000_000

LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]

SERVER = """
import json, os, signal, subprocess, sys, time
how, mark = sys.argv[1:]
out = sys.stdout.buffer

def send(value):
    out.write(json.dumps(value).encode() + b"\\n")
    out.flush()

def endless():
    while True:
        out.write(b"x" * 65536)
        out.flush()

open(mark, "w").write(str(os.getpid()))
if how == "endless":
    endless()
if how == "prints":
    print("Server started, listening on stdin", flush=True)
if how == "mute":
    print("usage: server [--stdio]", flush=True)
    time.sleep(3600)
if how == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if how == "parent":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    open(mark, "w").write(str(child.pid))
for line in sys.stdin.buffer:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "x", "version": "1"},
        }
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
    elif asked["method"] == "tools/call":
        if how == "late":
            endless()
        size = asked["params"]["arguments"].get("size", 1)
        answer["result"] = {"content": [{"type": "text", "text": "\\u20ac" * size}]}
        if how == "nan":
            answer["result"]["structuredContent"] = {"a": float("nan"), "b": ["x"] * size}
        if how == "surrogate":
            answer["result"]["content"][0]["text"] = "cut \\ud83d"
        if how == "deep":
            levels = asked["params"]["arguments"]["levels"]
            answer["result"]["structuredContent"] = {"a": json.loads("[" * levels + "]" * levels)}
    else:
        answer["error"] = {"code": -32601, "message": "no"}
    send(answer)
if how in ("stubborn", "parent"):
    time.sleep(3600)
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file in which the server notes its process, or its child's."""
    return tmp_path / "pid"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "_EXIT_S", 0.3)


def server(how: str, mark: Path, **options: Any) -> Any:
    return mcp_tools(stdio=(sys.executable, ["-c", SERVER, how, str(mark)]), **options)


@pytest.fixture
def capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmstream.mcp.StdioServer", partial(StdioServer, max_bytes=CAP))


def is_gone(mark: Path) -> bool:
    """A zombie, which nobody reaps in a container, has ended too."""
    try:
        os.kill(int(mark.read_text()), 0)
        return Path(f"/proc/{mark.read_text()}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


async def call(tools: Any, **arguments: object) -> Any:
    return await run_call(ToolCall("c1", "t", json.dumps(arguments)), tools)


async def test_endless_line_fails_the_session(capped: None, mark: Path) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ls.ConnectionFailed, match=f"{sys.executable}: .*longer than {CAP} bytes"):
            async with server("endless", mark):
                pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * CAP
    assert is_gone(mark)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_endless_result_fails_the_call(capped: None, mark: Path) -> None:
    async with server("late", mark, timeout_s=None) as tools:
        status = await call(tools)
        assert isinstance(status.exception, ls.ToolError)
        assert f"longer than {CAP} bytes" in status.error
        assert sys.executable in status.error
        again = await call(tools)
        assert "no longer connected" in again.error
    assert is_gone(mark)


async def test_line_below_the_cap_is_complete(capped: None, mark: Path) -> None:
    async with server("plain", mark, max_result_chars=CAP) as tools:
        assert (await call(tools, size=150_000)).result.content == "€" * 150_000


async def test_long_line_with_nan_is_read(mark: Path) -> None:
    """JSON of some servers is none; the mcp package reads it too."""
    async with server("nan", mark) as tools:
        status = await call(tools, size=100_000)
        assert len(status.output["b"]) == 100_000


async def test_half_an_emoji_is_read(mark: Path) -> None:
    """As of a text that the server cut; the call does not wait until its timeout."""
    async with server("surrogate", mark) as tools:
        assert (await call(tools)).result.content == "cut \N{REPLACEMENT CHARACTER}"


async def test_too_deep_result_fails_the_call(mark: Path) -> None:
    """At once, and without blame for the connection, which continues."""
    async with server("deep", mark) as tools:
        failed = await call(tools, levels=500)
        assert failed.result.is_error
        assert (
            "returned a result of t that is not valid (Maximum serialization depth" in failed.result.content
        )
        assert not (await call(tools, levels=100)).result.is_error


async def test_printed_lines_are_skipped(mark: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with server("prints", mark) as tools:
        assert (await call(tools)).result.content == "€"
    assert "not a message: 'Server started, listening on stdin'" in caplog.text


async def test_printed_line_explains_the_silence(mark: Path) -> None:
    with pytest.raises(
        ls.ConnectionFailed, match=r"no answer in 0\.5 s; it wrote .*'usage: server \[--stdio\]'"
    ):
        async with server("mute", mark, connect_timeout_s=0.5):
            pass
    assert is_gone(mark)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stubborn", "parent"])
async def test_stubborn_processes_are_killed(how: str, mark: Path) -> None:
    async with server(how, mark) as tools:
        assert (await call(tools)).result.content == "€"
        assert not is_gone(mark)
    assert is_gone(mark)


@pytest.mark.slow
async def test_cancelled_twice_leaves_no_process(mark: Path) -> None:
    entered = asyncio.Event()

    async def use() -> None:
        async with server("stubborn", mark):
            entered.set()
            await asyncio.sleep(3600)

    task = asyncio.create_task(use())
    await entered.wait()
    task.cancel()
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_gone(mark)


LOOPS: list[LoopFactory] = [asyncio.new_event_loop]
with suppress(ImportError):
    LOOPS.append(importlib.import_module("uvloop").new_event_loop)


def children() -> set[str]:
    """Processes that this thread started and nobody has waited for."""
    return set(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are read from /proc")
@pytest.mark.parametrize("factory", LOOPS, ids=lambda factory: factory.__module__)
@pytest.mark.parametrize("iterations", range(1, 8))
def test_cancelled_start_leaves_no_process(factory: LoopFactory, iterations: int) -> None:
    """At any iteration of the loop; uvloop would end the process after it was closed itself."""

    async def use() -> None:
        async with StdioServer(sys.executable, ["-c", "import sys; sys.stdin.read()"], {}).streams():
            await asyncio.sleep(3600)

    async def main() -> None:
        task = asyncio.create_task(use())
        for _ in range(iterations):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert children() == before

    before = children()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


VALUES = [
    {"a": [1, 2.5, None, True, "é\n"] * 20_000},
    [{"k": [[]] * 50}] * 5_000,
    {f"k{n}": n for n in range(40_000)},
    {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": list(range(80_000))}}}}}}}}},
    "x" * 400_000,
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
async def test_pieces_give_the_same_value(value: Any) -> None:
    assert await read_json(msgspec.json.encode(value)) == value
    assert await read_json(msgspec.json.format(msgspec.json.encode(value), indent=2)) == value


@pytest.mark.parametrize(
    "line", [b"[" * 500_000, b'{"a": ' + b"1," * 300_000, b"x" * 500_000, b"\xff" * 300_000]
)
async def test_long_junk_is_a_typed_error(line: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        await read_json(line)


async def test_other_tasks_run_while_line_is_read() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    await read_json(json.dumps({"result": {"content": [{"type": "text", "text": "x"}] * 50_000}}).encode())
    other.cancel()
    assert turns >= 10
