"""What a tool gave, and the status of its call as a value and as a line for people."""

from __future__ import annotations

import datetime
import enum
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest

import llmstream as ls
from llmstream.agent import Hooks, Rewrite
from llmstream.chats.content import Audio, Document, File, Image, Text, ToolCall, ToolResult
from llmstream.errors import ToolError
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.tools import ToolCallStatus, ToolOutcome, ToolOutput, render_statuses

PNG = b"\x89PNG\r\n\x1a\n-"


class Point(msgspec.Struct):
    x: int


@dataclass
class Size:
    w: int


class Colour(enum.Enum):
    RED = "red"


class Metal(str, enum.Enum):  # noqa: UP042 - StrEnum has another `str()`
    TIN = "tin"


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("as is", "as is"),
        ("", ""),
        (None, ""),
        ({"a": [1, 2.5, None, True]}, '{"a":[1,2.5,null,true]}'),
        ([1, "two"], '[1,"two"]'),
        (3, "3"),
        (Point(1), '{"x":1}'),
        (Size(2), '{"w":2}'),
        (Colour.RED, '"red"'),
        (Metal.TIN, "tin"),
        (datetime.date(2026, 1, 2), '"2026-01-02"'),
        (Text("words"), "words"),
    ],
)
def test_values_become_text(value: Any, content: str) -> None:
    assert ToolOutcome.of(value) == ToolOutcome(content)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (PNG, Image(data=PNG, media_type="image/png")),
        (bytearray(b"\xff\xd8\xff\xe0"), Image(data=b"\xff\xd8\xff\xe0", media_type="image/jpeg")),
        (b"RIFF....WEBP", Image(data=b"RIFF....WEBP", media_type="image/webp")),
        (b"%PDF-1.7", Document(data=b"%PDF-1.7", media_type="application/pdf")),
        (b"RIFF....WAVE", Audio(data=b"RIFF....WAVE", media_type="audio/wav")),
        (memoryview(b"\x00"), Document(data=b"\x00", media_type="application/octet-stream")),
        (Image(url="https://x.example/a.png"), Image(url="https://x.example/a.png")),
    ],
)
def test_bytes_and_parts_become_parts(data: Any, part: Any) -> None:
    assert ToolOutcome.of(data) == ToolOutcome("", (part,))


def test_list_with_parts_is_parts_and_lines() -> None:
    image = Image(url="https://x.example/a.png")
    found = ToolOutcome.of(["a chart", image, {"n": 1}, PNG])
    assert found == ToolOutcome('a chart\n{"n":1}', (image, Image(data=PNG, media_type="image/png")))


@pytest.mark.parametrize("value", [object(), {"f": object()}, [PNG, object()], "\ud800".join, {1j}])
def test_unsendable_result_is_an_error(value: Any) -> None:  # RELIABILITY 44
    found = ToolOutcome.of(value)
    assert found.error is not None
    assert found.content == found.error
    assert "cannot be sent" in found.content


def test_self_containing_value_is_an_error() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert ToolOutcome.of(loop).error is not None


def test_a_tool_may_give_text_and_an_error() -> None:  # S0.9
    assert ToolOutcome.of(ToolOutcome("partial output", error="exit code 1")).content == "partial output"
    assert ToolOutcome.of(ToolOutcome(error="exit code 1")).content == "exit code 1"


@pytest.mark.parametrize(
    ("exception", "words"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (KeyError("k"), "KeyError: 'k'"),
        (RuntimeError(), "RuntimeError"),
        (ToolError("no such file"), "no such file"),
    ],
)
def test_tool_errors_are_shown_without_type(exception: Exception, words: str) -> None:
    """Other exceptions are shown with theirs."""
    found = ToolOutcome.raised(exception)
    assert (found.content, found.error, found.exception) == (words, words, exception)


def test_long_text_is_cut_with_a_note() -> None:  # RELIABILITY 44
    found = ToolOutcome("x" * 50).fitted(10)
    assert found.content == "xxxxxxxxxx\n[cut: the first 10 of 50 characters]"
    assert ToolOutcome("x" * 10).fitted(10).content == "x" * 10


def test_lone_surrogates_are_replaced() -> None:  # case 45
    assert ToolOutcome("a\ud800b \ud83d\ude00").fitted(99).content == "a\ufffdb \U0001f600"
    failed = ToolOutcome.raised(ToolError("no file a\udcff")).fitted(99)
    assert failed.content == failed.error == "no file a\ufffd"


def test_model_and_application_values_differ() -> None:
    kept = object()
    outcome = ToolOutcome.of(ToolOutput({"hits": 2}, value=kept, stop=True))
    assert (outcome.content, outcome.output, outcome.stop) == ('{"hits":2}', {"hits": 2}, True)
    assert outcome.value is kept
    assert ToolOutcome.of(ToolOutput("words")).value is None


