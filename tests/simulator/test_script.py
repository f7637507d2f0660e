"""Scripts are read from JSON and said turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmstream.errors import InvalidRequest
from llmstream.events import TextDelta, Usage
from llmstream.request import Request
from llmstream.simulator import Break, Call, Cut, Pace, Refuse, Script, Stall, Turn

ASKED = Request(model="m")


def load(tmp_path: Path, text: str) -> Script:
    path = tmp_path / "script.json"
    path.write_text(text, encoding="utf-8")
    return Script.load(path)


def test_every_part_of_a_script_is_read(tmp_path: Path) -> None:
    script = load(
        tmp_path,
        """{"pace": {"delta_s": 0.5}, "turns": [
            {"fault": {"kind": "refuse", "status": 429, "retry_after_s": 2}},
            {"reasoning": "r", "text": "t", "calls": [{"name": "f", "arguments": {"a": 1}}],
             "finish_reason": "length", "usage": {"inputTokens": 3}, "pace": {"tokens_per_s": 40}},
            {"text": "x", "fault": {"kind": "error", "after_events": 2, "message": "boom"}},
            {"text": "x", "fault": {"kind": "cut", "clean": true}},
            {"text": "x", "fault": {"kind": "stall", "stall_s": 1.5}},
            {"events": [{"type": "text-delta", "id": "0", "delta": "raw"}]}
        ]}""",
    )
    refuse, full, broken, cut, stall, exact = script.turns
    assert refuse.fault == Refuse(status=429, retry_after_s=2.0)
    assert full == Turn(
        reasoning="r",
        text="t",
        calls=(Call("f", {"a": 1}),),
        finish_reason="length",
        usage=Usage(3),
        pace=Pace(tokens_per_s=40.0),
    )
    assert broken.fault == Break(after_events=2, message="boom")
    assert cut.fault == Cut(clean=True)
    assert stall.fault == Stall(stall_s=1.5)
    assert exact.events == (TextDelta("raw", "0"),)
    assert script.turn(ASKED, 1).pace == Pace(tokens_per_s=40.0)
    assert script.turn(ASKED, 2).pace == Pace(delta_s=0.5)


def test_last_turn_repeats_at_the_end() -> None:
    script = Script((Turn(text="a"), Turn(text="b")))
    assert [script.turn(ASKED, n).text for n in range(4)] == ["a", "b", "b", "b"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"turns": []}', '{"turns": [{"txt": "a"}]}', '{"turns": [{"fault": {"kind": "flood"}}]}'],
)
def test_invalid_script_is_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"script\.json"):
        load(tmp_path, text)


def test_missing_file_is_an_invalid_request(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"nothing\.json"):
        Script.load(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"calls": (("weather", {}),)}, "a tuple of Calls, such as"),
        ({"calls": Call("weather")}, "a tuple of Calls, such as"),
        ({"text": 3}, r"Turn\(text=...\) must be a str, got 3"),
    ],
)
def test_turn_of_wrong_types_is_refused(given: dict[str, Any], message: str) -> None:
    """At once, not at the request that it is for."""
    with pytest.raises(InvalidRequest, match=message):
        Turn(**given)


def test_script_of_texts_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"a Script is made of Turns, such as .*; got 'Hello'"):
        Script(("Hello",))  # type: ignore[arg-type]
