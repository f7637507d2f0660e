"""Messages of Vercel's AI SDK, read and written."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.chats import (
    Document,
    Image,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    UIPart,
    dump_messages,
    from_ui,
    load_messages,
    to_openai,
    to_ui,
)
from llmstream.chats.content import outcome_mark, outcome_of
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.request import Request

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
    dynamic = {"llmstream": {"ui": {"dynamic": True}}}
    assert message.tool_calls == [ToolCall("c1", "look", "{}", metadata=dynamic)]
    (written,) = to_ui([ls.Message.assistant(ToolCall("c1", "look"))])
    assert written["parts"][1]["state"] == "input-available"


CARRIED = {
    "id": "a2",
    "role": "assistant",
    "experimental": 1,
    "parts": [
        {"type": "step-start"},
        {"type": "data-x", "id": "d", "data": {"n": 1}},
        {"type": "smell", "of": "roses"},
        {"type": "reasoning", "text": "Hm.", "id": "r1", "providerMetadata": {"acme": {"signature": "s"}}},
        {
            "type": "dynamic-tool",
            "toolName": "look",
            "title": "Look around",
            "toolCallId": "c1",
            "state": "output-denied",
            "input": {},
            "approval": {"id": "ap1", "approved": False, "reason": "no"},
            "callProviderMetadata": {"acme": {"id": "x"}},
        },
        {
            "type": "tool-look",
            "toolCallId": "c2",
            "state": "output-available",
            "input": {},
            "output": 1,
            "approval": {"id": "ap2", "approved": True},
            "resultProviderMetadata": {"acme": {"y": 1}},
        },
        {
            "type": "tool-look",
            "toolCallId": "c3",
            "state": "approval-responded",
            "input": {},
            "approval": {"id": "ap3", "approved": True},
        },
    ],
}


def test_unknown_parts_are_carried() -> None:
    """They are written again, and no vendor is sent them."""
    messages = load_messages(dump_messages(from_ui([CARRIED])))
    assert to_ui(messages) == [CARRIED]
    data, smell = messages[0].parts[:2]
    assert (data, smell) == (UIPart(CARRIED["parts"][1]), UIPart(CARRIED["parts"][2]))
    request = Request(model="m", messages=tuple(messages))
    encoded = OpenAIChat().encode(request, provider="openai")
    assert "part" not in str(encoded.warnings)
    assert b"smell" not in encoded.http.body
    assert b"Look around" not in encoded.http.body


def test_denied_call_has_the_mark() -> None:
    """And, without a page, an approval: the packages refuse a denied call that has none."""
    results = from_ui([CARRIED])[1].tool_results
    assert [outcome_of(result.metadata) for result in results] == ["denied", None]
    call = ls.Message.assistant(ToolCall("c1", "look"))
    denied = ToolResult("c1", "no", True, "look", metadata=outcome_mark("denied"))
    (written,) = to_ui([call, ls.Message.tool([denied])])
    assert written["parts"][1]["state"] == "output-denied"
    assert written["parts"][1]["approval"] == {"id": "c1", "approved": False}


def test_waiting_call_has_its_approval() -> None:
    (written,) = to_ui([ls.Message.assistant(ToolCall("c1", "look"))], {"c1": "ap1"})
    assert written["parts"][1]["state"] == "approval-requested"
    assert written["parts"][1]["approval"] == {"id": "ap1"}


def test_page_parts_stay_out_of_other_forms() -> None:
    (message,) = from_ui(
        [{"role": "user", "parts": [{"type": "data-x", "data": 1}, {"type": "text", "text": "a"}]}]
    )
    assert to_openai([message]) == [{"role": "user", "content": "a"}]
    assert "UIPart('data-x')" in repr(message)


def test_unknown_state_is_a_call_alone() -> None:
    part = {"type": "tool-look", "toolCallId": "c1", "state": [], "input": {}}
    (message,) = from_ui([{"id": "1", "role": "assistant", "parts": [part]}])
    assert message.tool_calls == [ToolCall("c1", "look", "{}")]


def test_turns_with_two_ids_are_two() -> None:
    """Also where no user message stands between them."""
    turns = [ls.Message.assistant(name).with_meta("id", name) for name in ("a", "b")]
    assert [message["id"] for message in to_ui([*turns, ls.Message.assistant("c")])] == ["a", "b"]


def test_own_metadata_is_not_for_the_page() -> None:
    """Neither does a page write it."""
    answer = ls.Message.assistant("Hi").with_meta("llmstream", {"id": "resp_1"}).with_meta("usage", 1)
    (written,) = to_ui([answer])
    assert written["metadata"] == {"usage": 1}
    (read,) = from_ui([{**written, "metadata": {"llmstream": {"id": "forged"}}}])
    assert read.metadata == {"id": "message-0"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("Hi", "is no"),
        ({"role": "user"}, "is no"),
        ({"role": "robot", "parts": []}, "has the role 'robot'"),
        ({"role": "user", "parts": ["Hi"]}, "part 0 is not a dict"),
        ({"role": "user", "parts": [{"text": "smell"}]}, "not a dict with a type"),
        ({"role": "assistant", "parts": [{"type": "tool-look"}]}, "toolCallId"),
        (
            {"role": "assistant", "parts": [{"type": "tool-look", "toolCallId": [], "state": []}]},
            "toolCallId",
        ),
    ],
)
def test_another_form_is_refused(given, reason) -> None:
    with pytest.raises(ls.InvalidRequest, match=reason):
        from_ui([given])


def test_a_result_needs_its_call() -> None:
    with pytest.raises(ls.InvalidRequest, match="no call 'c9'"):
        to_ui([ls.Message.tool([ToolResult("c9", "x")])])
    with pytest.raises(ls.InvalidRequest, match="the role 'robot'"):
        to_ui([ls.Message("", "robot", (Text("Hi"),))])


def test_repeated_call_ids_are_two_parts() -> None:
    """As in the events of a run; in another turn they are what they were."""
    turn = [
        ls.Message.assistant(ToolCall("c", "look", "{}")),
        ls.Message.tool([ToolResult("c", "1")]),
        ls.Message.assistant(ToolCall("c", "look", "{}")),
        ls.Message.tool([ToolResult("c", "2")]),
    ]
    first, _, second = to_ui([*turn, ls.Message.user("Again"), *turn])
    for written in (first, second):
        calls = [part for part in written["parts"] if part["type"] == "tool-look"]
        assert [(call["toolCallId"], call["output"]) for call in calls] == [("c", 1), ("1/c", 2)]
    waiting = to_ui(turn[:3], {"c": "approval"})[0]["parts"][-1]
    assert (waiting["toolCallId"], waiting["approval"]) == ("1/c", {"id": "approval"})


def test_a_deeply_nested_result_is_text() -> None:
    nested = "[" * 200_000 + "]" * 200_000
    call, result = ToolCall("c1", "fetch"), ToolResult("c1", nested)
    (turn,) = to_ui([ls.Message.assistant(call), ls.Message.tool([result])])
    assert turn["parts"][-1]["output"] == nested


def test_repeated_message_ids_stay_apart() -> None:
    """Stored twice, or equal to a number of ours; a further response of a turn is not a repetition."""

    def told(role: str, text: str, name: str | None = None) -> ls.Message:
        return ls.Message("", role, (Text(text),), None if name is None else {"id": name})

    messages = [
        told("user", "0", "u"),
        told("assistant", "1", "a"),
        told("assistant", "more"),
        told("user", "2", "u"),
        told("assistant", "3", "a"),
        told("assistant", "more", "a"),
        told("user", "4", "message-5"),
        told("assistant", "5"),
    ]
    found = to_ui(messages)
    assert [message["id"] for message in found] == ["u", "a", "u.2", "a.2", "message-5", "message-5.2"]
    texts = [[part["text"] for part in message["parts"] if part["type"] == "text"] for message in found]
    assert texts == [["0"], ["1", "more"], ["2"], ["3", "more"], ["4"], ["5"]]
    assert to_ui(from_ui(found)) == found
