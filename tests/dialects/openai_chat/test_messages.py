"""Our messages as this wire's."""

from __future__ import annotations

import pytest

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.chats.message import Message
from llmstream.dialects.openai_chat.messages import MessageWriter
from llmstream.dialects.openai_chat.quirks import MediaQuirks, Quirks, ReasoningQuirks, ToolQuirks
from llmstream.dialects.requests import RequestWarnings
from llmstream.errors import InvalidRequest, Unsupported


def write(*messages, quirks=Quirks()):
    return MessageWriter(quirks, provider="acme", system_role="system", warnings=RequestWarnings()).write(
        messages
    )


def test_system_messages_stay_in_place():
    roles = [m["role"] for m in write(Message.user("a"), Message.system("b"), Message.user("c"))]
    assert roles == ["user", "system", "user"]


def test_a_turn_with_calls_and_results():
    call = ToolCall("c1", "f", "")
    assert write(
        Message.user("a"),
        Message.assistant(call),
        Message.tool([ToolResult("c1", "ok"), ToolResult("c2", "", is_error=True, result={"x": 1})]),
        Message.assistant("done"),
    ) == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "tool", "tool_call_id": "c2", "content": 'Error: {"x":1}'},
        {"role": "assistant", "content": "done"},
    ]  # fmt: skip


def test_text_beside_calls_is_kept():
    out = write(Message.assistant("one", ToolCall("c", "f", "{}"), "two"))[0]
    assert (out["content"], len(out["tool_calls"])) == ("onetwo", 1)


