"""What becomes of messages on the way to Bedrock, and what is added so that it takes them."""

from __future__ import annotations

import base64

import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.request import Request

CLAUDE = "anthropic.claude-sonnet-4-20250514-v1:0"
LLAMA = "meta.llama3-1-70b-instruct-v1:0"
MISTRAL = "mistral.mistral-large-2407-v1:0"
DEEPSEEK = "deepseek.v3-v1:0"
PNG = b"\x89PNG\r\n\x1a\n"


def encode(*messages, model=CLAUDE):
    return BedrockConverse().encode(Request(model=model, messages=messages), provider="bedrock")


def turns(*messages, model=CLAUDE):
    return encode(*messages, model=model).http.json()["messages"]


def content(*parts, model=CLAUDE):
    """The blocks of one user's turn."""
    (turn,) = turns(Message.user(*parts), model=model)
    return turn["content"]


def answered(*parts, model=CLAUDE):
    """The blocks of an assistant's turn between two of the user."""
    return turns(Message.user("a"), Message.assistant(*parts), Message.user("b"), model=model)[1]["content"]


def bedrock(**fields):
    return {"bedrock": fields}


# texts and order


def test_blank_texts_are_left_out():
    assert content("", " \n", "Hi") == [{"text": "Hi"}]


def test_an_empty_conversation_is_refused():
    with pytest.raises(InvalidRequest, match="empty"):
        encode(Message.user(" "))


def test_an_unknown_role_is_refused():
    with pytest.raises(InvalidRequest, match="critic"):
        encode(Message.new_text("", "critic", "Hi"))


def test_neighbours_of_one_role_are_one_turn():
    assert turns(Message.user("a"), Message.user("b")) == [
        {"role": "user", "content": [{"text": "a"}, {"text": "b"}]}
    ]


def test_the_user_begins():
    encoded = encode(Message.assistant("Hello."), Message.user("Hi"))
    assert [turn["role"] for turn in encoded.http.json()["messages"]] == ["user", "assistant", "user"]
    assert "requires the user to begin" in encoded.warnings[0].message


def test_prefill_loses_trailing_white_space():
    assert turns(Message.user("a"), Message.assistant("It is \n"))[-1]["content"] == [{"text": "It is"}]


def test_system_messages_stand_at_the_top():
    encoded = encode(Message.system("A"), Message.user("Hi"), Message.system("B"), Message.system(" "))
    assert encoded.http.json()["system"] == [{"text": "A"}, {"text": "B"}]
    assert "moved to the top" in encoded.warnings[0].message


def test_system_picture_is_warned_of():
    encoded = encode(Message("", "system", (c.Image(data=PNG),)), Message.user("Hi"))
    assert "system" not in encoded.http.json()
    assert len(encoded.warnings) == 1


# media


def test_media_by_their_types():
    parts = [
        c.Image(data=PNG),
        c.Image(data=b"j", media_type="image/jpg"),
        c.Document(data=b"%PDF-1", filename="a.pdf"),
        c.Document(data=b"d", media_type="application/msword", filename="b.doc"),
        c.Document(data=b"{}", media_type="application/json", filename="c.json"),
        c.Document(data=b"t", media_type="text/x-python", filename="d.py"),
        c.Document(data=b"v", media_type="video/3gpp"),
        c.Audio(data=b"s", media_type="audio/mpeg"),
    ]
    blocks = content("Look.", *parts, model="a-model-that-hears")[1:]
    kinds = [(kind, value["format"]) for block in blocks for kind, value in block.items()]
    assert kinds == [
        ("image", "png"),
        ("image", "jpeg"),
        ("document", "pdf"),
        ("document", "doc"),
        ("document", "txt"),
        ("document", "txt"),
        ("video", "three_gp"),
        ("audio", "mp3"),
    ]
    assert blocks[0]["image"]["source"] == {"bytes": base64.b64encode(PNG).decode()}


@pytest.mark.parametrize("model", [CLAUDE, "amazon.nova-pro-v1:0", "openai.gpt-oss-120b-1:0"])
def test_no_audio_for_a_model_without_it(model):
    with pytest.raises(Unsupported, match="transcript"):
        content(c.Audio(data=b"s", media_type="audio/mpeg"), model=model)


def test_audio_goes_to_a_model_that_hears():
    recording = c.Audio(data=b"s", media_type="audio/mpeg")
    (block, *_) = content(recording, model="mistral.voxtral-small-24b-2507")
    assert block == {"audio": {"format": "mp3", "source": {"bytes": "cw=="}}}


