"""Requests as the API gets them, and read back."""

from __future__ import annotations

import json

import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.errors import BadRequest, InvalidRequest, Unsupported
from llmstream.events import OtherWarning, UnsupportedSetting
from llmstream.exchange import HttpRequest
from llmstream.request import (
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolSpec,
)
from llmstream.server_side.wires import server_side

FLASH = "gemini-2.5-flash"
DIALECT = GeminiInteractions()
HELLO = (Message.user("Hello"),)
SCHEMA = {"type": "object", "properties": {"day": {"type": "integer"}}}
TOOL = ToolSpec("tide", "Tides of a day", SCHEMA)
SIGNED = {"google": {"signature": "c2ln"}}
PNG = b"\x89PNG\r\n\x1a\n"
PNG64 = "iVBORw0KGgo="


def encode(**fields):
    return DIALECT.encode(Request(**{"model": FLASH, "messages": HELLO, **fields}), provider="google")


def steps(*messages, warnings=0):
    encoded = encode(messages=messages)
    assert len(encoded.warnings) == warnings, encoded.warnings
    return encoded.http.json()["input"]


def read(body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return server_side(DIALECT).decode_request(HttpRequest("/v1beta/interactions", data))


def user(*content):
    return {"type": "user_input", "content": list(content)}


def text(words):
    return {"type": "text", "text": words}


def test_a_plain_request():
    encoded = encode()
    assert encoded.http.url == "/interactions?alt=sse"
    assert encoded.http.headers == {"content-type": "application/json", "api-revision": "2026-05-20"}
    assert encoded.http.json() == {"model": FLASH, "input": [user(text("Hello"))], "stream": True}
    assert encoded.warnings == []


def test_a_request_with_everything():
    encoded = encode(
        messages=(Message.system("Be"), Message.system("brief."), *HELLO),
        tools=(
            TOOL,
            ProviderTool("google_search"),
            ProviderTool("mcp_server", "harbour", {"url": "https://h"}),
        ),
        tool_choice=NamedTool("tide"),
        settings=Settings(temperature=0.5, top_p=0.9, top_k=5, max_output_tokens=9, stop=("a",), seed=1),
        response_format=ResponseFormat(SCHEMA),
        reasoning=ReasoningOptions(effort="low"),
        provider_options={
            "google": {"store": False, "generation_config": {"speech_config": {"voice": "Kore"}}}
        },
        headers={"X-Trace": "7"},
    )
    assert encoded.warnings == []
    assert encoded.http.headers["x-trace"] == "7"
    assert encoded.http.json() == {
        "model": FLASH,
        "input": [user(text("Hello"))],
        "system_instruction": "Be\n\nbrief.",
        "tools": [
            {"type": "function", "name": "tide", "description": "Tides of a day", "parameters": SCHEMA},
            {"type": "google_search"},
            {"type": "mcp_server", "name": "harbour", "url": "https://h"},
        ],
        "response_format": {"type": "text", "mime_type": "application/json", "schema": SCHEMA},
        "generation_config": {
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 5,
            "seed": 1,
            "stop_sequences": ["a"],
            "max_output_tokens": 9,
            "thinking_level": "low",
            "thinking_summaries": "auto",
            "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["tide"]}},
            "speech_config": {"voice": "Kore"},
        },
        "stream": True,
        "store": False,
    }


def test_an_agent_takes_the_models_place():
    found = encode(
        provider_options={"google": {"agent": "deep-research-pro", "background": True}}
    ).http.json()
    assert "model" not in found
    assert found["agent"] == "deep-research-pro"


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({"settings": Settings(presence_penalty=1)}, UnsupportedSetting("presence_penalty")),
        ({"settings": Settings(frequency_penalty=1)}, UnsupportedSetting("frequency_penalty")),
        (
            {"reasoning": ReasoningOptions(budget_tokens=9)},
            UnsupportedSetting("reasoning.budget_tokens", "this API takes an effort and no budget"),
        ),
        (
            {"model": "gemma-3", "reasoning": ReasoningOptions(effort="low")},
            UnsupportedSetting("reasoning", "this model does not support reasoning"),
        ),
    ],
)
def test_unknown_settings_are_left_out(fields, warning):
    assert encode(**fields).warnings == [warning]


