"""Recordings, tests and traces of what was seen, and the same answer on another wire."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.dialects.base import DIALECTS
from llmstream.events import OtherWarning
from llmstream.inspector import inspect
from llmstream.inspector.exporting import pytest_of, recording_of, recording_zip, replayed, trace_of
from llmstream.simulator.recording import Recording
from llmstream.testing import Do, FaultServer, Stepwise, answered, cassette, comparable
from tests.inspector.conftest import END, calls_of, chunk

ROOT = Path(__file__).resolve().parents[2]

CALL = (
    b'data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":'
    b'{"name":"weather","arguments":"{}"}}]}}]}\n\n'
)
HELD_BACK = """
    held = [event async for event in model.events('Hi')]
    for event in held:
        yield event
"""
SWALLOWED = """
    try:
        async for event in model.events('Hi'):
            yield event
    except ls.LLMStreamError:
        pass
"""
LOST = """
    async for event in model.events('Hi'):
        if getattr(event, 'delta', '') != 'c':
            yield event
"""
DOUBLED = """
    async for event in model.events('Hi'):
        yield event
        if isinstance(event, ls.TextEnd):
            yield event
"""
RIGHT = """
    async for event in model.events('Hi'):
        yield event
"""


async def fails(code: str) -> str:
    """Why the test in a file fails; "" if it passes."""
    names: dict[str, Any] = {}
    exec(compile(code, "test_recorded.py", "exec"), names)
    (test,) = [found for name, found in names.items() if name.startswith("test_")]
    try:
        await test()
    except (AssertionError, pytest.fail.Exception) as failed:
        return str(failed) or "it fails"
    return ""


async def test_a_recording_is_replayed(traced: Callable[..., Any], tmp_path: Path) -> None:
    pieces = [chunk("a"), chunk("b")[:20], chunk("b")[20:] + END]
    path = await traced([[step for piece in pieces for step in (piece, 0.03)]])
    (call,) = calls_of(path).list()
    zipfile.ZipFile(io.BytesIO(recording_zip(call))).extractall(tmp_path / "out")
    (folder,) = (tmp_path / "out").iterdir()
    recording = Recording.load(folder)
    assert recording == recording_of(call)
    assert recording.body == b"".join(pieces)
    (again,) = calls_of(folder).list()
    assert [seen.data for seen in again.events] == [seen.data for seen in call.events]


async def test_a_trace_is_read_again(traced: Callable[..., Any], tmp_path: Path) -> None:
    path = await traced([[chunk("a"), chunk("b") + chunk("c"), END], [chunk("a"), Do.RESET]])
    for call in calls_of(path).list():
        (tmp_path / "again.jsonl").write_bytes(trace_of(call))
        (again,) = calls_of(tmp_path / "again.jsonl").list()
        assert again.events == call.events
        assert (again.reads, again.frames, again.ended) == (call.reads, call.frames, call.ended)
        assert again.findings() == call.findings()


async def test_events_alone_make_no_recording(tmp_path: Path) -> None:
    with cassette("c", folder=tmp_path):
        await ls.Model("sim:demo").ask("Hi")
    (call,) = calls_of(tmp_path / "c.json").list()
    for export in (recording_zip, pytest_of):
        with pytest.raises(ls.InvalidRequest, match="the bytes of this call are not known"):
            export(call)


@pytest.mark.parametrize(
    ("defect", "why"), [(HELD_BACK, "is held back"), (LOST, "is held back"), (DOUBLED, "EVENTS")]
)
async def test_a_test_fails_with_the_defect(defect: str, why: str, traced: Callable[..., Any]) -> None:
    """A slow stream is recorded and exported; the test passes, and fails when the defect is put back."""
    path = await traced([[chunk("a"), 0.05, chunk("b"), chunk("c"), 0.05, chunk('"\\é'), END]])
    (call,) = calls_of(path).list()
    code = pytest_of(call).decode()
    assert RIGHT in code
    assert await fails(code) == ""
    found = await fails(code.replace(RIGHT, defect).replace(", 30)", ", 0.3)"))
    assert found
    assert why in found or why == "EVENTS"


async def test_a_cut_stream_as_a_test(traced: Callable[..., Any]) -> None:
    """A program that takes a cut answer for a whole one fails it."""
    path = await traced([[chunk("a"), 0.05, chunk("b"), chunk("c")[:30]]])
    (call,) = calls_of(path).list()
    assert call.state == "cut"
    code = pytest_of(call).decode()
    assert await fails(code) == ""
    assert "DID NOT RAISE" in await fails(code.replace(RIGHT, SWALLOWED))


@pytest.mark.parametrize("how", ["reset", "error", "calls"])
async def test_other_streams_as_a_test(how: str, traced: Callable[..., Any]) -> None:
    """One that was reset, one with the vendor's error, and calls whose ids a decoder makes."""
    failed = b'data: {"error": {"message": "overloaded", "type": "server_error", "code": 503}}\n\n'
    steps: list[Any] = {
        "reset": [chunk("a"), 0.05, chunk("b")[:30], 0.05, Do.RESET],
        "error": [chunk("a"), 0.05, failed],
        "calls": [*[CALL] * 2, END.replace(b'"stop"', b'"tool_calls"')],
    }[how]
    (call,) = calls_of(await traced([steps])).list()
    assert call.state == {"reset": "cut", "error": "failed", "calls": "complete"}[how]
    assert await fails(pytest_of(call).decode()) == ""