def test_media_in_buckets_and_data_urls():
    owned = c.Image(url="s3://b/a.png", metadata=bedrock(bucket_owner="123456789012"))
    inline = c.Image(url="data:image/png;base64,YQ==")
    blocks = content(owned, inline)
    assert blocks[0]["image"]["source"] == {
        "s3Location": {"uri": "s3://b/a.png", "bucketOwner": "123456789012"}
    }
    assert blocks[1]["image"] == {"format": "png", "source": {"bytes": "YQ=="}}


@pytest.mark.parametrize(
    "part",
    [
        c.Image(url="https://a.example/a.png"),
        c.Image(),
        c.Image(data=b"x"),
        c.Image(data=b"x", media_type="image/tiff"),
        c.Image(url="data:image/png;base64,*"),
        c.Document(data=b"x", media_type="application/zip"),
        c.Audio(url="https://a.example/a.mp3"),
    ],
)
def test_unsupported_media_are_refused(part):
    with pytest.raises(Unsupported):
        encode(Message.user("Look.", part))


def test_what_may_stay_a_url():
    accepts = BedrockConverse().accepts_url
    assert accepts(c.Image(url="s3://b/a.png"))
    assert accepts(c.Image(url="data:image/png;base64,YQ=="))
    assert accepts(c.File(url="https://a.example/a.png"))
    assert not accepts(c.Document(url="https://a.example/a.pdf"))
    assert not accepts(c.Audio(url="data:audio/wav,x"))


def test_names_of_documents_fit_and_differ():
    names = ["My report, v1.2.pdf", "My report, v1.2.PDF", "", "..", "a  b\tc.txt", "x" * 300]
    parts = [c.Document(data=b"x", media_type="text/plain", filename=name) for name in names]
    blocks = content("Look.", *parts)[1:]
    assert [block["document"]["name"] for block in blocks] == [
        "My report- v1-2",
        "My report- v1-2 (2)",
        "document",
        "document (2)",
        "a b c",
        "x" * 200,
    ]


def test_a_document_gets_a_text_beside_it():
    encoded = encode(Message.user(c.Document(data=b"x", media_type="text/plain")))
    assert [set(block) for block in encoded.http.json()["messages"][0]["content"]] == [{"document"}, {"text"}]
    assert len(encoded.warnings) == 1


def test_anthropic_document_options_apply():
    part = c.Document(
        data=b"x", media_type="text/plain", metadata={"anthropic": {"citations": {"enabled": True}}}
    )
    assert content("Look.", part)[1]["document"]["citations"] == {"enabled": True}


# caching


def test_a_cache_point_follows_its_part():
    mark = bedrock(cache_point={"ttl": "1h"})
    assert content(c.Text("a", mark), "b") == [
        {"text": "a"},
        {"cachePoint": {"type": "default", "ttl": "1h"}},
        {"text": "b"},
    ]
    assert content(c.Text("a", bedrock(cache_point=True)))[1] == {"cachePoint": {"type": "default"}}


def test_anthropic_mark_is_a_cache_point():
    """Where the model supports cache points."""
    part = c.Text("a", {"anthropic": {"cache_control": {"type": "ephemeral", "ttl": "5m"}}})
    assert content(part)[1] == {"cachePoint": {"type": "default", "ttl": "5m"}}
    assert content(part, model=LLAMA) == [{"text": "a"}]
    system = encode(Message("", "system", (part,)), Message.user("Hi")).http.json()["system"]
    assert system == [{"text": "a"}, {"cachePoint": {"type": "default", "ttl": "5m"}}]


def test_cache_point_stays_behind_its_result():
    result = c.ToolResult("t1", "r", metadata=bedrock(cache_point=True))
    sent = turns(
        Message.user("a"),
        Message.assistant(c.ToolCall("t1", "f", "{}")),
        Message.user("also"),
        Message.tool([result]),
    )
    assert [set(block) for block in sent[2]["content"]] == [{"toolResult"}, {"cachePoint"}, {"text"}]


def test_vendor_blocks_go_back_verbatim():
    guarded = c.Custom("bedrock.guardContent", bedrock(text={"text": "x"}))
    assert content(guarded) == [{"guardContent": {"text": {"text": "x"}}}]


# reasoning and citations


