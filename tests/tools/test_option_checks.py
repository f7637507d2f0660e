"""What a tool's options cannot mean is refused where the tool is made."""

from __future__ import annotations

from typing import Any

import pytest

import llmstream as ls


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
