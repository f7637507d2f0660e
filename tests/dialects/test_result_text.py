from __future__ import annotations

import pytest

from llmstream.chats.content import ToolResult
from llmstream.dialects.history_parts import failure_text, result_or_failure_text, result_text


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("no such city", "Error: no such city"),
        ("", "Error"),
        ("ValueError: no", "ValueError: no"),
        ("error: no", "error: no"),
        ('{"error": "no"}', '{"error": "no"}'),
        ('{"city": null}', 'Error: {"city": null}'),
        (
            "The call was denied: not today. It has not run.",
            "The call was denied: not today. It has not run.",
        ),
        ("x" * 200 + " failed", "Error: " + "x" * 200 + " failed"),
        ("The errors are two", "Error: The errors are two"),
    ],
)
def test_a_failure_is_told_once(content: str, told: str) -> None:
    assert failure_text(content) == told
    assert failure_text(told) == told


def test_value_becomes_json_if_no_text() -> None:
    assert result_text(ToolResult("c", "text", result={"a": 1})) == "text"
    assert result_text(ToolResult("c", result={"a": 1})) == '{"a":1}'
    assert result_text(ToolResult("c")) == ""
    assert result_or_failure_text(ToolResult("c", result={"a": 1}, is_error=True)) == 'Error: {"a":1}'
    assert result_or_failure_text(ToolResult("c", "fine")) == "fine"
