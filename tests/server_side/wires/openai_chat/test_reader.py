"""The reverse: requests of clients, read and refused."""

from __future__ import annotations

import json

import pytest

from llmstream.chats.content import Audio, Document, Image, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.openai_chat import OpenAIChat, Quirks, ReasoningQuirks, ThinkingQuirks
from llmstream.errors import BadRequest, error_from_info
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
from llmstream.server_side.wires.openai_chat import server_side

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "f"}}


def read(**body):
    http = HttpRequest(
        "/v1/chat/completions", json.dumps({"model": "m", "messages": [USER], **body}).encode()
    )
    return server_side(OpenAIChat()).decode_request(http)


CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
REQUESTS = [
    Request(model="m", messages=(Message.user("hi"),), reasoning=ReasoningOptions(effort="low")),
    Request(
        model="gpt-4o",
        messages=(
            Message.system("s"),
            Message.user("a", Image(url="https://x.example/a.png", metadata={"acme": {"detail": "low"}})),
            Message.user(
                Image(data=b"\1", media_type="image/png"),
                Audio(data=b"\2", media_type="audio/wav"),
                Document(data=b"\3", media_type="application/pdf", filename="a.pdf"),
                Text("t", {"acme": {"cache_control": {"type": "ephemeral"}}}),
            ),
            Message.assistant("b", ToolCall("c1", "f", '{"x":1}'), ToolCall("c2", "g", "{}")),
            Message.tool([ToolResult("c1", "one", name="f"), ToolResult("c2", "two", name="g")]),
            Message.assistant("done"),
        ),
        tools=(ToolSpec("f", "does", CLOSED, True),),
        tool_choice=NamedTool("f"),
        settings=Settings(
            temperature=0.5,
            top_p=0.5,
            max_output_tokens=9,
            stop=("a", "b"),
            seed=1,
            presence_penalty=1,
            frequency_penalty=-1,
            parallel_tool_calls=True,
        ),
        response_format=ResponseFormat({"type": "object"}, "n", "d", False),
        provider_options={"acme": {"service_tier": "flex"}},
        headers={"x-mine": "1"},
    ),
    Request(model="m", messages=(Message.user("As JSON."),), response_format=ResponseFormat()),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_what_is_encoded_is_read_again(request_):
    dialect = OpenAIChat()
    encoded = dialect.encode(request_, provider="acme")
    assert encoded.warnings == []
    assert server_side(dialect, provider="acme").decode_request(encoded.http) == request_


@pytest.mark.parametrize(
    ("style", "reasoning"),
    [
        ("openrouter", ReasoningOptions(effort="low")),
        ("openrouter", ReasoningOptions(budget_tokens=5)),
        ("groq", ReasoningOptions(effort="low")),
        ("thinking", ReasoningOptions(effort="none")),
        ("thinking-effort", ReasoningOptions(effort="none")),
        ("thinking-effort", ReasoningOptions(effort="low")),
        ("effort-or-budget", ReasoningOptions(effort="low")),
        ("effort-or-budget", ReasoningOptions(budget_tokens=5)),
        ("enable-thinking", ReasoningOptions(effort="none")),
        ("enable-thinking", ReasoningOptions(budget_tokens=5)),
    ],
)
def test_thinking_is_read_in_every_style(style, reasoning):
    dialect = OpenAIChat(Quirks(thinking=ThinkingQuirks(style=style)))
    http = dialect.encode(
        Request(model="m", messages=(Message.user("a"),), reasoning=reasoning), provider="acme"
    ).http
    assert server_side(dialect).decode_request(http).reasoning == reasoning


def test_history_reasoning_is_read_signed():
    details = [{"type": "reasoning.text", "text": "hm"}]
    call = {**CALL, "extra_content": {"google": {}, "x": 1}}
    assistant = {
        "role": "assistant",
        "content": None,
        "reasoning": "hm",
        "reasoning_details": details,
        "tool_calls": [call],
    }
    result = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "ok"}]}
    thought, made = read(messages=[USER, assistant, result]).messages[1].parts
    assert thought.text == "hm"
    assert thought.metadata["openai"] == {"reasoning_details": details}
    assert made.metadata == {"openai": {"extra_content": call["extra_content"]}}


def test_history_custom_call_round_trips():
    call = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    assistant = {"role": "assistant", "content": None, "tool_calls": [call]}
    messages = [USER, assistant, {"role": "tool", "tool_call_id": "c1", "content": "1"}]
    request = read(messages=messages)
    (made,) = request.messages[1].parts
    assert (made.name, made.arguments) == ("sql", "SELECT 1")
    assert OpenAIChat().encode(request, provider="openai").http.json()["messages"] == messages


