"""Conversations as input items: what goes back as it came, what travels, what is left out."""

from __future__ import annotations

import base64
import json

import pytest

from llmstream import events as ev
from llmstream.accumulate import Accumulator
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
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.dialects.openai_responses import InputQuirks, OpenAIResponses, Quirks, ThinkingQuirks
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.events import OtherWarning
from llmstream.request import Request

PNG = b"\x89PNG\r\n\x1a\n"


def encode(*messages, quirks=Quirks(), provider="openai", model="gpt-5.4", **options):
    request = Request(model=model, messages=messages, provider_options={"openai": options})
    return OpenAIResponses(quirks).encode(request, provider=provider)


def items(*messages, **options):
    encoded = encode(*messages, **options)
    assert encoded.warnings == []
    return encoded.http.json()["input"]


def own(**kept):
    return {"openai": kept}


def user(text="Hi"):
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


def words(encoded):
    return [w.message for w in encoded.warnings if isinstance(w, OtherWarning)]


# System.


def test_first_system_text_is_instructions():
    """Later system messages stay in place."""
    messages = [Message.system("One."), Message.user("Hi"), Message.system("Two.")]
    sent = encode(*messages).http.json()
    developer = {"role": "developer", "content": [{"type": "input_text", "text": "Two."}]}
    assert (sent["instructions"], sent["input"]) == ("One.", [user(), developer])
    assert encode(*messages, model="gpt-4.1").http.json()["input"][1]["role"] == "system"


def test_a_system_message_may_keep_its_role():
    message = Message("", "system", (Text("One.", own(role="system")),))
    assert items(message, Message.user("Hi"))[0]["role"] == "system"
    assert items(Message("", "developer", (Text("One."),)), Message.user("Hi"))[0]["role"] == "developer"


def test_system_messages_may_go_into_input():
    quirks = Quirks(input=InputQuirks(system="message", system_role="system"))
    assert items(Message.system("One."), Message.user("Hi"), quirks=quirks)[0]["role"] == "system"


def test_a_system_message_alone_is_the_input():
    sent = encode(Message.system("Say hi.")).http.json()
    assert "instructions" not in sent
    assert sent["input"][0]["role"] == "developer"


# Users.


def test_media_by_url_by_bytes_and_by_id():
    parts = (
        "Look:",
        Image(url="https://a.example/a.png", metadata=own(detail="low")),
        Image(data=PNG),
        Image(metadata=own(file_id="file-1")),
        Document(url="https://a.example/a.pdf"),
        Document(data=b"%PDF-", media_type="application/pdf", filename="b.pdf"),
        Document(data=b"a,b", media_type="text/csv"),
        Document(metadata=own(file_id="file-2")),
    )
    data = base64.b64encode(PNG).decode()
    assert items(Message.user(*parts))[0]["content"] == [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": "https://a.example/a.png", "detail": "low"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "file_url": "https://a.example/a.pdf"},
        {"type": "input_file", "filename": "b.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        {"type": "input_file", "filename": "document.csv", "file_data": "data:text/csv;base64,YSxi"},
        {"type": "input_file", "file_id": "file-2"},
    ]


def test_unsupported_audio_is_refused():
    recording = Audio(data=b"x", media_type="audio/wav")
    with pytest.raises(Unsupported, match="audio"):
        encode(Message.user(recording))
    (item,) = items(Message.user(recording), quirks=Quirks(input=InputQuirks(audio=True)))
    assert item["content"][0]["input_audio"] == {"data": "eA==", "format": "wav"}


def test_unknown_roles_are_refused():
    with pytest.raises(InvalidRequest, match="narrator"):
        encode(Message.new_text("", "narrator", "x"))


# Answers that go back.


def answered(recording):
    """What a conversation keeps of an answer, saved and loaded."""
    accumulator = Accumulator()
    for line in recording.with_suffix(".jsonl").read_bytes().splitlines():
        accumulator.feed(ev.decode(line))
    (message,) = load_messages(dump_messages([accumulator.message]))
    return message


def test_text_goes_back_with_id_and_phase():
    text = Text("done", own(item_id="msg_1", phase="final_answer", provider="openai"))
    assert items(Message.user("Hi"), Message.assistant(text))[1] == {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "phase": "final_answer",
        "content": [{"type": "output_text", "text": "done"}],
    }


def test_parts_of_one_message_item_join():
    parts = [Text("a", own(item_id="msg_1")), Text("b", own(item_id="msg_1")), Text("c")]
    sent = items(Message.assistant(*parts))
    assert [[piece["text"] for piece in item["content"]] for item in sent] == [["a", "b"], ["c"]]


def test_a_refusal_goes_back_as_one():
    (item,) = items(Message.assistant(Text("No.", own(refusal=True))))
    assert item["content"] == [{"type": "refusal", "refusal": "No."}]


def test_annotations_go_back_without_sources():
    note = {"type": "url_citation", "url": "https://a.example"}
    parts = (Text("a", own(annotations=[note], logprobs=[1])), Source("url", url="https://a.example"))
    (item,) = items(Message.assistant(*parts))
    assert item["content"] == [{"type": "output_text", "text": "a", "annotations": [note]}]


def test_reasoning_of_one_id_is_one_item():
    """The last encrypted form wins."""
    parts = (
        Reasoning("first", own(item_id="rs_1", provider="openai")),
        Reasoning("second", own(item_id="rs_1", encrypted_content="e", provider="openai", format="f")),
        ToolCall("call_1", "look", "{}", metadata=own(type="function_call", item_id="fc_1")),
    )
    result = Message.tool([ToolResult("call_1", "sun")])
    assert items(Message.user("Hi"), Message("", "assistant", parts), result)[1:] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [
                {"type": "summary_text", "text": "first"},
                {"type": "summary_text", "text": "second"},
            ],
            "encrypted_content": "e",
            "format": "f",
        },
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}", "id": "fc_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "sun"},
    ]


