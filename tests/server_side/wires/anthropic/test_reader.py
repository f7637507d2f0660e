"""The reverse of encoding: what a client asks for, and what the vendor would refuse."""

from __future__ import annotations

import json

import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.anthropic import BEDROCK_INVOKE, VERTEX, Anthropic
from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest
from llmstream.request import NamedTool, ProviderTool, ReasoningOptions, ResponseFormat, Settings, ToolSpec
from llmstream.server_side.wires import server_side

PLAIN = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "r"}
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object"}}


def read(dialect=Anthropic(), url="/v1/messages", headers=None, **changes):
    body = {key: value for key, value in {**PLAIN, **changes}.items() if value is not ...}
    return server_side(dialect).decode_request(HttpRequest(url, json.dumps(body).encode(), headers or {}))


def talk(*turns):
    """A conversation of users' and assistants' blocks in turn."""
    return [{"role": ("user", "assistant")[n % 2], "content": turn} for n, turn in enumerate(turns)]


def text(words):
    return [{"type": "text", "text": words}]


# what is asked for


def test_a_plain_request():
    request = read()
    assert request.model == "m"
    assert request.messages == (Message.user("Hi"),)
    assert request.settings == Settings(max_output_tokens=100)
    assert request.provider_options == {}


def test_every_field_has_its_place():
    request = read(
        system=[{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        stop_sequences=["END"],
        tools=[TOOL, {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}],
        tool_choice={"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}, "effort": "low"},
        metadata={"user_id": "u"},
        stream=True,
        headers={"Anthropic-Beta": "a-1, b-2"},
    )
    assert request.messages[0].parts == (
        c.Text("s", {"anthropic": {"cache_control": {"type": "ephemeral"}}}),
    )
    assert request.settings == Settings(
        temperature=0.5, top_p=0.9, top_k=3, stop=("END",), max_output_tokens=100, parallel_tool_calls=False
    )
    assert request.tools == (
        ToolSpec("f", "d", {"type": "object"}),
        ProviderTool("web_search_20250305", "web_search", {"max_uses": 1}),
    )
    assert request.tool_choice == NamedTool("f")
    assert request.response_format == ResponseFormat({"type": "object"})
    assert request.provider_options == {
        "anthropic": {
            "metadata": {"user_id": "u"},
            "output_config": {"effort": "low"},
            "betas": ["a-1", "b-2"],
        }
    }


def test_turns_become_messages():
    request = read(
        messages=talk(
            "tide?",
            [
                {"type": "thinking", "thinking": "why", "signature": "sig"},
                {"type": "redacted_thinking", "data": "x"},
                CALL,
            ],
            [{**RESULT, "is_error": True}, {"type": "text", "text": "and?"}],
        )
    )
    assert request.messages == (
        Message.user("tide?"),
        Message.assistant(
            c.Reasoning("why", {"anthropic": {"signature": "sig"}}),
            c.Reasoning("", {"anthropic": {"redacted_data": "x"}}),
            c.ToolCall("t1", "f", '{"a":1}'),
        ),
        Message.tool([c.ToolResult("t1", "r", True, "f")]),
        Message.user("and?"),
    )


def test_media_and_vendor_only_blocks():
    blocks = [
        {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}, "title": "t"},
        {"type": "document", "source": {"type": "content", "content": "inline"}},
        {"type": "search_result", "source": "kb", "title": "t", "content": []},
    ]
    parts = read(messages=talk(blocks)).messages[0].parts
    assert parts == (
        c.Image(url="https://a.example/b.png"),
        c.Document(filename="t", metadata={"anthropic": {"file_id": "file_1"}}),
        c.Custom("anthropic.document", {"anthropic": blocks[2]}),
        c.Custom("anthropic.search_result", {"anthropic": blocks[3]}),
    )


def test_vendor_runs_stay_with_assistant():
    blocks = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
    ]
    _, answer = read(messages=talk("?", blocks)).messages
    call, result = answer.parts
    assert (call.provider_executed, call.metadata) == (True, {"anthropic": {"type": "server_tool_use"}})
    assert (result.provider_executed, result.name, result.result) == (True, "web_search", [])


@pytest.mark.parametrize(
    ("fields", "reasoning", "options"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, ReasoningOptions(budget_tokens=1024), {}),
        (
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "max"}},
            ReasoningOptions(effort="max"),
            {"thinking": {"display": "summarized"}},
        ),
        ({"thinking": {"type": "adaptive"}}, None, {"thinking": {"type": "adaptive"}}),
        ({"thinking": {"type": "disabled"}}, ReasoningOptions(effort="none"), {}),
        ({"output_config": {"effort": "low"}}, None, {"output_config": {"effort": "low"}}),
    ],
)
def test_thinking(fields, reasoning, options):
    request = read(max_tokens=2000, **fields)
    assert request.reasoning == reasoning
    assert request.provider_options == ({"anthropic": options} if options else {})


