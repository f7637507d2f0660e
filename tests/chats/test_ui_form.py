"""Messages of Vercel's AI SDK, read and written."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.chats import Document, Image, Reasoning, Source, Text, ToolCall, ToolResult, from_ui, to_ui

SEEN = {"state": "output-available", "input": {"at": 1}, "output": {"x": 2}}
PDF = {"mediaType": "application/pdf", "url": "https://example.org/a.pdf", "filename": "a.pdf"}
TURN = {
    "id": "a1",
    "role": "assistant",
    "metadata": {"seen": True},
    "parts": [
        {"type": "step-start"},
        {"type": "reasoning", "text": "Hm."},
        {
            "type": "tool-look",
            "toolCallId": "c1",
            "state": "output-available",
            "input": {"at": 1},
            "output": {"x": 2},
        },
        {"type": "tool-hear", "toolCallId": "c2", "state": "output-error", "input": {}, "errorText": "deaf"},
        {"type": "step-start"},
        {"type": "text", "text": "Done."},
        {"type": "source-url", "sourceId": "s1", "url": "https://example.org", "title": "T"},
    ],
}
ASKED = {
    "id": "u1",
    "role": "user",
    "parts": [
        {"type": "text", "text": "Look!"},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk="},
        {
            "type": "file",
            "mediaType": "application/pdf",
            "url": "https://example.org/a.pdf",
            "filename": "a.pdf",
        },
    ],
}


def test_a_turn_becomes_its_messages() -> None:
    asked, called, results, said = from_ui([ASKED, TURN])
    assert asked == ls.Message(
        "",
        "user",
        (
            Text("Look!"),
            Image(data=b"hi", media_type="image/png"),
            Document(url="https://example.org/a.pdf", media_type="application/pdf", filename="a.pdf"),
        ),
        {"id": "u1"},
    )
    calls = (ToolCall("c1", "look", '{"at":1}'), ToolCall("c2", "hear", "{}"))
    assert called.parts == (Reasoning("Hm."), *calls)
    assert called.metadata == {"seen": True, "id": "a1"}
    assert results == ls.Message.tool(
        [ToolResult("c1", '{"x":2}', name="look"), ToolResult("c2", "deaf", True, "hear")]
    )
    assert said.parts == (Text("Done."), Source("url", "s1", "https://example.org", "T"))


def test_what_was_read_is_written_again() -> None:
    assert to_ui(from_ui([ASKED, TURN])) == [ASKED, TURN]


def test_text_behind_calls_is_another_answer() -> None:
    """Also where no step-start stands between them."""
    parts = [part for part in TURN["parts"] if part["type"] != "step-start"]
    assert [m.role.value for m in from_ui([{**TURN, "parts": parts}])] == ["assistant", "tool", "assistant"]


def test_an_open_call_has_no_result() -> None:
    waiting = {
        "type": "dynamic-tool",
        "toolName": "look",
        "toolCallId": "c1",
        "state": "input-available",
        "input": {},
    }
    half = {"type": "tool-look", "toolCallId": "c2", "state": "input-streaming", "input": {"a": 1}}
    (message,) = from_ui([{"id": "1", "role": "assistant", "parts": [waiting, half]}])
    assert message.tool_calls == [ToolCall("c1", "look", "{}")]
    (written,) = to_ui([ls.Message.assistant(ToolCall("c1", "look"))])
    assert written["parts"][1]["state"] == "input-available"


def test_application_parts_are_left_out() -> None:
    (message,) = from_ui(
        [{"role": "user", "parts": [{"type": "data-x", "data": 1}, {"type": "text", "text": "a"}]}]
    )
    assert message == ls.Message.user("a")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("Hi", "is no"),
        ({"role": "user"}, "is no"),
        ({"role": "robot", "parts": []}, "has the role 'robot'"),
        ({"role": "user", "parts": ["Hi"]}, "part 0 is no dict"),
        ({"role": "user", "parts": [{"type": "smell"}]}, "of type 'smell'"),
        ({"role": "assistant", "parts": [{"type": "tool-look"}]}, "toolCallId"),
    ],
)
def test_another_form_is_refused(given, reason) -> None:
    with pytest.raises(ls.InvalidRequest, match=reason):
        from_ui([given])


def test_a_result_needs_its_call() -> None:
    with pytest.raises(ls.InvalidRequest, match="no call 'c9'"):
        to_ui([ls.Message.tool([ToolResult("c9", "x")])])
    with pytest.raises(ls.InvalidRequest, match="no role 'robot'"):
        to_ui([ls.Message("", "robot", (Text("Hi"),))])
