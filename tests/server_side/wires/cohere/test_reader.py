"""Clients' requests as ours, and what Cohere refuses."""

from __future__ import annotations

import json

import msgspec
import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.cohere import Cohere
from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest
from llmstream.request import ReasoningOptions, Request, ResponseFormat, Settings, ToolSpec
from llmstream.server_side.wires import server_side

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLING = {"role": "assistant", "tool_plan": "I will.", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "a bird"}


def read(body):
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return server_side(Cohere()).decode_request(HttpRequest("/v2/chat", data))


def asks(*messages, **fields):
    return read({"model": "m", "messages": list(messages) or [USER], "stream": True, **fields})


def refusal(*messages, **fields):
    with pytest.raises(BadRequest) as caught:
        asks(*messages, **fields)
    return caught.value


def test_the_path_is_known():
    dialect = Cohere()
    assert server_side(dialect).accepts(HttpRequest("http://x/v2/chat?a=b"))
    assert not server_side(dialect).accepts(HttpRequest("/v2/chat", method="GET"))
    assert not server_side(dialect).accepts(HttpRequest("/api/chat"))


def test_a_small_request():
    assert asks() == Request(model="m", messages=(Message.user("Hi"),))


def test_settings_tools_and_the_rest():
    request = asks(
        temperature=0.5,
        p=0.9,
        k=3,
        max_tokens=9,
        seed=7,
        stop_sequences=["x"],
        tools=[TOOL],
        tool_choice="REQUIRED",
        strict_tools=True,
        thinking={"type": "enabled", "token_budget": 50},
        safety_mode="OFF",
        documents=[],
    )
    assert request.settings == Settings(
        temperature=0.5, top_p=0.9, top_k=3, max_output_tokens=9, seed=7, stop=("x",)
    )
    assert request.tools == (ToolSpec("look", "", {"type": "object"}, True),)
    assert request.tool_choice == "required"
    assert request.reasoning == ReasoningOptions(budget_tokens=50)
    assert request.provider_options == {"cohere": {"safety_mode": "OFF"}}


def test_structured_output_and_thinking():
    wanted = {"type": "json_object", "json_schema": {"type": "object"}}
    assert asks(response_format=wanted).response_format == ResponseFormat({"type": "object"})
    assert asks(response_format={"type": "json_object"}).response_format == ResponseFormat()
    assert asks(response_format={"type": "text"}).response_format is None
    assert asks(thinking={"type": "disabled"}).reasoning == ReasoningOptions(effort="none")
    assert asks(tools=[TOOL], tool_choice="NONE").tool_choice == "none"


def test_a_request_without_stream_keeps_that():
    assert read({"model": "m", "messages": [USER]}).provider_options == {"cohere": {"stream": False}}


def test_a_turn_with_tools():
    citation = {"start": 0, "end": 1, "text": "A", "sources": []}
    answer = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "A bird"}],
        "citations": [citation],
    }
    assert asks(USER, CALLING, RESULT, answer, USER).messages[1:4] == (
        Message.assistant(
            c.Reasoning("I will.", {"cohere": {"tool_plan": True}}), c.ToolCall("a", "look", "{}")
        ),
        Message.tool([c.ToolResult("a", "a bird", name="look")]),
        Message.assistant(
            c.Reasoning("Hm"),
            "A bird",
            c.Source("document", "source-1", metadata={"cohere": {"citation": citation, "source": 0}}),
        ),
    )


def test_results_of_one_turn_are_one_message():
    second = {**CALL, "id": "b"}
    messages = asks(USER, {**CALLING, "tool_calls": [CALL, second]}, RESULT, {**RESULT, "tool_call_id": "b"})
    assert len(messages.messages[2].tool_results) == 2