def test_tool_cache_marks_stay_in_options():
    tools = [{**TOOL, "cache_control": {"type": "ephemeral"}}]
    request = read(tools=tools)
    assert request.tools == (ToolSpec("f", "d", {"type": "object"}),)
    assert request.provider_options == {"anthropic": {"tools": tools}}


def test_other_hosts_name_the_model_in_path():
    body = {"model": ..., "anthropic_version": "x"}
    bedrock = read(BEDROCK_INVOKE, "/model/anthropic.claude%3A0/invoke-with-response-stream", **body)
    assert bedrock.model == "anthropic.claude:0"
    vertex = read(
        VERTEX, "/v1/projects/p/locations/l/publishers/anthropic/models/c@1:streamRawPredict", **body
    )
    assert vertex.model == "c@1"


@pytest.mark.parametrize(
    ("dialect", "method", "url", "accepted"),
    [
        (Anthropic(), "POST", "/v1/messages", True),
        (Anthropic(), "POST", "https://api.anthropic.com/v1/messages?beta=true", True),
        (Anthropic(), "GET", "/v1/messages", False),
        (Anthropic(), "POST", "/v1/messages/count_tokens", False),
        (BEDROCK_INVOKE, "POST", "/model/m/invoke-with-response-stream", True),
        (BEDROCK_INVOKE, "POST", "/model/m/converse-stream", False),
        (VERTEX, "POST", "/publishers/anthropic/models/m:streamRawPredict", True),
    ],
)
def test_accepts(dialect, method, url, accepted):
    assert server_side(dialect).accepts(HttpRequest(url, method=method)) is accepted


# what is refused


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_tokens": ...}, "max_tokens: Field required"),
        ({"model": ...}, "model: Field required"),
        ({"messages": ...}, "messages: Field required"),
        ({"max_tokens": "many"}, "max_tokens: Input should be a valid integer"),
        ({"max_tokens": -1}, "max_tokens: Input should be greater than or equal to 0"),
        ({"messages": []}, "messages: at least one message is required"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content: Input should be a valid "),
        ({"messages": [{"role": "critic", "content": "x"}]}, "messages.0.role: Input should be 'user' or"),
        (
            {"model": "claude-opus-4-5", "messages": [{"role": "system", "content": "x"}]},
            "role 'system' is not supported on this model",
        ),
        (
            {"model": "claude-opus-5-5", "thinking": {"type": "disabled"}},
            '"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and',
        ),
        (
            {"model": "claude-fable-5-1", "thinking": {"type": "between_tools"}},
            '"thinking.type.between_tools" is not supported',
        ),
        (
            {
                "model": "claude-opus-5",
                "thinking": {"type": "enabled", "budget_tokens": 2048},
                "max_tokens": 4096,
            },
            '"thinking.type.enabled" is not supported',
        ),
        (
            {"model": "claude-sonnet-5-5", "tools": [TOOL], "tool_choice": {"type": "any"}},
            "does not support forced tool use",
        ),
        ({"model": "claude-haiku-4-5", "output_config": {"effort": "low"}}, "does not support the effort"),
        ({"model": "claude-sonnet-4-6", "output_config": {"effort": "xhigh"}}, "Input should be 'low'"),
        ({"model": "claude-opus-4-7", "temperature": 1}, "`temperature` is deprecated for this model"),
        ({"messages": talk([])}, "messages.0: all messages must have non-empty content"),
        ({"messages": talk([{"text": "x"}])}, "messages.0.content.0.type: Field required"),
        ({"messages": talk([{"type": "text"}])}, "messages.0.content.0.text.text: Field required"),
        ({"messages": talk([{"type": "text", "text": 5}])}, "Input should be a valid string"),
        ({"messages": talk(text(""))}, "text content blocks must be non-empty"),
        ({"messages": talk(text(" \n"))}, "must contain non-whitespace text"),
        ({"messages": talk("?", "The tide ")}, "cannot end with trailing whitespace"),
        ({"messages": talk([{"type": "image"}])}, "messages.0.content.0.image.source: Field required"),
        ({"messages": talk([RESULT])}, "unexpected `tool_use_id` found in `tool_result` blocks: t1"),
        (
            {"messages": talk("?", [CALL])},
            "ids were found without `tool_result` blocks immediately after: t1",
        ),
        ({"messages": talk("?", [CALL], "no result")}, "messages.1: `tool_use` ids were found without"),
        ({"messages": talk("?", [CALL], [RESULT, RESULT])}, "each tool_use must have a single result"),
        ({"messages": talk("?", [CALL, CALL], [RESULT])}, "`tool_use` ids must be unique"),
        ({"messages": talk("?", [CALL], [RESULT], [CALL], [RESULT])}, "`tool_use` ids must be unique"),
        (
            {"messages": talk("?", [{**CALL, "input": "{}"}], [RESULT])},
            "tool_use.input: Input should be a valid dict",
        ),
        (
            {"messages": talk("?", [{"type": "thinking", "thinking": "x"}], "y")},
            "thinking.signature: Field required",
        ),
        ({"system": [{"type": "text"}]}, "system.0.text: Field required"),
        ({"temperature": 1.5}, "temperature: range: 0..1"),
        ({"thinking": {"type": "sometimes"}}, "does not match any of the expected tags"),
        ({"thinking": {"type": "enabled"}}, "thinking.enabled.budget_tokens: Field required"),
        ({"thinking": {"type": "enabled", "budget_tokens": "x"}}, "should be a valid integer"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "greater than or equal to 1024"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 2000},
            "`max_tokens` must be greater than `thinking.budget_tokens`",
        ),
        ({"thinking": {"type": "adaptive"}, "temperature": 0}, "may only be set to 1 when thinking"),
        ({"thinking": {"type": "adaptive"}, "top_k": 1}, "`top_k` must be unset"),
        (
            {"thinking": {"type": "adaptive"}, "tools": [TOOL], "tool_choice": {"type": "any"}},
            "Thinking may not be enabled when tool_choice forces tool use",
        ),
        ({"tools": [{"input_schema": {}}]}, "tools.0.custom.name: Field required"),
        ({"tools": [{"name": "f"}]}, "tools.0.custom.input_schema: Field required"),
        ({"tools": [{"name": "f", "input_schema": {}}]}, "tools.0.custom.input_schema.type: Field required"),
        ({"tools": [{"name": "f", "input_schema": {"type": "string"}}]}, "type: Input should be 'object'"),
        ({"tools": [TOOL, TOOL]}, "Tool names must be unique"),
        ({"tools": [TOOL], "tool_choice": {"type": "maybe"}}, "tool_choice: Input tag"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, "Tool 'g' not found"),
        ({"tool_choice": {"type": "auto"}}, "may only be specified while providing tools"),
        (
            {"messages": talk([{"type": "text", "text": "x", "cache_control": {}}] * 5)},
            "A maximum of 4 blocks with cache_control may be provided. Found 5",
        ),
    ],
)
def test_refusals_in_the_vendors_words(changes, words):
    with pytest.raises(BadRequest) as refused:
        read(**changes)
    assert words in refused.value.message
    assert (refused.value.status, refused.value.reason) == (400, "invalid_request_error")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_non_request_body_is_refused(body):
    with pytest.raises(BadRequest):
        server_side(Anthropic()).decode_request(HttpRequest("/v1/messages", body))


