"""Messages as turns: order, echoes, media, and what is left out."""

from __future__ import annotations

import base64

import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.anthropic import BEDROCK_INVOKE, Anthropic, Quirks
from llmstream.dialects.anthropic.messages import Conversation
from llmstream.dialects.requests import RequestWarnings
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.events import OtherWarning
from llmstream.request import Request

PNG = b"\x89PNG\r\n\x1a\nrest"
HELLO = Message.user("Hello")


def encode(*messages, dialect=Anthropic()):
    return dialect.encode(Request(model="claude-sonnet-4-5", messages=messages), provider="anthropic")


def turns(*messages, dialect=Anthropic()):
    return encode(*messages, dialect=dialect).http.json()["messages"]


def only_block(part, role="user"):
    message = Message("", role, (part,))
    messages = (message,) if role == "user" else (HELLO, message, HELLO)
    return turns(*messages)[0 if role == "user" else 1]["content"][0]


def told(**fields):
    return {"anthropic": fields}


# order


def test_neighbours_of_one_role_are_one_turn():
    sent = turns(Message.user("a"), Message.user("b"), Message.assistant("c"), Message.assistant("d"))
    assert [(t["role"], [b["text"] for b in t["content"]]) for t in sent] == [
        ("user", ["a", "b"]),
        ("assistant", ["c", "d"]),
    ]


def test_results_come_first_in_user_turn():
    sent = turns(
        HELLO,
        Message.assistant(c.ToolCall("t1", "f"), c.ToolCall("t2", "f")),
        Message.tool([c.ToolResult("t1", "1")]),
        Message.user("and?"),
        Message.tool([c.ToolResult("t2", "2")]),
    )
    assert [b["type"] for b in sent[2]["content"]] == ["tool_result", "tool_result", "text"]


def test_calls_come_last_in_assistant_turn():
    sent = turns(
        HELLO, Message.assistant(c.ToolCall("t1", "f"), "after"), Message.tool([c.ToolResult("t1", "1")])
    )
    assert [b["type"] for b in sent[1]["content"]] == ["text", "tool_use"]


def test_system_texts_move_to_the_top():
    encoded = encode(Message.system("one"), HELLO, Message.system("two"))
    assert encoded.http.json()["system"] == [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert len(encoded.http.json()["messages"]) == 1
    assert len(encoded.warnings) == 1


def test_cache_marks_pass_through():
    mark = told(cache_control={"type": "ephemeral"})
    system = Message("", "system", (c.Text("s", mark),))
    sent = encode(system, Message.user(c.Text("u", mark))).http.json()
    assert sent["system"] == [{"type": "text", "text": "s", **mark["anthropic"]}]
    assert sent["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}


def test_empty_texts_are_left_out():
    assert turns(Message.user("", " \n", "x"))[0]["content"] == [{"type": "text", "text": "x"}]


def test_an_empty_conversation_is_invalid():
    with pytest.raises(InvalidRequest, match="empty"):
        encode(Message.system("s"), Message.user(""))


def test_prefill_loses_trailing_white_space():
    assert turns(HELLO, Message.assistant("The tide is \n"))[1]["content"][0]["text"] == "The tide is"
    assert turns(HELLO, Message.assistant("kept "), HELLO)[1]["content"][0]["text"] == "kept "


def test_an_unknown_role_is_invalid():
    with pytest.raises(InvalidRequest, match="critic"):
        encode(Message("", "critic", (c.Text("x"),)))


# reasoning


def test_signed_thinking_is_echoed_exactly():
    block = only_block(c.Reasoning("why ", told(signature="sig==")), "assistant")
    assert block == {"type": "thinking", "thinking": "why ", "signature": "sig=="}


def test_hidden_thinking_is_echoed_signed():
    block = only_block(c.Reasoning("", told(signature="sig")), "assistant")
    assert block == {"type": "thinking", "thinking": "", "signature": "sig"}


def test_redacted_thinking_is_echoed_exactly():
    block = only_block(c.Reasoning("", told(redacted_data="x==")), "assistant")
    assert block == {"type": "redacted_thinking", "data": "x=="}


@pytest.mark.parametrize(
    ("quirk", "content"),
    [
        ("drop", [{"type": "text", "text": "so"}]),
        ("text", [{"type": "text", "text": "why"}, {"type": "text", "text": "so"}]),
        ("keep", [{"type": "thinking", "thinking": "why", "signature": ""}, {"type": "text", "text": "so"}]),
    ],
)
def test_unsigned_thinking(quirk, content):
    dialect = Anthropic(quirks=Quirks(unsigned_thinking=quirk))
    encoded = encode(HELLO, Message.assistant(c.Reasoning("why"), "so"), HELLO, dialect=dialect)
    assert encoded.http.json()["messages"][1]["content"] == content
    assert len(encoded.warnings) == (quirk != "keep")


# calls and results


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ("", {}),
        ('{"a": 1.0}', {"a": 1.0}),
        ("[1]", {"input": [1]}),
        ('"s"', {"input": "s"}),
        ("{broken", {"input": "{broken"}),
    ],
)
def test_the_input_of_a_call_is_an_object(arguments, sent):
    assert only_block(c.ToolCall("t1", "f", arguments), "assistant")["input"] == sent