def test_encrypted_only_reasoning_goes_back():
    parts = (Reasoning("", own(item_id="rs_1", encrypted_content="e")), Text("a"))
    first, _ = items(Message("", "assistant", parts))
    assert first == {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}


def test_plain_reasoning_needs_a_stored_item():
    """Without its encrypted form it goes back only where it is stored."""
    parts = (Reasoning("a", own(item_id="rs_1")), Text("b", own(item_id="msg_1")))
    message = Message("", "assistant", parts)
    assert [item["type"] for item in items(message, store=True)] == ["reasoning", "message"]
    encoded = encode(message)
    (item,) = encoded.http.json()["input"]
    assert "id" not in item
    assert len(words(encoded)) == 1


def test_unused_reasoning_is_left_out():
    parts = (Text("a"), Reasoning("b", own(item_id="rs_1", encrypted_content="e")))
    encoded = encode(Message("", "assistant", parts), Message.user("Go on."))
    assert [item.get("type") for item in encoded.http.json()["input"]] == ["message", None]
    assert "no item follows it" in words(encoded)[0]


def test_repeated_stored_reasoning_omitted():
    """An id stands for it once; a second time the API refuses it, and without it nothing is left."""
    answer = Message(
        "",
        "assistant",
        (Reasoning("hm", own(item_id="rs_1")), Text("a", own(item_id="msg_1"))),
    )
    ask = Message.user("Go on.")
    encoded = encode(answer, ask, answer, ask, store=True)
    sent = [(i.get("type", i.get("role")), i.get("id")) for i in encoded.http.json()["input"]]
    assert sent == [
        ("reasoning", "rs_1"),
        ("message", "msg_1"),
        ("user", None),
        ("message", None),
        ("user", None),
    ]
    assert len(words(encoded)) == 1


def test_repeated_encrypted_loses_its_id():
    kept = own(item_id="rs_1", encrypted_content="e")
    answer = Message("", "assistant", (Reasoning("hm", kept), Text("a", own(item_id="msg_1"))))
    sent = encode(answer, Message.user("Go on."), answer, Message.user("Go on.")).http.json()["input"]
    reasoning = [(i.get("id"), i["encrypted_content"]) for i in sent if i.get("type") == "reasoning"]
    assert reasoning == [("rs_1", "e"), (None, "e")]