@pytest.mark.parametrize(
    "fields",
    [
        {"settings": Settings(temperature=9)},
        {"tools": (TOOL,), "settings": Settings(parallel_tool_calls=False)},
        {"tools": (ProviderTool("google_search"),), "tool_choice": "required"},
    ],
)
def test_what_was_changed_is_told(fields):
    (warning,) = encode(**fields).warnings
    assert isinstance(warning, OtherWarning)


@pytest.mark.parametrize(
    ("choice", "strict", "wire"),
    [("auto", None, "auto"), ("none", None, "none"), ("required", True, "any"), (None, True, "validated")],
)
def test_the_choice_among_tools(choice, strict, wire):
    found = encode(tools=(ToolSpec("f", strict=strict),), tool_choice=choice).http.json()
    assert found["generation_config"] == {"tool_choice": wire}
    assert found["tools"] == [{"type": "function", "name": "f"}]


# the conversation


def test_steps_follow_messages_and_parts():
    """One step for each user message and each part of a model turn."""
    assert steps(
        Message.user("a", "b"),
        Message.assistant(
            c.Reasoning("r", SIGNED), c.Text("c"), c.Text("d"), c.ToolCall("x", "f", '{"n":1}', False, SIGNED)
        ),
        Message.tool([c.ToolResult("x", "ok")]),
        Message.user("e"),
        Message.user("f"),
    ) == [
        user(text("a"), text("b")),
        {"type": "thought", "signature": "c2ln", "summary": [text("r")]},
        {"type": "model_output", "content": [text("c"), text("d")]},
        {"type": "function_call", "id": "x", "name": "f", "arguments": {"n": 1}, "signature": "c2ln"},
        {"type": "function_result", "call_id": "x", "name": "f", "result": "ok"},
        user(text("e")),
        user(text("f")),
    ]


def test_media():
    assert steps(
        Message.user(
            c.Image(data=PNG, metadata={"google": {"resolution": "low", "media_resolution": "x"}}),
            c.Audio(data=b"x", media_type="audio/wav"),
            c.Document(data=b"%PDF-1.7"),
            c.Document(url="https://youtu.be/x"),
            c.Image(url="https://a.example/b"),
        )
    )[0]["content"] == [
        {"type": "image", "data": PNG64, "mime_type": "image/png", "resolution": "low"},
        {"type": "audio", "data": "eA==", "mime_type": "audio/wav"},
        {"type": "document", "data": "JVBERi0xLjc=", "mime_type": "application/pdf"},
        {"type": "video", "uri": "https://youtu.be/x", "mime_type": "video/mp4"},
        {"type": "image", "uri": "https://a.example/b"},
    ]
    with pytest.raises(Unsupported, match="Download it"):
        steps(Message.user(c.Image(url="s3://a/b")))


def test_model_output_goes_back_verbatim():
    """Bytes and their address do not go together; annotations are the reader's."""
    spoken = c.File("audio/l16;rate=24000;channels=1", data=b"x", metadata={"google": {"uri": "gs://b/c"}})
    table = c.Custom("google.content.table", {"google": {"rows": [1]}})
    told = c.Text("a", {"google": {"annotations": [{"type": "word_info"}]}})
    answer = Message("", "assistant", (told, spoken, table))
    assert steps(*HELLO, answer)[1] == {
        "type": "model_output",
        "content": [
            text("a"),
            {"type": "audio", "data": "eA==", "mime_type": "audio/l16", "sample_rate": 24000, "channels": 1},
            {"type": "table", "rows": [1]},
        ],
    }


def test_bare_samples_are_read_at_their_rate():
    audio = {"type": "audio", "data": "eA==", "mime_type": "audio/l16", "sample_rate": 8000, "channels": 1}
    request = read({"model": FLASH, "input": [user(audio)]})
    assert request.messages[0].parts == (c.Audio(data=b"x", media_type="audio/l16;rate=8000;channels=1"),)


