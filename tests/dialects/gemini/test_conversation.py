"""Messages as contents: roles, parts, signatures, calls and their results."""

from __future__ import annotations

import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.gemini import VERTEX, Gemini
from llmstream.dialects.history_parts import mint_call_id
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.request import Request

FLASH = "gemini-2.5-flash"
FLASH_3 = "gemini-3-flash-preview"
SIGNED = {"google": {"thought_signature": "c2ln"}}
SKIP = "skip_thought_signature_validator"
PNG = b"\x89PNG\r\n\x1a\n"
PNG64 = "iVBORw0KGgo="


def encode(*messages, model=FLASH, dialect=Gemini()):
    return dialect.encode(Request(model=model, messages=messages), provider="google")


def contents(*messages, warnings=0, **options):
    encoded = encode(*messages, **options)
    assert len(encoded.warnings) == warnings, encoded.warnings
    return [(one["role"], one["parts"]) for one in encoded.http.json()["contents"]]


def model_parts(*parts, **options):
    return contents(Message.user("?"), Message.assistant(*parts), **options)[1][1]


def user_parts(*parts, **options):
    return contents(Message.user(*parts), **options)[0][1]


def test_neighbours_of_one_role_are_one_turn():
    assert contents(Message.user("a"), Message.user("b"), Message.assistant("c"), Message.assistant("d")) == [
        ("user", [{"text": "a"}, {"text": "b"}]),
        ("model", [{"text": "c"}, {"text": "d"}]),
    ]