def test_signed_reasoning_goes_back_verbatim():
    """Redacted reasoning too."""
    blocks = answered(
        c.Reasoning("hm", bedrock(signature="sig")), c.Reasoning("", bedrock(redacted_data="aGk=")), "b"
    )
    assert blocks == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": "aGk="}},
        {"text": "b"},
    ]


def test_unsigned_reasoning_is_warned_of():
    encoded = encode(Message.user("a"), Message.assistant(c.Reasoning("hm"), "b"), Message.user("c"))
    assert encoded.http.json()["messages"][1]["content"] == [{"text": "b"}]
    assert "signature" in encoded.warnings[0].message


def test_anthropic_signatures_are_for_claude():
    signed = c.Reasoning("hm", {"anthropic": {"signature": "sig"}})
    hidden = c.Reasoning("", {"anthropic": {"redacted_data": "ab"}})
    assert answered(signed, hidden)[:2] == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": base64.b64encode(b"ab").decode()}},
    ]
    assert answered(signed, "b", model=DEEPSEEK) == [{"text": "b"}]


def test_citations_go_back_where_supported():
    citation = {"title": "facts", "location": {"documentChar": {"documentIndex": 0, "start": 0, "end": 3}}}
    part = c.Text("So.", bedrock(citations=[citation]))
    assert answered(part) == [{"citationsContent": {"content": [{"text": "So."}], "citations": [citation]}}]
    assert answered(part, model=LLAMA) == [{"text": "So."}]


def test_sources_are_dropped_files_warned_of():
    encoded = encode(
        Message.user("a"),
        Message.assistant("b", c.Source("url", url="https://a.example"), c.File("image/png", data=b"x")),
        Message.user("c"),
    )
    assert encoded.http.json()["messages"][1]["content"] == [{"text": "b"}]
    assert len(encoded.warnings) == 1


# calls and results


def test_calls_stand_last_and_results_first():
    sent = turns(
        Message.user("a"),
        Message.assistant(c.ToolCall("t1", "f", ""), "after"),
        Message.user("and"),
        Message.tool([c.ToolResult("t1", "r", is_error=True)]),
    )
    assert sent[1]["content"] == [
        {"text": "after"},
        {"toolUse": {"toolUseId": "t1", "name": "f", "input": {}}},
    ]
    assert sent[2]["content"] == [
        {"toolResult": {"toolUseId": "t1", "content": [{"text": "r"}], "status": "error"}},
        {"text": "and"},
    ]


@pytest.mark.parametrize(
    ("arguments", "sent"), [('{"a": 1}', {"a": 1}), ("[1]", {"input": [1]}), ("{a", {"input": "{a"})]
)
def test_call_input_is_always_an_object(arguments, sent):
    blocks = turns(Message.user("a"), Message.assistant(c.ToolCall("t", "f", arguments)))[1]["content"]
    assert blocks[0]["toolUse"]["input"] == sent


def test_results_with_pictures_or_no_text():
    picture = c.Image(data=PNG)
    sent = turns(
        Message.user("a"),
        Message.assistant(c.ToolCall("t1", "f"), c.ToolCall("t2", "f")),
        Message.tool([c.ToolResult("t1", "see", parts=(picture,)), c.ToolResult("t2", " ")]),
    )[2]["content"]
    assert [set(piece) for piece in sent[0]["toolResult"]["content"]] == [{"text"}, {"image"}]
    assert sent[1]["toolResult"]["content"] == [{"text": "(no output)"}]


def test_a_recording_in_a_result_is_refused():
    result = c.ToolResult("t1", "", parts=(c.Audio(data=b"x", media_type="audio/wav"),))
    with pytest.raises(Unsupported):
        encode(Message.user("a"), Message.assistant(c.ToolCall("t1", "f")), Message.tool([result]))


def test_a_call_without_a_result_gets_one():
    encoded = encode(Message.user("a"), Message.assistant(c.ToolCall("t1", "f")), Message.user("b"))
    sent = encoded.http.json()["messages"][2]["content"]
    assert sent[0]["toolResult"]["toolUseId"] == "t1"
    assert sent[1] == {"text": "b"}
    last = turns(Message.user("a"), Message.assistant(c.ToolCall("t1", "f")))[-1]
    assert last["content"][0]["toolResult"]["toolUseId"] == "t1"
    assert any("placeholder result" in w.message for w in encoded.warnings)