def test_arguments_are_sent_as_written():
    body = encode(HELLO, Message.assistant(c.ToolCall("t1", "f", '{"b":1e2,  "a":1}'))).http.body
    assert b'"input":{"b":1e2,  "a":1}' in body


def test_foreign_ids_are_replaced_both_ways():
    sent = turns(
        HELLO, Message.assistant(c.ToolCall("call.1:x", "f")), Message.tool([c.ToolResult("call.1:x", "r")])
    )
    assert sent[1]["content"][0]["id"] == sent[2]["content"][0]["tool_use_id"] == "call_1_x"


def test_a_failed_result_says_so():
    block = only_block(c.ToolResult("t1", "boom", is_error=True))
    assert block == {"type": "tool_result", "tool_use_id": "t1", "content": "boom", "is_error": True}


def test_result_images_go_into_its_content():
    block = only_block(c.ToolResult("t1", "see", parts=(c.Image(data=PNG),)))
    assert [piece["type"] for piece in block["content"]] == ["text", "image"]
    assert [p["type"] for p in only_block(c.ToolResult("t1", "", parts=(c.Image(data=PNG),)))["content"]] == [
        "image"
    ]


def test_vendor_calls_echo_in_assistant_turn():
    call = c.ToolCall("srv1", "web_search", '{"q":1}', True, told(type="server_tool_use"))
    hits = [{"type": "web_search_result", "url": "https://a.example", "encrypted_content": "x"}]
    result = c.ToolResult(
        "srv1", "ignored", result=hits, provider_executed=True, metadata=told(type="web_search_tool_result")
    )
    sent = turns(HELLO, Message.assistant(call), Message.tool([result]), Message.assistant("so"), HELLO)
    assert [t["role"] for t in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"] == [
        {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"q": 1}},
        {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": hits},
        {"type": "text", "text": "so"},
    ]


def test_mcp_results_say_whether_they_failed():
    result = c.ToolResult("m1", result=[], provider_executed=True, metadata=told(type="mcp_tool_result"))
    assert only_block(result, "assistant")["is_error"] is False


def test_what_another_vendor_ran_is_left_out():
    call = c.ToolCall("x", "search", provider_executed=True, metadata={"openai": {"id": "1"}})
    result = c.ToolResult("x", "r", provider_executed=True)
    encoded = encode(HELLO, Message.assistant(call, result, "so"), HELLO)
    assert [b["type"] for b in encoded.http.json()["messages"][1]["content"]] == ["text"]
    assert len(encoded.warnings) == 2