@pytest.mark.parametrize(
    "body",
    [
        {"max_tokens": 0},
        {"thinking": {"type": "between_tools"}},
        {"model": "claude-sonnet-5-5", "thinking": {"type": "between_tools"}},
        {"tools": [{"type": "computer_toolset_20260801", "configs": {}}]},
    ],
)
def test_newest_sdk_request_reads_back(body):
    request = read(**body)
    again = Anthropic().encode(request, provider="anthropic").http.json()
    assert {name: again.get(name) for name in body} == body


def test_middle_system_message_stays_there():
    middle = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    turns = [*PLAIN["messages"], {"role": "assistant", "content": "Hello"}, middle]
    request = read(model="claude-opus-5-5", messages=[*turns, {"role": "user", "content": "And?"}])
    assert [str(m.role) for m in request.messages] == ["user", "assistant", "system", "user"]
    sent = Anthropic().encode(request, provider="anthropic").http.json()
    assert (sent["messages"][2], "system" in sent) == (middle, False)


def test_newest_version_refuses_sampling():
    newest = {"anthropic-version": "2026-10-21"}
    hot = HttpRequest("/v1/messages", json.dumps({**PLAIN, "temperature": 1}).encode(), newest)
    with pytest.raises(BadRequest, match="temperature: Extra inputs are not permitted"):
        server_side(Anthropic()).decode_request(hot)
    assert (
        server_side(Anthropic())
        .decode_request(HttpRequest("/v1/messages", json.dumps(PLAIN).encode(), newest))
        .model
    )


def test_a_thread_is_refused_with_its_code():
    """The tool runners of anthropic 2.12 look for it, and then send the whole conversation."""
    with pytest.raises(BadRequest, match="thread: message threads are not served here") as caught:
        read(thread={"type": "create"})
    answer = server_side(Anthropic()).encode_error(caught.value.info)
    assert json.loads(answer.body)["error"]["details"] == {"error_code": "thread_unsupported_request"}


def test_older_schema_field_is_read():
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    request = read(output_format={"type": "json_schema", "schema": schema})
    assert request.response_format == ResponseFormat(schema)
    assert not request.provider_options


def test_neighbours_of_one_role_are_fine():
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert read(messages=messages).messages == (Message.user("a"), Message.user("b"))


def test_results_may_span_adjacent_turns():
    other = {**CALL, "id": "t2"}
    turns = [
        *talk("?", [CALL, other]),
        {"role": "user", "content": [RESULT]},
        {"role": "user", "content": [{**RESULT, "tool_use_id": "t2"}]},
    ]
    assert len(read(messages=turns).messages) == 4