@pytest.mark.parametrize("steps", [[chunk("a"), Do.HANG], [chunk("a"), chunk("b"), END]])
async def test_what_makes_no_test(steps: list[Any], tmp_path: Path) -> None:
    """A call that was left, and one whose output was read in another way."""
    with inspect(tmp_path / "t.jsonl"):
        async with FaultServer(answered(*steps)) as server:
            model = ls.Model("deepseek:m", base_url=server.url, api_key="k")
            async with model.stream("Hi") as stream:
                async for _ in stream.text_deltas():
                    break
    (call,) = calls_of(tmp_path / "t.jsonl").list()
    with pytest.raises(ls.InvalidRequest, match="xport a recording"):
        pytest_of(call)


def test_events_without_what_changes() -> None:
    events = [
        ls.StreamStart([OtherWarning("left out")]),
        ls.ToolInputStart("weather", "call_x1"),
        ls.ToolInputEnd("call_x1"),
        ls.ErrorEvent(ls.ErrorInfo("overloaded", "at 10.0.0.7", True)),
    ]
    assert comparable(events) == [
        {"type": "stream-start"},
        {"type": "tool-input-start", "id": "#0", "toolName": "weather"},
        {"type": "tool-input-end", "id": "#0"},
        {"type": "error", "code": "overloaded"},
    ]


@pytest.mark.slow
async def test_an_exported_test_in_pytest(traced: Callable[..., Any], tmp_path: Path) -> None:
    (call,) = calls_of(await traced([[chunk("a"), END]])).list()
    file = tmp_path / "test_recorded.py"
    file.write_bytes(pytest_of(call))
    settings = file.with_name("pytest.ini")
    settings.write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(settings), str(file)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, env=env, stdout=subprocess.PIPE)
    out, _ = await done.communicate()
    assert (done.returncode, b"1 passed" in out) == (0, True), out.decode()


@pytest.mark.parametrize("dialect", list(DIALECTS))
async def test_a_replay_through_each_dialect(dialect: str, traced: Callable[..., Any]) -> None:
    """The same text at the same times, on another wire."""
    path = await traced([[chunk("a"), 0.02, chunk("b"), chunk("c"), END]])
    (call,) = calls_of(path).list()
    made = replayed(call, dialect)
    assert made.state == "complete"
    assert made.summary().dialect == dialect
    text = "".join(event.delta for event in made.decoded() if isinstance(event, ls.TextDelta))
    assert text == "abc"
    assert made.events[-1].kind == "finish"
    assert made.body


async def test_a_cut_call_is_replayed_cut(traced: Callable[..., Any]) -> None:
    path = await traced([[chunk("a"), chunk("b")]])
    (call,) = calls_of(path).list()
    assert replayed(call, "anthropic").state in ("cut", "failed")
    with pytest.raises(ls.InvalidRequest, match="unknown dialect"):
        replayed(call, "esperanto")


async def test_pieces_are_sent_one_by_one() -> None:
    """A piece comes when it is asked for, and not before."""
    async with Stepwise([chunk("a"), chunk("b"), END]) as server:
        model = ls.Model("deepseek:m", base_url=server.url, api_key="k")
        server.send()
        stream = model.stream("Hi")
        reading = stream.text_deltas()
        assert await anext(reading) == "a"
        server.send()
        assert await anext(reading) == "b"
        server.send()
        server.send()
        assert [text async for text in reading] == []
        await stream.aclose()
