"""The line that people see, and the status as a value."""

from __future__ import annotations

import msgspec

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.tools import ToolCallStatus, ToolOutcome, render_statuses


def test_lines_are_joined_in_call_order() -> None:  # S0.8
    statuses = [ToolCallStatus("one"), ToolCallStatus("two", "boom"), ToolCallStatus("three")]
    assert render_statuses(statuses) == (
        "> Ran tool: `one`\n> Ran tool: `two` - failed: `boom`\n> Ran tool: `three`\n"
    )
    assert render_statuses([]) == ""
    assert str(statuses[0]) == "> Ran tool: `one`\n"


def test_an_error_of_several_lines_with_backticks_stays_one_line_of_code() -> None:  # S0.8
    line = str(ToolCallStatus("t", "first `x`\nsecond"))
    assert line.count("\n") == 1
    assert line.startswith("> Ran tool: `t` - failed: ``")


def test_a_status_can_be_saved_and_compared_without_its_exception() -> None:  # S0.7
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