def test_a_result_without_a_call_is_text():
    encoded = encode(Message.user("a"), Message.tool([c.ToolResult("t9", "r")]))
    assert encoded.http.json()["messages"][0]["content"] == [{"text": "a"}, {"text": "r"}]
    as_json = c.ToolResult("t9", '{"a":1}', metadata=bedrock(json=True))
    assert turns(Message.tool([as_json]))[0]["content"] == [{"text": '{"a":1}'}]


def test_ids_of_other_vendors_fit_and_pair():
    sent = turns(
        Message.user("a"),
        Message.assistant(
            c.ToolCall("call|1", "say it!"), c.ToolCall("call/1", "f"), c.ToolCall("x" * 80, "f")
        ),
        Message.tool([c.ToolResult(name, "r") for name in ("call|1", "call/1", "x" * 80)]),
    )
    uses = [block["toolUse"] for block in sent[1]["content"]]
    ids = [use["toolUseId"] for use in uses]
    assert ids == [block["toolResult"]["toolUseId"] for block in sent[2]["content"]]
    assert len(set(ids)) == 3
    assert all(len(name) <= 64 and not set(name) & set("|/") for name in ids)
    assert uses[0]["name"] == "say_it_"


def test_reused_call_id_names_another_call():
    call, result = c.ToolCall("call_0", "f", "{}"), c.ToolResult("call_0", "r")
    round_of_tools = (Message.assistant(call), Message.tool([result]))
    sent = turns(Message.user("a"), *round_of_tools, *round_of_tools)
    ids = [block["toolUse"]["toolUseId"] for turn in sent for block in turn["content"] if "toolUse" in block]
    assert ids[0] == "call_0"
    assert ids[1] != "call_0"
    assert [turn["content"][0]["toolResult"]["toolUseId"] for turn in sent[2::2]] == ids


def test_mistral_ids_have_nine_characters():
    sent = turns(
        Message.user("a"),
        Message.assistant(c.ToolCall("tooluse_1", "f"), c.ToolCall("abcDEF123", "f")),
        Message.tool([c.ToolResult("tooluse_1", "r"), c.ToolResult("abcDEF123", "r")]),
        model=MISTRAL,
    )
    ids = [block["toolUse"]["toolUseId"] for block in sent[1]["content"]]
    assert ids[1] == "abcDEF123"
    assert len(ids[0]) == 9
    assert ids[0].isalnum()


@pytest.mark.parametrize("model", [LLAMA, MISTRAL])
def test_results_stand_alone_where_required(model):
    sent = turns(
        Message.user("a"),
        Message.assistant(c.ToolCall("t1", "f")),
        Message.tool([c.ToolResult("t1", "r")]),
        Message.user("and?"),
        model=model,
    )
    assert [turn["role"] for turn in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert [set(block) for block in sent[2]["content"]] == [{"toolResult"}]


def test_palmyra_takes_no_status():
    sent = turns(
        Message.user("a"),
        Message.assistant(c.ToolCall("t1", "f")),
        Message.tool([c.ToolResult("t1", "r", is_error=True)]),
        model="writer.palmyra-x5-v1:0",
    )
    result = sent[2]["content"][0]["toolResult"]
    assert "status" not in result
    assert result["content"] == [{"text": "The tool failed:"}, {"text": "r"}]


def test_vendor_calls_go_back_others_warned():
    own = c.ToolCall("g", "nova_grounding", "{}", True, bedrock(type="server_tool_use"))
    result = c.ToolResult(
        "g", "", name="nova_grounding", result=[{"text": "x"}], provider_executed=True,
        metadata=bedrock(type="nova_grounding_result", status="success"),
    )  # fmt: skip
    blocks = answered(own, result, "So.")
    assert blocks[0]["toolUse"]["type"] == "server_tool_use"
    assert blocks[1]["toolResult"] == {
        "toolUseId": "g",
        "content": [{"text": "x"}],
        "type": "nova_grounding_result",
        "status": "success",
    }
    foreign = c.ToolCall("s", "web_search", "{}", True, {"anthropic": {"type": "server_tool_use"}})
    theirs = c.ToolResult("s", "", provider_executed=True, result=[])
    encoded = encode(Message.user("a"), Message.assistant(foreign, theirs, "b"), Message.user("c"))
    assert encoded.http.json()["messages"][1]["content"] == [{"text": "b"}]
    assert len(encoded.warnings) == 2