def test_results_with_errors_and_images():
    calls = Message.assistant(c.ToolCall("x", "f"), c.ToolCall("y", "g"), c.ToolCall("z", "h"))
    results = Message.tool(
        [
            c.ToolResult("x", "no", is_error=True),
            c.ToolResult("y", "see", parts=(c.Image(data=PNG),)),
            c.ToolResult("z", "5", metadata={"google": {"result": {"n": 5}}}),
        ]
    )
    image = {"type": "image", "data": PNG64, "mime_type": "image/png"}
    assert steps(Message.user("?"), calls, results)[4:] == [
        {"type": "function_result", "call_id": "x", "name": "f", "result": "no", "is_error": True},
        {"type": "function_result", "call_id": "y", "name": "g", "result": [text("see"), image]},
        {"type": "function_result", "call_id": "z", "name": "h", "result": {"n": 5}},
    ]
    document = c.ToolResult("x", "", parts=(c.Document(data=b"%PDF-"),))
    with pytest.raises(Unsupported, match="text and images"):
        steps(Message.user("?"), calls, Message.tool([document]))


def test_calls_without_a_result_are_closed():
    call = Message.assistant(c.ToolCall("x", "f"))
    closed = {
        "type": "function_result",
        "call_id": "x",
        "name": "f",
        "result": "The tool was not run.",
        "is_error": True,
    }
    assert steps(Message.user("?"), call, Message.user("!"), warnings=1)[2] == closed
    assert steps(Message.user("?"), call, warnings=1)[2] == closed


def test_only_google_tool_runs_go_back():
    metadata = {"google": {"type": "google_search_call", "signature": "c2ln"}}
    ours = c.ToolCall("s", "google_search", '{"queries":["q"]}', True, metadata)
    found = c.ToolResult(
        "s",
        "",
        result=[{"url": "u"}],
        provider_executed=True,
        metadata={"google": {"type": "google_search_result"}},
    )
    theirs = c.ToolCall("t", "web_search", "{}", True, {"google": {"tool_type": "GOOGLE_SEARCH"}})
    assert steps(Message.user("?"), Message.assistant(ours, found, theirs, "a"), warnings=1)[1:] == [
        {"type": "google_search_call", "signature": "c2ln", "id": "s", "arguments": {"queries": ["q"]}},
        {"type": "google_search_result", "call_id": "s", "result": [{"url": "u"}]},
        {"type": "model_output", "content": [text("a")]},
    ]


def test_foreign_parts():
    assert steps(
        Message.user("?"),
        Message.assistant(
            c.Reasoning("", {"anthropic": {"redacted_data": "x"}}),
            c.Reasoning("r", {"google": {"thought_signature": "x"}}),
            c.Custom("google.sparkle", {"google": {"glow": 2}}),
            c.Custom("openai.x"),
            c.Source("url"),
        ),
        warnings=2,
    )[1:] == [{"type": "thought", "summary": [text("r")]}, {"type": "sparkle", "glow": 2}]


def test_later_system_messages_move_to_top():
    encoded = encode(messages=(*HELLO, Message.system("s")))
    assert encoded.http.json()["system_instruction"] == "s"
    assert len(encoded.warnings) == 1


@pytest.mark.parametrize("messages", [(), (Message.user(),), (Message("", "x", (c.Text("a"),)),)])
def test_what_is_no_conversation(messages):
    with pytest.raises(InvalidRequest):
        encode(messages=messages)


# read back


def test_which_requests_are_of_this_dialect():
    assert server_side(DIALECT).accepts(HttpRequest("/v1beta/interactions?alt=sse"))
    assert not server_side(DIALECT).accepts(HttpRequest("/v1beta/interactions/v1_x", method="GET"))
    assert not server_side(DIALECT).accepts(HttpRequest("/v1beta/models/m:streamGenerateContent"))


REQUESTS = [
    Request(model=FLASH, messages=HELLO),
    Request(
        model="gemini-3-flash-preview",
        messages=(
            Message.system("Be brief."),
            Message.user("Look:", c.Image(data=PNG, media_type="image/png")),
            Message.assistant(
                c.Reasoning("hm", SIGNED),
                c.Text("I see."),
                c.ToolCall("x1", "tide", '{"day":1}', metadata=SIGNED),
                c.ToolCall("x2", "now", "{}"),
            ),
            Message.tool(
                [
                    c.ToolResult(
                        "x1", "12:03", name="tide", parts=(c.Image(data=PNG, media_type="image/png"),)
                    ),
                    c.ToolResult("x2", "no", True, "now"),
                ]
            ),
            Message.assistant(
                c.ToolCall("s", "google_search", '{"q":1}', True, {"google": {"type": "google_search_call"}}),
                c.ToolResult(
                    "s",
                    '[{"url":"u"}]',
                    name="google_search",
                    result=[{"url": "u"}],
                    provider_executed=True,
                    metadata={"google": {"type": "google_search_result"}},
                ),
                c.File("image/png", data=PNG),
                c.Custom("google.sparkle", {"google": {"glow": 2}}),
            ),
            Message.user(c.Document(url="gs://b/c.pdf", media_type="application/pdf")),
            Message.user("And?"),
        ),
        tools=(TOOL, ProviderTool("file_search", "", {"file_search_store_names": ["s"]})),
        tool_choice="required",
        settings=Settings(temperature=0.5, top_p=0.9, top_k=5, max_output_tokens=9, stop=("a",), seed=1),
        response_format=ResponseFormat(SCHEMA),
        reasoning=ReasoningOptions(effort="medium"),
        provider_options={"google": {"store": False, "previous_interaction_id": "v1_x"}},
    ),
    Request(
        model="m",
        messages=HELLO,
        tools=(TOOL,),
        tool_choice=NamedTool("tide"),
        response_format=ResponseFormat(),
    ),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=range(len(REQUESTS)))
