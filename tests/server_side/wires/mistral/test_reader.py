"""Clients' requests as ours, and what Mistral refuses."""

from __future__ import annotations

import json

import msgspec
import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.mistral import Mistral
from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest
from llmstream.request import NamedTool, ReasoningOptions, Request, ResponseFormat, Settings, ToolSpec
from llmstream.server_side.wires import server_side

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "content": "a bird"}


def read(body):
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return server_side(Mistral()).decode_request(HttpRequest("/v1/chat/completions", data))


def asks(*messages, **fields):
    return read({"model": "m", "messages": list(messages) or [USER], "stream": True, **fields})


def refusal(*messages, **fields):
    with pytest.raises(BadRequest) as caught:
        asks(*messages, **fields)
    return caught.value


def test_the_path_is_known():
    dialect = Mistral()
    assert server_side(dialect).accepts(HttpRequest("http://x/v1/chat/completions?a=b"))
    assert not server_side(dialect).accepts(HttpRequest("/v1/chat/completions", method="GET"))
    assert not server_side(dialect).accepts(HttpRequest("/v1/messages"))


def test_a_small_request():
    assert asks() == Request(model="m", messages=(Message.user("Hi"),))


def test_settings_tools_and_the_rest():
    request = asks(
        temperature=0.5,
        max_tokens=9,
        random_seed=7,
        stop="x",
        parallel_tool_calls=False,
        tools=[TOOL],
        tool_choice="any",
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}},
        reasoning_effort="high",
        safe_prompt=False,
        n=2,
    )
    assert request.settings == Settings(
        temperature=0.5, max_output_tokens=9, seed=7, stop=("x",), parallel_tool_calls=False
    )
    assert request.tools == (ToolSpec("look", "", {"type": "object"}),)
    assert request.tool_choice == "required"
    assert request.response_format == ResponseFormat({}, "n")
    assert request.reasoning == ReasoningOptions(effort="high")
    assert request.provider_options == {"mistral": {"safe_prompt": False, "n": 2}}


def test_a_named_tool():
    choice = {"type": "function", "function": {"name": "look"}}
    assert asks(tools=[TOOL], tool_choice=choice).tool_choice == NamedTool("look")


def test_a_request_without_stream_keeps_that():
    assert read({"model": "m", "messages": [USER]}).provider_options == {"mistral": {"stream": False}}


def test_a_turn_with_tools():
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}], "signature": "s"}
    call = {**CALLING, "content": [thinking, {"type": "text", "text": "x"}]}
    messages = asks(USER, call, RESULT, USER).messages
    assert messages[1] == Message.assistant(
        c.Reasoning("Hm", {"mistral": {"signature": "s"}}), "x", c.ToolCall("abcdefghi", "look", "{}")
    )
    assert messages[2] == Message.tool([c.ToolResult("abcdefghi", "a bird", name="look")])


def test_user_directly_after_tool_reads_back():
    request = asks(USER, CALLING, RESULT, USER)
    messages = Mistral().encode(request, provider="mistral").http.json()["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]


def test_arguments_may_be_an_object():
    call = {"id": "abcdefghi", "function": {"name": "look", "arguments": {"x": 1}}}
    (made,) = asks(USER, {**CALLING, "tool_calls": [call]}, RESULT).messages[1].tool_calls
    assert made.arguments == '{"x":1}'


@pytest.mark.parametrize(
    ("part", "ours"),
    [
        ({"type": "image_url", "image_url": "https://i.example"}, c.Image(url="https://i.example")),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQ==", "detail": "low"}},
            c.Image(data=b"\x01", media_type="image/png", metadata={"mistral": {"detail": "low"}}),
        ),
        (
            {
                "type": "document_url",
                "document_url": "data:application/pdf;base64,AQ==",
                "document_name": "a",
            },
            c.Document(data=b"\x01", media_type="application/pdf", filename="a"),
        ),
        ({"type": "document_url", "document_url": "https://d.example"}, c.Document(url="https://d.example")),
        ({"type": "file", "file_id": "f"}, c.Document(metadata={"mistral": {"file_id": "f"}})),
        ({"type": "input_audio", "input_audio": "UklGRg=="}, c.Audio(data=b"RIFF", media_type="audio/wav")),
        (
            {"type": "input_audio", "input_audio": {"data": "data:audio/ogg;base64,AQ=="}},
            c.Audio(data=b"\x01", media_type="audio/ogg"),
        ),
        ({"type": "input_audio", "input_audio": "https://a.example"}, c.Audio(url="https://a.example")),
        ({"type": "input_audio", "input_audio": "file 7"}, c.Audio(url="file 7")),
    ],
)
def test_files(part, ours):
    assert asks({"role": "user", "content": [part]}).messages[0].parts == (ours,)


def test_files_of_a_result():
    image = {"type": "image_url", "image_url": "https://i.example"}
    result = {**RESULT, "content": [{"type": "text", "text": "this"}, image]}
    (read_,) = asks(USER, CALLING, result).messages[2].tool_results
    assert (read_.content, read_.parts) == ("this", (c.Image(url="https://i.example"),))


def test_magistral_thinks_by_prompt_mode():
    body = {"model": "magistral-small-latest", "messages": [USER], "stream": True, "prompt_mode": "reasoning"}
    request = read(body)
    assert request.reasoning == ReasoningOptions()
    assert Mistral().encode(request, provider="mistral").http.json()["prompt_mode"] == "reasoning"