def test_system_messages_are_gathered():
    encoded = encode(Message.system("a"), Message.user("?"), Message.system("b"))
    assert encoded.http.json()["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}]}
    assert len(encoded.warnings) == 1


def test_gemma_instructions_in_first_turn():
    encoded = encode(Message.system("Be brief."), Message.user("Hello"), model="gemma-3-27b-it")
    assert encoded.http.json() == {
        "contents": [{"role": "user", "parts": [{"text": "Be brief.\n\n"}, {"text": "Hello"}]}]
    }


def test_a_conversation_begins_with_the_user():
    found = contents(Message.assistant("Hi"), Message.user("Hello"), warnings=1)
    assert [role for role, _ in found] == ["user", "model", "user"]


@pytest.mark.parametrize(
    "messages", [(), (Message.user(),), (Message.system("s"),), (Message("", "x", (c.Text("a"),)),)]
)
def test_what_is_no_conversation(messages):
    with pytest.raises(InvalidRequest):
        encode(*messages)


def test_unsigned_empty_texts_are_left_out():
    assert model_parts(c.Text(""), c.Text("a"), c.Text("", SIGNED)) == [
        {"text": "a"},
        {"text": "", "thoughtSignature": "c2ln"},
    ]


def test_signed_parts_go_back_as_they_came():
    assert model_parts(c.Reasoning("r", SIGNED), c.Text("a", SIGNED), c.Text("b")) == [
        {"text": "r", "thought": True, "thoughtSignature": "c2ln"},
        {"text": "a", "thoughtSignature": "c2ln"},
        {"text": "b"},
    ]


def test_foreign_reasoning_is_not_the_models():
    foreign = c.Reasoning("r", {"anthropic": {"signature": "x"}})
    redacted = c.Reasoning("", {"anthropic": {"redacted_data": "x"}})
    assert model_parts(foreign, redacted, "a", warnings=1) == [{"text": "a"}]


def test_unsigned_reasoning_goes_back():
    assert model_parts(c.Reasoning("r"), "a") == [{"text": "r", "thought": True}, {"text": "a"}]


# media


def test_media_by_bytes():
    assert user_parts(
        c.Image(data=PNG),
        c.Audio(data=b"x", media_type="audio/wav"),
        c.Document(data=b"%PDF-1.7"),
        c.Document(data=b"a,b", filename="t.csv"),
        c.Image(url=f"data:image/png;base64,{PNG64}"),
    ) == [
        {"inlineData": {"mimeType": "image/png", "data": PNG64}},
        {"inlineData": {"mimeType": "audio/wav", "data": "eA=="}},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0xLjc="}},
        {"inlineData": {"mimeType": "text/csv", "data": "YSxi"}},
        {"inlineData": {"mimeType": "image/png", "data": PNG64}},
    ]


FILES = "https://generativelanguage.googleapis.com/v1beta/files/abc"


@pytest.mark.parametrize(
    ("url", "mime"),
    [
        ("gs://bucket/a.png", "image/png"),
        (FILES, None),
        ("https://youtu.be/x", "video/mp4"),
        ("https://www.youtube.com/watch?v=x", "video/mp4"),
        ("https://a.example/b.jpg?c=d", "image/jpeg"),
    ],
)
def test_media_at_urls_that_google_reads(url, mime):
    told = {"mimeType": mime} if mime else {}
    assert user_parts(c.Image(url=url)) == [{"fileData": {**told, "fileUri": url}}]


@pytest.mark.parametrize("url", ["s3://b/c.png", "file:///etc/passwd", "ftp://a/b"])
def test_media_at_urls_google_does_not_read(url):
    with pytest.raises(Unsupported, match="Download it"):
        encode(Message.user(c.Image(url=url)))


def test_older_models_fetch_no_web_urls():
    with pytest.raises(Unsupported, match="Download it"):
        encode(Message.user(c.Image(url="https://a.example/b.png")), model="gemini-2.0-flash")
    assert user_parts(c.Image(url="gs://b/c.png"), model="gemini-2.0-flash")


def test_vertex_needs_a_media_type_for_urls():
    with pytest.raises(Unsupported, match="Set media_type"):
        encode(Message.user(c.Document(url="https://a.example/b")), dialect=VERTEX)


@pytest.mark.parametrize("part", [c.Image(), c.Image(data=b"?"), c.Image(url="data:image/png;base64,!")])
def test_media_without_content_or_type(part):
    with pytest.raises(Unsupported):
        encode(Message.user(part))


def test_what_stands_beside_media_goes_along():
    part = c.Document(url="https://youtu.be/x", metadata={"google": {"video_metadata": {"fps": 2}}})
    assert user_parts(part)[0]["videoMetadata"] == {"fps": 2}


def test_files_the_model_made_go_back():
    draft = c.File("image/png", data=PNG, metadata={"llmstream": {"reasoning": True}})
    assert model_parts(c.File("image/png", data=PNG, metadata=SIGNED), draft) == [
        {"inlineData": {"mimeType": "image/png", "data": PNG64}, "thoughtSignature": "c2ln"},
        {"inlineData": {"mimeType": "image/png", "data": PNG64}, "thought": True},
    ]
    assert model_parts("a", c.File("image/png", url="ftp://x/y"), warnings=1) == [{"text": "a"}]


def test_foreign_parts_are_left_out():
    assert model_parts(
        "a", c.Custom("openai.compaction"), c.Source("url", url="https://a.example"), warnings=1
    ) == [{"text": "a"}]


# calls and results


def turn(*calls, results=(), after=(), **options):
    return contents(Message.user("?"), Message.assistant(*calls), Message.tool(results), *after, **options)[
        1:
    ]


def test_calls_carry_the_vendors_ids():
    call, result = c.ToolCall("x1", "f", '{"a": 1.0}'), c.ToolResult("x1", "ok")
    assert turn(call, results=[result]) == [
        ("model", [{"functionCall": {"id": "x1", "name": "f", "args": {"a": 1.0}}}]),
        ("user", [{"functionResponse": {"id": "x1", "name": "f", "response": {"output": "ok"}}}]),
    ]


def test_minted_ids_are_not_sent():
    """Vertex gets no ids at all."""
    minted = mint_call_id()
    for call_id, dialect in ((minted, Gemini()), ("x1", VERTEX)):
        found = turn(c.ToolCall(call_id, "f"), results=[c.ToolResult(call_id, "ok")], dialect=dialect)
        assert found == [
            ("model", [{"functionCall": {"name": "f", "args": {}}}]),
            ("user", [{"functionResponse": {"name": "f", "response": {"output": "ok"}}}]),
        ]


@pytest.mark.parametrize(
    ("arguments", "args"),
    [("", {}), ("{}", {}), ('{"a": 1}', {"a": 1}), ("[1]", {"input": [1]}), ("broken", {"input": "broken"})],
)
def test_arguments_are_objects(arguments, args):
    (part,) = turn(c.ToolCall("x", "f", arguments), results=[c.ToolResult("x", "")])[0][1]
    assert part["functionCall"]["args"] == args


@pytest.mark.parametrize(
    ("result", "response"),
    [
        (c.ToolResult("x", "ok"), {"output": "ok"}),
        (c.ToolResult("x", '{"a": 1}'), {"a": 1}),
        (c.ToolResult("x", "[1, 2]"), {"output": [1, 2]}),
        (c.ToolResult("x", '{"error": 1}'), {"output": {"error": 1}}),
        (c.ToolResult("x", "{broken"), {"output": "{broken"}),
        (c.ToolResult("x", "no", is_error=True), {"error": "no"}),
        (c.ToolResult("x", "5", metadata={"google": {"response": {"result": 5}}}), {"result": 5}),
    ],
)
def test_results_are_objects(result, response):
    assert turn(c.ToolCall("x", "f"), results=[result])[1][1][0]["functionResponse"]["response"] == response


def test_results_stand_alone_in_call_order():
    found = turn(
        c.ToolCall("x", "f"),
        c.ToolCall("y", "g"),
        results=[c.ToolResult("y", "2"), c.ToolResult("x", "1")],
        after=[Message.user("And?")],
    )
    assert [[next(iter(part)) for part in parts] for _, parts in found] == [
        ["functionCall", "functionCall"],
        ["functionResponse", "functionResponse"],
        ["text"],
    ]
    assert [part["functionResponse"]["name"] for part in found[1][1]] == ["f", "g"]


def test_result_images_go_inside_or_beside():
    result = c.ToolResult("x", "see", parts=(c.Image(data=PNG),))
    image = {"inlineData": {"mimeType": "image/png", "data": PNG64}}
    new = turn(c.ToolCall("x", "f", metadata=SIGNED), results=[result], model=FLASH_3)
    assert new[1][1][0]["functionResponse"]["parts"] == [image]
    far = c.ToolResult("x", "see", parts=(c.Image(url="gs://b/c.png"),))
    new = turn(c.ToolCall("x", "f", metadata=SIGNED), results=[far], model=FLASH_3)
    assert "parts" not in new[1][1][0]["functionResponse"]
    assert new[2][1][1] == {"fileData": {"mimeType": "image/png", "fileUri": "gs://b/c.png"}}
    old = turn(c.ToolCall("x", "f"), results=[result])
    assert "parts" not in old[1][1][0]["functionResponse"]
    assert old[2] == ("user", [{"text": "This belongs to the result of f:"}, image])


def test_calls_without_a_result_are_closed():
    found = turn(c.ToolCall("x", "f"), c.ToolCall("y", "g"), results=[c.ToolResult("x", "1")], warnings=1)
    assert [part["functionResponse"]["response"] for part in found[1][1]] == [
        {"output": "1"},
        {"error": "The tool was not run."},
    ]
    found = contents(
        Message.user("?"), Message.assistant(c.ToolCall("x", "f")), Message.user("!"), warnings=1
    )
    assert [next(iter(parts[0])) for _, parts in found] == [
        "text",
        "functionCall",
        "functionResponse",
        "text",
    ]


def test_result_without_a_call_becomes_text():
    found = contents(Message.user("?"), Message.tool([c.ToolResult("x", "ok", name="f")]), warnings=1)
    assert found == [("user", [{"text": "?"}, {"text": "Result of the tool f: ok"}])]


def test_turn_in_several_messages_is_joined():
    found = contents(
        Message.user("?"),
        Message.assistant(c.ToolCall("x", "f")),
        Message.assistant(c.ToolCall("y", "g")),
        Message.tool([c.ToolResult("x", "1"), c.ToolResult("y", "2")]),
        Message.assistant("done"),
    )
    assert [len(parts) for _, parts in found] == [1, 2, 2, 1]


# signatures of calls


def test_gemini_3_gets_a_sentinel_signature():
    """Where the first call lost its own."""
    calls = [c.ToolCall("x", "f"), c.ToolCall("y", "g")]
    results = [c.ToolResult("x", ""), c.ToolResult("y", "")]
    parts = turn(*calls, results=results, model=FLASH_3)[0][1]
    assert [part.get("thoughtSignature") for part in parts] == [SKIP, None]
    parts = turn(*calls, results=results)[0][1]
    assert [part.get("thoughtSignature") for part in parts] == [None, None]


def test_first_calls_signature_is_enough():
    calls = [c.ToolCall("x", "f", metadata=SIGNED), c.ToolCall("y", "g")]
    parts = turn(*calls, results=[c.ToolResult("x", ""), c.ToolResult("y", "")], model=FLASH_3)[0][1]
    assert [part.get("thoughtSignature") for part in parts] == ["c2ln", None]


# tools that the vendor ran


def test_what_google_ran_goes_back():
    code = {"outcome": "OUTCOME_OK", "output": "1"}
    typed = {"google": {"tool_type": "FILE_SEARCH", "thought_signature": "c2ln"}}
    assert model_parts(
        c.ToolCall("x", "code_execution", '{"language":"PYTHON","code":"1"}', True, SIGNED),
        c.ToolResult("x", "", result=code, provider_executed=True),
        c.ToolCall("y", "file_search", '{"q": 1}', True, typed),
        c.ToolResult("y", "", result={"n": 1}, provider_executed=True, metadata=typed),
        c.Custom("google.code_execution_result", {"google": {"outcome": "OUTCOME_OK"}}),
    ) == [
        {"executableCode": {"language": "PYTHON", "code": "1", "id": "x"}, "thoughtSignature": "c2ln"},
        {"codeExecutionResult": {**code, "id": "x"}},
        {"toolCall": {"toolType": "FILE_SEARCH", "id": "y", "args": {"q": 1}}, "thoughtSignature": "c2ln"},
        {
            "toolResponse": {"toolType": "FILE_SEARCH", "id": "y", "response": {"n": 1}},
            "thoughtSignature": "c2ln",
        },
        {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
    ]


def test_what_another_vendor_ran_is_left_out():
    call = c.ToolCall("x", "web_search", '{"query": "a"}', True, {"anthropic": {"type": "server_tool_use"}})
    result = c.ToolResult("x", "[]", result=[], provider_executed=True)
    assert model_parts("a", call, result, warnings=2) == [{"text": "a"}]