def test_result_blocks_are_text_and_go_back():
    blocks = [
        {"type": "text", "text": "one"},
        {"type": "document", "document": {"data": {"text": "two"}}},
        {"type": "document", "document": {"data": "three"}},
    ]
    request = asks(USER, CALLING, {**RESULT, "content": blocks})
    assert request.messages[2].tool_results[0].content == "one\ntwo\nthree"
    assert Cohere().encode(request, provider="cohere").http.json()["messages"][2]["content"] == blocks
    request = asks(USER, CALLING, {**RESULT, "content": blocks[:1]})
    assert request.messages[2].tool_results[0].metadata is None


def test_images():
    inline = {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,AQ==", "detail": "low"},
    }
    linked = {"type": "image_url", "image_url": "https://i.example"}
    assert asks({"role": "user", "content": [inline, linked]}).messages[0].parts == (
        c.Image(data=b"\x01", media_type="image/png", metadata={"cohere": {"detail": "low"}}),
        c.Image(url="https://i.example"),
    )


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        (
            {"max_completion_tokens": 5},
            422,
            "unknown field: parameter 'max_completion_tokens' is not a valid",
        ),
        ({"model": None}, 400, "model is required"),
        ({"messages": []}, 400, "invalid request"),
        ({"messages": None}, 400, "invalid request"),
        ({"temperature": "x"}, 400, "invalid type: parameter temperature is of type str"),
        ({"k": 1.5}, 400, "invalid type: parameter k is of type float but should be of type int"),
        ({"stop_sequences": "x"}, 400, "invalid type: parameter stop_sequences"),
        ({"tools": [{}]}, 400, "invalid request: a tool must have a function"),
        ({"tools": [{"function": {"name": "x", "strict": True}}]}, 422, "unknown field: parameter 'strict'"),
        ({"tool_choice": "auto"}, 400, "invalid request: tool_choice must be"),
        ({"tool_choice": "REQUIRED"}, 400, "invalid request: tool_choice requires tools"),
        ({"response_format": {"type": "json_schema"}}, 400, "invalid request: response_format.type"),
        (
            {"response_format": {"type": "json_object"}, "tools": [TOOL]},
            400,
            "invalid request: response_format",
        ),
        ({"thinking": {"type": "some"}}, 400, "invalid request: thinking.type"),
    ],
)
def test_fields_that_are_refused(fields, status, words):
    error = refusal(**fields)
    assert error.status == status
    assert error.message.startswith(words)


@pytest.mark.parametrize(
    ("messages", "status", "words"),
    [
        ([5], 400, "the role None"),
        ([{"role": "critic"}], 400, "the role 'critic'"),
        ([{"role": "user", "content": ""}], 400, "must have content"),
        ([{"role": "user", "content": 5}], 422, "no string or list"),
        ([{"role": "user", "content": [{"type": "audio"}]}], 400, "of type 'audio'"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": 5}]}], 400, "has no url"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": "data:,?"}]}], 400, "base64"),
        ([{**USER, "name": "Ann"}], 422, "unknown field: parameter 'name'"),
        ([USER, {"role": "assistant", "content": ""}], 400, "must have content, tool_calls or tool_plan"),
        ([USER, {"role": "assistant", "tool_calls": [5]}], 400, "has no function"),
        ([USER, {"role": "assistant", "tool_calls": [{**CALL, "index": 0}]}], 422, "parameter 'index'"),
        ([USER, {"role": "assistant", "tool_calls": [{**CALL, "id": None}]}], 400, "lacks id, name"),
        ([USER, {"role": "tool", "content": "x"}], 400, "must have a tool_call_id"),
        ([USER, RESULT], 400, "no tool call has the id 'a'"),
    ],
)
def test_messages_that_are_refused(messages, status, words):
    error = refusal(*messages)
    assert error.status == status
    assert words in error.message


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5"])
def test_what_is_no_object_is_refused(body):
    with pytest.raises(BadRequest):
        read(body)


def test_refusal_has_the_vendors_shape():
    answer = server_side(Cohere()).encode_error(refusal(n=2).info)
    assert answer.status == 422
    assert json.loads(answer.body) == {
        "message": "unknown field: parameter 'n' is not a valid field. "
        "For proper usage, please refer to https://docs.cohere.com/reference/chat"
    }