def test_media_go_as_bytes_or_url():
    message = Message.user(
        "look",
        Image(url="https://x.example/a.png", metadata={"acme": {"detail": "low"}}),
        Image(data=b"\1\2\3", media_type="image/webp"),
        Audio(data=b"\1", media_type="audio/mpeg"),
        Document(data=b"%PDF", media_type="application/pdf", filename="a.pdf"),
        Document(data=b"plain", media_type="text/plain"),
        Document(metadata={"acme": {"file_id": "file-1"}}),
    )
    assert write(message)[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://x.example/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/webp;base64,AQID"}},
        {"type": "input_audio", "input_audio": {"data": "AQ==", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "text", "text": "plain"},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]


@pytest.mark.parametrize(
    ("part", "quirks"),
    [
        (Document(url="https://x.example/a.pdf"), Quirks()),
        (Audio(url="https://x.example/a.mp3"), Quirks()),
        (Audio(data=b"\1", media_type="audio/ogg"), Quirks()),
        (Image(url="https://x.example/a.png"), Quirks(media=MediaQuirks(image_urls=False))),
        (Image(data=b"\1"), Quirks(media=MediaQuirks(string_only=True))),
    ],
)
def test_unsendable_content_is_refused(part, quirks):
    with pytest.raises(Unsupported):
        write(Message.user("a", part), quirks=quirks)


def test_quirks_allow_what_others_refuse():
    quirks = Quirks(media=MediaQuirks(file_urls=True, audio_formats=None))
    parts = (Document(url="https://x.example/a.pdf"), Audio(data=b"\1", media_type="audio/ogg"))
    file, audio = write(Message.user(*parts), quirks=quirks)[0]["content"]
    assert file["file"]["file_data"] == "https://x.example/a.pdf"
    assert audio["input_audio"]["format"] == "ogg"


def test_result_files_follow_all_results():
    image = Image(data=b"\1\2\3", media_type="image/png")
    out = write(
        Message.assistant(ToolCall("a", "f"), ToolCall("b", "f")),
        Message.tool([ToolResult("a", "see", parts=(image,))]),
        Message.tool([ToolResult("b", "ok")]),
        Message.user("and?"),
    )
    assert [m["role"] for m in out] == ["assistant", "tool", "tool", "user", "user"]
    assert [part["type"] for part in out[3]["content"]] == ["text", "image_url"]
    assert "a" in out[3]["content"][0]["text"]


def test_user_message_results_come_first():
    out = write(Message.user("next", ToolResult("a", "ok")))
    assert [m["role"] for m in out] == ["tool", "user"]


def test_several_texts_are_parts_or_a_string():
    assert len(write(Message.user("a", "b"))[0]["content"]) == 2
    assert (
        write(Message.user("a", "b"), quirks=Quirks(media=MediaQuirks(string_only=True)))[0]["content"]
        == "a\nb"
    )


def test_cache_control_stays_on_its_part():
    part = Text("long", {"acme": {"cache_control": {"type": "ephemeral"}}})
    expected = [{"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}]
    assert write(Message.user(part))[0]["content"] == expected


HISTORY = (
    Message.user("q1"),
    Message.assistant(Reasoning("old"), "a1"),
    Message.user("q2"),
    Message.assistant(Reasoning("new"), ToolCall("c", "f")),
    Message.tool([ToolResult("c", "ok")]),
    Message.assistant("a2"),
)


@pytest.mark.parametrize(
    ("quirks", "expected"),
    [
        (Quirks(), [None, None, None]),
        (
            Quirks(reasoning=ReasoningQuirks(field="reasoning_content", echo="current-turn")),
            [None, "new", None],
        ),
        (Quirks(reasoning=ReasoningQuirks(field="reasoning_content", echo="all")), ["old", "new", None]),
        (
            Quirks(reasoning=ReasoningQuirks(field="reasoning_content", echo="all", echo_empty=True)),
            ["old", "new", ""],
        ),
    ],
)
def test_reasoning_goes_back_as_vendor_wants(quirks, expected):
    out = [m for m in write(*HISTORY, quirks=quirks) if m["role"] == "assistant"]
    assert [m.get("reasoning_content") for m in out] == expected


def test_all_reasoning_details_go_back():
    def kept(*details):
        return {"acme": {"reasoning_details": list(details)}}

    text = {"type": "reasoning.text", "index": 0, "text": "hm"}
    late = {"type": "reasoning.text", "index": 0, "signature": "s"}
    message = Message.assistant(
        Reasoning("hm", kept(text)), ToolCall("c", "f"), Custom("acme.reasoning_details", kept(late))
    )
    out = write(message, quirks=Quirks(reasoning=ReasoningQuirks(field="reasoning_details", echo="all")))[0]
    assert out["reasoning"] == "hm"
    assert out["reasoning_details"] == [{**text, "signature": "s"}]


SIGNED = Quirks(reasoning=ReasoningQuirks(field="reasoning_text", echo="all"))


@pytest.mark.parametrize(
    "parts",
    [
        (Reasoning("hm", {"acme": {"reasoning_opaque": "s"}}), Text("a")),
        (Reasoning("hm"), Text("a"), Custom("acme.reasoning_opaque", {"acme": {"reasoning_opaque": "s"}})),
    ],
)
def test_signed_reasoning_keeps_signature(parts):
    writer = MessageWriter(SIGNED, provider="acme", system_role="system", warnings=RequestWarnings())
    (out,) = writer.write([Message.assistant(*parts)])
    assert out == {"role": "assistant", "content": "a", "reasoning_text": "hm", "reasoning_opaque": "s"}
    assert writer.warnings == []


def test_a_signature_alone_goes_back():
    late = Custom("acme.reasoning_opaque", {"acme": {"reasoning_opaque": "s"}})
    out = write(Message.assistant(ToolCall("c", "f"), late), quirks=SIGNED)[0]
    assert (out["reasoning_opaque"], "reasoning_text" in out) == ("s", False)


def test_unsigned_reasoning_stays_out():
    writer = MessageWriter(SIGNED, provider="acme", system_role="system", warnings=RequestWarnings())
    assert "reasoning_text" not in writer.write([Message.assistant(Reasoning("hm"), "a")])[0]
    assert "signature" in writer.warnings[0].message


@pytest.mark.parametrize(("text", "more"), [("SELECT 1", {}), ("{}", {"input": ""})])
def test_a_custom_call_goes_back_as_one(text, more):
    call = ToolCall("c", "sql", text, metadata={"acme": {"type": "custom_tool_call", **more}})
    custom = {"name": "sql", "input": more.get("input", text)}
    out = write(Message.assistant(call))[0]["tool_calls"]
    assert out == [{"id": "c", "type": "custom", "custom": custom}]


def test_foreign_custom_call_is_a_function():
    call = ToolCall("c", "sql", "SELECT 1", metadata={"openai": {"type": "custom_tool_call"}})
    function = write(Message.assistant(call))[0]["tool_calls"][0]["function"]
    assert function == {"name": "sql", "arguments": '{"input":"SELECT 1"}'}


def test_thought_signature_goes_on_its_call():
    extra = {"google": {"thought_signature": "s"}}
    out = write(Message.assistant(ToolCall("c", "f", "{}", metadata={"acme": {"extra_content": extra}})))
    assert out[0]["tool_calls"][0]["extra_content"] == extra


def test_vendor_tool_runs_do_not_go_back():
    writer = MessageWriter(Quirks(), provider="acme", system_role="system", warnings=RequestWarnings())
    parts = (
        ToolCall("c", "search", provider_executed=True),
        ToolResult("c", provider_executed=True),
        "found",
        Source("url", url="https://x.example"),
        File("image/png", data=b"\1"),
        File("audio/pcm", data=b"\1", metadata={"acme": {"audio_id": "au_1"}}),
    )
    out = writer.write([Message.assistant(*parts)])
    assert out == [{"role": "assistant", "content": "found", "audio": {"id": "au_1"}}]
    assert len(writer.warnings) == 2


def test_a_role_nobody_knows_is_refused():
    with pytest.raises(InvalidRequest):
        write(Message.new_text("", "narrator", "once"))
    assert write(Message.new_text("", "developer", "rules"))[0]["role"] == "system"


def test_too_long_ids_are_replaced():
    """In calls and results alike."""
    ids = ["weather_of_every_city_in_the_world_" + end * 20 for end in "ab"]
    results = Message.tool([ToolResult(i) for i in ids])
    messages = [Message.assistant(*(ToolCall(i, "f") for i in ids)), results]
    answer, *results = write(*messages)
    sent = [call["id"] for call in answer["tool_calls"]]
    assert [result["tool_call_id"] for result in results] == sent
    assert len(set(sent)) == 2
    assert all(len(call_id) <= 40 for call_id in sent)
    answer, *_ = write(*messages, quirks=Quirks(tools=ToolQuirks(max_call_id_chars=None)))
    assert [call["id"] for call in answer["tool_calls"]] == ids