def test_value_stored_unless_text_was_cut() -> None:
    rows = [{"n": n} for n in range(9)]
    outcome = ToolOutcome.of(rows)
    assert (outcome.output, outcome.value) == (rows, rows)
    cut = outcome.fitted(10)
    assert cut.output is None
    assert "[cut:" in cut.content
    assert cut.value is rows
    assert ToolOutcome.of("plain").output is None


def test_large_files_left_out_with_a_note() -> None:
    small, large = Image(data=b"\xff\xd8\xff1", media_type="image/jpeg"), b"%PDF-" + bytes(100)
    by_url = Image(url="https://example.org/a.png")
    found = ToolOutcome.of([small, large, by_url, small]).fitted(max_bytes=10)
    assert found.parts == (small, by_url, small)
    note = "[left out: application/pdf of 105 bytes; the files of a result may have 10 bytes in all]"
    assert found.content == note
    assert (
        ToolOutcome.of(["Look:", small, small, small]).fitted(max_bytes=10).content.startswith("Look:\n[left")
    )
    whole = ToolOutcome.of([small, large])
    assert whole.fitted(max_bytes=109) is whole


def test_both_limits_noted_value_complete() -> None:
    found = ToolOutcome.of(["a" * 20, b"12345"]).fitted(max_chars=10, max_bytes=4)
    assert found.content.splitlines() == [
        "a" * 10,
        "[cut: the first 10 of 20 characters]",
        "[left out: application/octet-stream of 5 bytes; the files of a result may have 4 bytes in all]",
    ]
    assert found.value == ["a" * 20, b"12345"]


async def test_limits_cover_progress_and_hooks() -> None:
    @ls.tool(max_result_chars=10, max_result_bytes=10)
    async def pages() -> AsyncIterator[object]:
        yield "b" * 50
        yield ["c" * 50, bytes(50)]

    async def after(state: object, call: object, status: object) -> Rewrite:
        return Rewrite(["d" * 50, bytes(50)])

    model = ScriptedModel(Turn(calls=(Call("pages"),)), "Done.")
    for hooks, letter in ((Hooks(), "c"), (Hooks(after_tool=after), "d")):
        run = ls.Agent(model, tools=[pages], hooks=hooks).stream("Go")
        told = [e.result async for e in run if isinstance(e, ls.ToolResult)]
        assert all("[cut: the first 10 of 50" in result for result in told)
        (result,) = run.messages()[2].tool_results
        assert result.content.startswith(letter * 10)
        assert "left out" in result.content
        assert result.parts == ()
        model.requests.clear()


def test_file_is_sent_as_its_media_type() -> None:
    files = [File("image/png", data=b"1"), File("audio/wav", data=b"2"), File("text/csv", data=b"3")]
    outcome = ToolOutcome.of(files)
    assert [type(part) for part in outcome.parts] == [Image, Audio, Document]
    assert [(part.media_type, part.data) for part in outcome.parts] == [(f.media_type, f.data) for f in files]
    assert ToolOutcome.of(files[2]).parts == (outcome.parts[2],)


def test_texts_in_a_list_are_lines() -> None:
    assert ToolOutcome.of([Text("one"), Text("two")]).content == "one\ntwo"


def test_model_reads_each_grouped_exception() -> None:
    group = ExceptionGroup("unhandled errors in a TaskGroup", [ValueError("a"), KeyError("b")])
    assert ToolOutcome.raised(group).content == "ExceptionGroup: ValueError: a; KeyError: 'b'"


def test_unprintable_exception_has_its_name() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert ToolOutcome.raised(Mute()).content == "Mute"


def test_a_path_in_a_result_is_its_text() -> None:
    outcome = ToolOutcome.of({"file": PurePosixPath("/a/b")})
    assert (outcome.content, outcome.output) == ('{"file":"/a/b"}', {"file": "/a/b"})
    assert ToolOutcome.of(PurePosixPath("/a")).content == '"/a"'


def test_lines_are_joined_in_call_order() -> None:  # S0.8
    statuses = [ToolCallStatus("one"), ToolCallStatus("two", "boom"), ToolCallStatus("three")]
    assert render_statuses(statuses) == (
        "> Ran tool: `one`\n> Ran tool: `two` - failed: `boom`\n> Ran tool: `three`\n"
    )
    assert render_statuses([]) == ""
    assert str(statuses[0]) == "> Ran tool: `one`\n"


def test_multiline_error_is_one_code_line() -> None:  # S0.8
    """The error contains backticks."""
    line = str(ToolCallStatus("t", "first `x`\nsecond"))
    assert line.count("\n") == 1
    assert line.startswith("> Ran tool: `t` - failed: ``")


def test_status_saved_without_its_exception() -> None:  # S0.7
    call = ToolCall("a", "t")
    error = ValueError("boom")
    status = ToolCallStatus.of(call, ToolOutcome.raised(error))
    assert status.exception is error
    saved = msgspec.json.encode(status)
    assert b"exception" not in saved
    loaded = msgspec.json.decode(saved, type=ToolCallStatus)
    assert loaded == status
    assert loaded.exception is None
    assert loaded.result == ToolResult("a", "ValueError: boom", True, "t")