@pytest.mark.parametrize(
    "metadata",
    [
        {"anthropic": {"signature": "s"}},
        {"openai": {"provider": "azure", "item_id": "rs_1"}},
        {"llmstream": {"origin": "deepseek"}},
    ],
)
def test_foreign_reasoning_is_left_out(metadata):
    """Also where it needs no signature."""
    message = Message("", "assistant", (Reasoning("hm", metadata), Text("a")))
    for plain in (False, True):
        encoded = encode(message, quirks=Quirks(thinking=ThinkingQuirks(plain=plain)))
        assert [item["type"] for item in encoded.http.json()["input"]] == ["message"]
        assert len(words(encoded)) == 1


def test_unmarked_reasoning_goes_bare():
    """Where bare reasoning is supported."""
    message = Message("", "assistant", (Reasoning("hm"), Text("a")))
    first, _ = items(message, quirks=Quirks(thinking=ThinkingQuirks(plain=True)))
    assert first == {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }


def test_bare_reasoning_goes_to_open_models():
    kept = own(item_id="rs_1", part="reasoning_text", provider="lmstudio")
    message = Message("", "assistant", (Reasoning("hm", kept), Text("a")))
    first, _ = items(message, quirks=Quirks(thinking=ThinkingQuirks(plain=True)), provider="lmstudio")
    assert first["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert first["id"] == "rs_1"


def test_ids_do_not_go_to_another_provider():
    """Nor do encrypted forms, though it speaks the same wire."""
    parts = (
        Reasoning("a", own(item_id="rs_1", encrypted_content="e", provider="xai")),
        Text("b", own(item_id="msg_1", provider="xai", phase="p")),
        ToolCall("c1", "look", "{}", metadata=own(type="function_call", item_id="fc", provider="xai")),
    )
    encoded = encode(Message("", "assistant", parts), Message.tool([ToolResult("c1", "x")]))
    sent = encoded.http.json()["input"]
    assert [item["type"] for item in sent] == ["message", "function_call", "function_call_output"]
    assert not any("id" in item for item in sent)


def test_rotated_ids_do_not_go_back():
    parts = (Reasoning("", own(item_id="r", encrypted_content="e")), Text("b", own(item_id="m")))
    sent = items(Message("", "assistant", parts), quirks=Quirks(input=InputQuirks(item_ids=False)))
    assert not any("id" in item for item in sent)


def test_custom_call_and_output_are_custom():
    call = ToolCall("c1", "sql", "SELECT 1", metadata=own(type="custom_tool_call", item_id="ctc_1"))
    bare = ToolCall("c2", "sql", "{}", metadata=own(type="custom_tool_call", input=""))
    results = Message.tool([ToolResult("c1", "1"), ToolResult("c2", "2")])
    assert items(Message.assistant(call, bare), results) == [
        {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1", "id": "ctc_1"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "sql", "input": ""},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "1"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "2"},
    ]


def test_call_keeps_namespace_and_caller():
    extra = {"namespace": "crm", "caller": {"type": "program", "caller_id": "p"}}
    call = ToolCall("c1", "look", "", metadata=own(type="function_call", item_id="fc", **extra))
    item, _ = items(Message.assistant(call), Message.tool([ToolResult("c1", "x")]))
    assert item == {
        "type": "function_call",
        "call_id": "c1",
        "name": "look",
        "arguments": "{}",
        "id": "fc",
        **extra,
    }


def test_results_may_hold_images_and_files():
    call = ToolCall("c1", "look", "{}")
    result = ToolResult("c1", "see", parts=(Image(url="https://a.example/a.png"), Document(data=b"%PDF-")))
    output = items(Message.assistant(call), Message.tool([result]))[1]["output"]
    assert [part["type"] for part in output] == ["input_text", "input_image", "input_file"]


def test_a_structured_result_is_json_text():
    result = ToolResult("c1", result={"a": 1})
    assert items(Message.assistant(ToolCall("c1", "f")), Message.tool([result]))[1]["output"] == '{"a":1}'


def test_user_message_results_come_first():
    message = Message.user("And now?", ToolResult("c1", "x"))
    sent = items(Message.assistant(ToolCall("c1", "f")), message)
    assert [item.get("type", item.get("role")) for item in sent] == [
        "function_call",
        "function_call_output",
        "user",
    ]


def test_long_foreign_ids_shorten_alike():
    long = "toolu_" + "x" * 80
    call, output = items(Message.assistant(ToolCall(long, "f")), Message.tool([ToolResult(long, "x")]))
    assert call["call_id"] == output["call_id"]
    assert len(call["call_id"]) <= 64


def test_results_are_matched_to_calls():
    """A call without a result gets one; a result without a call is left out."""
    encoded = encode(
        Message.assistant(ToolCall("c1", "f"), ToolCall("c2", "f")),
        Message.tool([ToolResult("c2", "x"), ToolResult("c9", "y")]),
    )
    sent = encoded.http.json()["input"]
    outputs = {item["call_id"]: item["output"] for item in sent if "output" in item}
    assert outputs == {"c1": "No result: the call was not run.", "c2": "x"}
    assert len(words(encoded)) == 2


def test_result_of_a_stored_call_is_sent():
    (item,) = items(Message.tool([ToolResult("c9", "y")]), previous_response_id="resp_1")
    assert item == {"type": "function_call_output", "call_id": "c9", "output": "y"}


def test_ids_reused_in_a_later_turn():
    """Bedrock's open models count their calls from the same id in each turn (pydantic-ai, 2026-07)."""
    turn = [Message.assistant(ToolCall("call_0", "f")), Message.tool([ToolResult("call_0", "x")])]
    sent = items(*turn, *turn)
    assert [item["type"] for item in sent] == ["function_call", "function_call_output"] * 2


# Tools that only this API knows.


@pytest.mark.parametrize(
    ("item", "result", "output"),
    [
        (
            {"type": "shell_call", "action": {"commands": ["ls"], "max_output_length": 9}},
            ToolResult("c1", "a\n"),
            {
                "type": "shell_call_output",
                "output": [{"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
                "max_output_length": 9,
            },
        ),
        (
            {"type": "shell_call", "action": {"commands": ["ls"]}},
            ToolResult("c1", '{"output":[{"stdout":"a"}]}'),
            {"type": "shell_call_output", "output": [{"stdout": "a"}]},
        ),
        (
            {"type": "local_shell_call", "action": {}},
            ToolResult("c1", "a"),
            {"type": "local_shell_call_output", "output": "a"},
        ),
        (
            {"type": "apply_patch_call", "operation": {}},
            ToolResult("c1", "no such file", is_error=True),
            {"type": "apply_patch_call_output", "status": "failed", "output": "no such file"},
        ),
        (
            {"type": "apply_patch_call", "operation": {}},
            ToolResult("c1"),
            {"type": "apply_patch_call_output", "status": "completed"},
        ),
        (
            {"type": "computer_call", "action": {}},
            ToolResult("c1", parts=(Image(data=PNG, media_type="image/png"),)),
            {
                "type": "computer_call_output",
                "output": {
                    "type": "computer_screenshot",
                    "image_url": "data:image/png;base64," + base64.b64encode(PNG).decode(),
                },
            },
        ),
        (
            {"type": "tool_search_call", "execution": "client"},
            ToolResult("c1", '{"tools":[{"type":"function","name":"a"}]}'),
            {
                "type": "tool_search_output",
                "execution": "client",
                "status": "completed",
                "tools": [{"type": "function", "name": "a"}],
            },
        ),
    ],
)
def test_each_call_kind_has_its_own_output(item, result, output):
    item = {"id": "it_1", "call_id": "c1", **item}
    call = ToolCall("c1", "x", "{}", metadata=own(type=item["type"], item=item, provider="openai"))
    first, second = items(Message.assistant(call), Message.tool([result]))
    assert first == item
    assert second == {"call_id": "c1", **output}


def test_vendor_calls_go_back_from_result():
    item = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"query": "q"}}
    kept = own(type="web_search_call", provider="openai", item_id="ws_1")
    parts = (
        ToolCall("ws_1", "web_search", "{}", True, kept),
        ToolResult("ws_1", result=item, provider_executed=True, metadata=kept),
        Text("a"),
    )
    first, _ = items(Message("", "assistant", parts))
    assert first == item


@pytest.mark.parametrize("kept", [None, own(type="web_search_call", provider="xai")])
def test_foreign_vendor_calls_are_left_out(kept):
    parts = (
        ToolCall("s1", "web_search", "{}", True, kept),
        ToolResult("s1", result={"a": 1}, provider_executed=True, metadata=kept),
        Text("a"),
    )
    encoded = encode(Message("", "assistant", parts))
    assert len(encoded.http.json()["input"]) == 1
    assert words(encoded)


@pytest.mark.parametrize(
    ("result", "approve", "reason"),
    [
        (ToolResult("mcpr_1", "true"), True, None),
        (ToolResult("mcpr_1", "false"), False, None),
        (ToolResult("mcpr_1", "yes"), True, None),
        (ToolResult("mcpr_1", "too dear", is_error=True), False, "too dear"),
    ],
)
def test_approval_is_its_requests_result(result, approve, reason):
    item = {"id": "mcpr_1", "type": "mcp_approval_request", "name": "pay", "arguments": "{}"}
    kept = own(type="mcp_approval_request", item=item, provider="openai")
    request = Message.assistant(ToolCall("mcpr_1", "pay", "{}", True, kept))
    first, second = items(request, Message.tool([result]))
    answer = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": approve}
    assert (first, second) == (item, answer | ({"reason": reason} if reason else {}))


def test_only_own_compaction_goes_back():
    item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "e"}
    mine = Custom("openai.compaction", own(type="compaction", item=item, provider="openai"))
    encoded = encode(Message("", "assistant", (mine, Custom("google.x", {"google": {}}), Text("a"))))
    assert encoded.http.json()["input"][0] == item
    assert len(words(encoded)) == 1


def test_model_files_are_warned_of():
    encoded = encode(Message.assistant(File("image/png", data=PNG), Text("a")))
    assert len(encoded.http.json()["input"]) == 1
    assert words(encoded) == ["a file of type 'image/png' was left out: none can go back"]


# Whole answers, saved and loaded.


def test_an_answer_goes_back_item_by_item(recording):
    frames = recording.read_bytes().split(b"\n\n")
    wanted = [
        json.loads(frame.split(b"data: ")[1])["item"] for frame in frames if b"output_item.done" in frame
    ]
    message = answered(recording)
    if recording.stem == "cut_input":
        assert message.parts == ()  # a call that broke off is none, and does not go back
        return
    results = [ToolResult(call.id, "x") for call in message.tool_calls if not call.provider_executed]
    quirks = Quirks(thinking=ThinkingQuirks(plain=True))
    sent = items(message, *([Message.tool(results)] if results else []), quirks=quirks)
    assert [plain(item) for item in sent[: len(wanted)]] == [plain(item) for item in wanted]
    assert len(sent) == len(wanted) + len(results)


def plain(item):
    """An item without what says nothing in the input."""
    if item["type"] not in ("message", "reasoning", "function_call", "custom_tool_call"):
        return item
    item = {k: v for k, v in item.items() if k != "status" and v != []}
    for piece in item.get("content", ()):
        for name in ("annotations", "logprobs"):
            if not piece.get(name):
                piece.pop(name, None)
    return {k: v for k, v in item.items() if not (k == "summary" and not v)}


def test_chat_custom_call_stays_custom():
    call = ToolCall("c1", "sql", "SELECT 1", metadata=own(type="custom_tool_call"))
    sent = items(Message.user("Hi"), Message.assistant(call), Message.tool([ToolResult("c1", "1")]))
    assert sent[1] == {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"}
    assert sent[2]["type"] == "custom_tool_call_output"


def test_foreign_custom_call_is_a_function():
    call = ToolCall("c1", "sql", "SELECT 1", metadata={"acme": {"type": "custom_tool_call"}})
    sent = items(Message.user("Hi"), Message.assistant(call), Message.tool([ToolResult("c1", "1")]))
    assert (sent[1]["type"], sent[1]["arguments"]) == ("function_call", '{"input":"SELECT 1"}')


def test_calls_stand_together_where_required():
    """DeepSeek joins calls with what stands beside them, so a text between two parts them."""
    first, second = ToolCall("c1", "look", "{}"), ToolCall("c2", "look", "{}")
    results = Message.tool([ToolResult("c1", "one"), ToolResult("c2", "two")])
    conversation = (Message.user("Hi"), Message.assistant(first, Text("And then."), second), results)

    def kinds(quirks):
        return [item.get("type", item.get("role")) for item in items(*conversation, quirks=quirks)]

    calls, outputs = ["function_call"] * 2, ["function_call_output"] * 2
    assert kinds(Quirks(input=InputQuirks(calls_last=True))) == ["user", "message", *calls, *outputs]
    assert kinds(Quirks()) == ["user", "function_call", "message", "function_call", *outputs]