def test_magistral_may_take_an_effort():
    assert asks(model="magistral-small-latest", reasoning_effort="high").reasoning == ReasoningOptions(
        effort="high"
    )
    assert "'none' or 'high'" in refusal(model="magistral-small-latest", reasoning_effort="low").message
    assert "takes no reasoning effort" in refusal(model="codestral-2508", reasoning_effort="low").message


# refusals: the schema's


@pytest.mark.parametrize(
    ("fields", "place", "kind"),
    [
        ({"max_completion_tokens": 5}, "body.max_completion_tokens", "extra_forbidden"),
        ({"stream_options": {}}, "body.stream_options", "extra_forbidden"),
        ({"tools": []}, "body.tools", "extra_forbidden"),
        ({"model": None}, "body.model", "missing"),
        ({"model": 5}, "body.model", "string_type"),
        ({"messages": None}, "body.messages", "missing"),
        ({"messages": "Hi"}, "body.messages", "list_type"),
        ({"temperature": 2}, "body.temperature", "less_than_equal"),
        ({"temperature": -1}, "body.temperature", "greater_than_equal"),
        ({"top_p": "x"}, "body.top_p", "number_type"),
        ({"max_tokens": 1.5}, "body.max_tokens", "integer_type"),
        ({"stop": [1]}, "body.stop", "string_type"),
        ({"tools": [{}]}, "body.tools.0.function", "missing"),
        ({"tools": [{"function": {}}]}, "body.tools.0.function.name", "missing"),
        ({"tool_choice": 5}, "body.tool_choice", "enum"),
        ({"response_format": {"type": "xml"}}, "body.response_format.type", "enum"),
        ({"response_format": {"type": "json_schema"}}, "body.response_format.json_schema.schema", "missing"),
    ],
)
def test_schema_violation_is_422_with_path(fields, place, kind):
    error = refusal(**fields)
    assert (error.status, error.reason) == (422, kind)
    assert error.message.startswith(place + ": ")


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (5, "body.messages.0"),
        ({"role": "critic"}, "body.messages.0"),
        ({"role": "user"}, "body.messages.0.user.content"),
        ({"role": "user", "content": "x", "name": "Ann"}, "body.messages.0.user.name"),
        (
            {"role": "assistant", "content": "x", "reasoning_content": "y"},
            "body.messages.0.assistant.reasoning_content",
        ),
        ({"role": "user", "content": 5}, "body.messages.0.user.content"),
        ({"role": "user", "content": [5]}, "body.messages.0.user.content.0"),
        ({"role": "user", "content": [{"type": "smell"}]}, "body.messages.0.user.content.0"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": "data:,?"}]},
            "body.messages.0.user.content.0",
        ),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "body.messages.0.user.content.0"),
        ({"role": "assistant", "tool_calls": [{}]}, "body.messages.0.assistant.tool_calls.0.function"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "x"}}]},
            "body.messages.0.assistant.tool_calls.0.function.name",
        ),
    ],
)
def test_messages_that_the_schema_forbids(message, place):
    error = refusal(message)
    assert error.status == 422
    assert error.message.startswith(place + ": ")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5"])
def test_what_is_no_object_is_refused(body):
    with pytest.raises(BadRequest) as caught:
        read(body)
    assert caught.value.status == 422


# refusals: the model's


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([RESULT], "Unexpected role 'tool'"),
        ([USER, RESULT], "Unexpected role 'tool' after role 'user'"),
        (
            [USER, {"role": "assistant", "content": "x"}, {"role": "system", "content": "y"}],
            "Unexpected role 'system' after role 'assistant'",
        ),
        ([USER, CALLING, USER], "Not the same number of function calls and responses"),
        ([USER, CALLING, RESULT, RESULT], "Not the same number of function calls and responses"),
        ([USER, CALLING, {**RESULT, "tool_call_id": "x"}], "Unexpected tool call id x in tool results"),
        (
            [USER, CALLING, {"role": "tool", "content": "x"}],
            "Tool call id has to be defined in serving mode.",
        ),
        ([USER, {"role": "assistant", "content": "x"}], "Expected last role User or Tool"),
        ([USER, {"role": "assistant", "content": ""}], "Assistant message must have either content"),
    ],
)
def test_roles_in_no_order_are_a_400(messages, words):
    error = refusal(*messages)
    assert (error.status, error.reason) == (400, "invalid_request_message_order")
    assert error.message.startswith(words)


def test_no_messages_are_a_400():
    assert refusal(messages=[]).status == 400


def test_a_prefix_may_stand_last():
    assert asks(USER, {"role": "assistant", "content": "x", "prefix": True}).messages[-1].text == "x"


@pytest.mark.parametrize("choice", ["any", {"type": "function", "function": {"name": "other"}}])
def test_unknown_tool_cannot_be_forced(choice):
    assert refusal(tool_choice=choice).status == 400


def test_refusal_has_the_vendors_shape():
    answer = server_side(Mistral()).encode_error(refusal({"role": "user"}).info)
    assert answer.status == 422
    assert json.loads(answer.body) == {
        "object": "error",
        "message": {
            "detail": [
                {
                    "type": "missing",
                    "loc": ["body", "messages", 0, "user", "content"],
                    "msg": "Field required",
                }
            ]
        },
        "type": "invalid_request_error",
        "param": None,
        "code": None,
        "raw_status_code": 422,
    }
    answer = server_side(Mistral()).encode_error(refusal(RESULT).info)
    assert json.loads(answer.body) == {
        "object": "error",
        "message": "Unexpected role 'tool'",
        "type": "invalid_request_message_order",
        "param": None,
        "code": "3230",
        "raw_status_code": 400,
    }