def test_a_request_comes_back_as_it_was(request_):
    encoded = DIALECT.encode(request_, provider="google")
    assert encoded.warnings == []
    assert server_side(DIALECT).decode_request(encoded.http) == request_


@pytest.mark.parametrize(
    "given",
    [
        "Hello",
        [text("Hello")],
        text("Hello"),
        [user(text("Hello"))],
        [{"type": "user_input", "content": "Hello"}],
    ],
)
def test_all_forms_of_an_input(given):
    assert read({"model": "m", "input": given}).messages == HELLO


def test_results_inside_a_turn_of_the_user():
    result = {"type": "function_result", "call_id": "x", "result": {"n": 5}}
    found = read({"model": "m", "input": [user(result, text("Hello"))]})
    assert found.messages == (
        Message.tool([c.ToolResult("x", '{"n":5}', metadata={"google": {"result": {"n": 5}}})]),
        *HELLO,
    )


@pytest.mark.parametrize(
    "more",
    [
        {"generation_config": {"thinking_summaries": "auto"}},
        {"generation_config": {"thinking_level": "low", "thinking_summaries": "none"}},
        {"generation_config": {"tool_choice": "validated"}, "tools": [{"type": "function", "name": "f"}]},
        {"response_format": [{"type": "image", "mime_type": "image/png"}, {"type": "text"}]},
        {"response_modalities": ["image"], "service_tier": "flex"},
    ],
)
def test_what_our_fields_do_not_say_is_kept(more):
    body = {"model": FLASH, "input": [user(text("Hello"))], **more, "stream": True}
    assert DIALECT.encode(read(body), provider="google").http.json() == body


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{nope", "Invalid JSON payload"),
        (b"[]", "Invalid JSON payload"),
        ({"input": "a"}, "Either 'model' or 'agent'"),
        ({"model": "m"}, "'input'"),
        ({"model": "m", "input": []}, "'input'"),
        ({"model": "m", "input": [5]}, "'input[0].type'"),
        ({"model": "m", "input": [user({})]}, "'input[0].content[0].type'"),
        ({"model": "m", "input": [user({"type": "text"})]}, "'input[0].content[0].text'"),
        ({"model": "m", "input": [user({"type": "image"})]}, "'input[0].content[0]'"),
        ({"model": "m", "input": [user({"type": "image", "data": "!"})]}, "'input[0].content[0].data'"),
        ({"model": "m", "input": [{"type": "function_result"}]}, "'input[0].call_id'"),
        ({"model": "m", "input": [user(text("a")), {"type": "function_call"}]}, "'input[1].name'"),
        ({"model": "m", "input": "a", "system_instruction": 5}, "'system_instruction'"),
        ({"model": "m", "input": "a", "generation_config": 5}, "'generation_config'"),
        ({"model": "m", "input": "a", "generation_config": {"temperature": 3}}, "temperature"),
        ({"model": "m", "input": "a", "generation_config": {"top_k": "x"}}, "top_k"),
        ({"model": "m", "input": "a", "tools": [{}]}, "'tools[0].type'"),
        ({"model": "m", "input": "a", "tools": [{"type": "function"}]}, "'tools[0].name'"),
    ],
)
def test_what_the_vendor_refuses(body, words):
    with pytest.raises(BadRequest) as caught:
        read(body)
    assert words in caught.value.message