def test_signature_goes_back_to_its_server():
    assistant = {"role": "assistant", "content": "so", "reasoning_text": "hm", "reasoning_opaque": "s"}
    request = read(messages=[USER, assistant, USER])
    for quirks in (Quirks(), Quirks(reasoning=ReasoningQuirks(field="reasoning_text", echo="all"))):
        encoded = OpenAIChat(quirks).encode(request, provider="openai")
        assert (encoded.http.json()["messages"][1], encoded.warnings) == (assistant, [])


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_goes_back_to_its_server(field):
    dialect = OpenAIChat()
    messages = [USER, {"role": "assistant", field: "hm", "content": "so"}, USER]
    http = HttpRequest("/v1/chat/completions", json.dumps({"model": "m", "messages": messages}).encode())
    request = server_side(dialect, provider="acme").decode_request(http)
    again = dialect.encode(request, provider="acme")
    assert again.http.json()["messages"][1] == messages[1]
    assert not again.warnings
    other = dialect.encode(request, provider="else")
    assert other.http.json()["messages"][1] == {"role": "assistant", "content": "so"}
    assert len(other.warnings) == 1


def test_thoughts_said_twice_go_back_twice():
    twice = {"role": "assistant", "reasoning": "hm", "reasoning_content": "hm", "content": "so"}
    request = read(messages=[USER, twice, USER])
    assert OpenAIChat().encode(request, provider="openai").http.json()["messages"][1] == twice
    (thought, _) = request.messages[1].parts
    assert thought.text == "hm"


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning": {"effort": "low"}},
        {"thinking": {"type": "disabled"}},
        {"enable_thinking": False, "thinking_budget": 5},
    ],
)
def test_foreign_thinking_options_are_stored(fields):
    request = read(**fields)
    assert request.reasoning is None
    assert request.provider_options["openai"] | fields == request.provider_options["openai"]
    sent = OpenAIChat().encode(request, provider="openai").http.json()
    assert {name: sent[name] for name in fields} == fields


def test_vendor_fields_and_tools_are_stored():
    request = read(
        stream=True, stream_options={"include_usage": True}, store=True, tools=[{"type": "web", "n": 1}]
    )
    assert request.provider_options == {"openai": {"store": True}}
    assert request.tools == (ProviderTool("web", options={"n": 1}),)


def test_response_preferences_are_stored():
    assert read().provider_options == {"openai": {"stream": False}}
    quiet = read(stream=True)
    assert quiet.provider_options == {"openai": {"stream_options": {"include_usage": False}}}
    assert read(stream=True, max_tokens=5, stop="x").settings == Settings(max_output_tokens=5, stop=("x",))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"model": None}, "must provide a model"),
        ({"messages": []}, "empty array"),
        ({"messages": "hi"}, "Invalid type for 'messages'"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "'narrator'"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "'video'"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "image_url.url",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}],
                    }
                ]
            },
            "base64",
        ),
        ({"messages": [{"role": "tool", "tool_call_id": "c1", "content": "x"}]}, "preceding message"),
        ({"messages": [USER, {"role": "tool", "content": "x"}]}, "tool_call_id"),
        ({"messages": [{"role": "assistant", "tool_calls": [CALL]}]}, "did not have response messages: c1"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [CALL]}, USER]},
            "must be followed by tool messages",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": []}]}, "empty array"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]}, "function"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "custom": {}}]}]}, "name"),
        ({"tools": []}, "Invalid 'tools'"),
        ({"tools": [{"type": "function"}]}, "tools[0].function.name"),
        ({"tool_choice": "auto"}, "only allowed when 'tools'"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "'g' not found"),
        ({"tools": [TOOL], "tool_choice": "maybe"}, "'maybe'"),
        ({"temperature": 3}, "'temperature'"),
        ({"temperature": "hot"}, "'temperature'"),
        ({"max_tokens": 0}, "'max_tokens'"),
        ({"seed": 1.5}, "'seed'"),
        ({"stop": 7}, "'stop'"),
        ({"response_format": {"type": "xml"}}, "'xml'"),
        ({"response_format": {"type": "json_schema"}}, "json_schema.schema"),
        ({"stream_options": {"include_usage": True}}, "only allowed when 'stream'"),
    ],
)
def test_wrong_request_has_vendor_message(body, words):
    with pytest.raises(BadRequest) as caught:
        read(**body)
    assert words in caught.value.message
    assert caught.value.status == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model":"m"}'])
def test_non_request_bodies_are_refused(body):
    with pytest.raises(BadRequest):
        server_side(OpenAIChat()).decode_request(HttpRequest("/chat/completions", body))


def test_a_refusal_survives_the_wire():
    dialect = OpenAIChat()
    with pytest.raises(BadRequest) as caught:
        read(messages=[])
    answer = server_side(dialect).encode_error(caught.value.info)
    again = dialect.decode_error(answer.status, answer.headers, answer.body, provider="acme")
    assert type(again) is BadRequest
    assert (again.message, again.reason, again.status) == (caught.value.message, "empty_array", 400)
    assert type(error_from_info(again.info)) is BadRequest


def test_message_mark_goes_to_its_last_part():
    mark = {"type": "ephemeral"}
    request = read(
        messages=[
            {"role": "system", "content": "be brief", "cache_control": mark},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ]
    )
    assert request.messages[0].parts == (Text("be brief", {"openai": {"cache_control": mark}}),)
    assert request.messages[1].parts == (Text("a"), Text("b"))
    written = OpenAIChat().encode(request, provider="openai").http.json()["messages"][0]
    assert written["content"] == [{"type": "text", "text": "be brief", "cache_control": mark}]