def test_citations_are_echoed_with_text():
    cited = c.Text("so", told(citations=[{"type": "page_location"}]))
    source = c.Source("url", url="https://a.example")
    sent = turns(HELLO, Message.assistant(cited, source), HELLO)
    assert sent[1]["content"] == [{"type": "text", "text": "so", "citations": [{"type": "page_location"}]}]


def test_vendor_only_blocks_are_echoed():
    block = {"type": "compaction", "content": "Earlier."}
    assert only_block(c.Custom("anthropic.compaction", told(**block)), "assistant") == block


@pytest.mark.parametrize(
    "part",
    [
        c.Custom("openai.thing"),
        c.File("image/png", data=PNG),
        c.UnknownPart("poll", b'{"kind":"poll"}'),
        c.Reasoning("thoughts of a user"),
    ],
)
def test_parts_without_a_block_are_warned_of(part):
    encoded = encode(Message.user("x", part))
    assert [b["type"] for b in encoded.http.json()["messages"][0]["content"]] == ["text"]
    assert [type(w) for w in encoded.warnings] == [OtherWarning]


# media


def test_bytes_go_as_base64_with_their_type():
    assert only_block(c.Image(data=PNG)) == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()},
    }
    assert only_block(c.Document(data=b"%PDF-1.7"))["source"]["media_type"] == "application/pdf"
    assert only_block(c.Image(data=b"RIFF1234WEBP"))["source"]["media_type"] == "image/webp"
    assert only_block(c.Image(data=b"x", media_type="image/jpg"))["source"]["media_type"] == "image/jpeg"


def test_data_urls_go_as_bytes_urls_as_urls():
    url = "https://a.example/b.png"
    assert only_block(c.Image(url=url))["source"] == {"type": "url", "url": url}
    data = "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert only_block(c.Image(url=data))["source"]["media_type"] == "image/png"


def test_documents_carry_title_and_the_rest():
    part = c.Document(
        data=b"Facts.", media_type="text/markdown", filename="facts.md", metadata=told(context="c")
    )
    assert only_block(part) == {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Facts."},
        "title": "facts.md",
        "context": "c",
    }


def test_files_are_named_by_their_id():
    assert only_block(c.Document(metadata=told(file_id="file_1"))) == {
        "type": "document",
        "source": {"type": "file", "file_id": "file_1"},
    }


@pytest.mark.parametrize(
    "part",
    [
        c.Audio(data=b"x", media_type="audio/wav"),
        c.Image(),
        c.Image(data=b"?"),
        c.Image(data=b"%PDF-", media_type="application/pdf"),
        c.Document(data=b"PK", media_type="application/zip"),
        c.Document(data=PNG, media_type="image/png"),
        c.Image(url="data:image/png;base64,***"),
    ],
)
def test_unknown_content_is_unsupported(part):
    with pytest.raises(Unsupported):
        encode(Message.user(part))


def test_bedrock_takes_no_urls():
    with pytest.raises(Unsupported, match="does not support URLs"):
        encode(Message.user(c.Image(url="https://a.example/b.png")), dialect=BEDROCK_INVOKE)


def placed(*messages):
    """The prompt, the turns and the warnings for a model that knows system turns."""
    warnings = RequestWarnings()
    conversation = Conversation(provider="anthropic", quirks=Quirks(), warnings=warnings, system_turns=True)
    conversation.read(messages)
    return [block["text"] for block in conversation.system], conversation.messages, warnings


CALLED = Message.assistant(c.ToolCall("c1", "look", "{}"))
LATER = Message.system("Answer in French.")


def test_later_instructions_stay_if_allowed():
    result = Message.tool([c.ToolResult("c1", "found")])
    system, turns, warnings = placed(Message.system("Be brief."), Message.user("Hi"), CALLED, LATER, result)
    assert (system, warnings) == (["Be brief."], [])
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user", "system"]
    assert turns[-1]["content"] == [{"type": "text", "text": "Answer in French."}]


def test_system_text_after_open_call_moves():
    system, _, warnings = placed(Message.user("Hi"), CALLED, LATER)
    assert (system, len(warnings)) == (["Answer in French."], 1)
