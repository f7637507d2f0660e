"""What the server side refuses by the rules of OpenAI's models: the same that the client side avoids."""

from __future__ import annotations

import json

import pytest

from llmstream.chats.message import Message
from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.errors import BadRequest, NotFound, Unsupported
from llmstream.exchange import HttpRequest
from llmstream.request import ReasoningOptions, Request, Settings, ToolSpec
from llmstream.server_side.wires import server_side

TOOL = {"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}


def read(model, dialect=OpenAIChat(), **fields):
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "stream": True, **fields}
    return server_side(dialect).decode_request(HttpRequest("/v1/chat/completions", json.dumps(body).encode()))


@pytest.mark.parametrize(
    ("model", "fields", "param", "words"),
    [
        ("gpt-6-astra", {"reasoning_effort": "none"}, "reasoning_effort", "does not support|not supported"),
        ("gpt-5.6", {"reasoning_effort": "max"}, "reasoning_effort", "Supported values are: 'none', 'low'"),
        ("gpt-4.1", {"reasoning_effort": "low"}, "reasoning_effort", "Unsupported parameter"),
        ("gpt-5.6", {"tools": [TOOL]}, "reasoning_effort", "use /v1/responses"),
        ("gpt-5.4", {"tools": [TOOL], "reasoning_effort": "low"}, "reasoning_effort", "use /v1/responses"),
        ("gpt-5.6", {"temperature": 1}, "temperature", "Unsupported parameter"),
        ("gpt-5.2-chat-latest", {"top_p": 1}, "top_p", "Unsupported parameter"),
        ("gpt-6-astra", {"stop": "x"}, "stop", "Unsupported parameter"),
        ("o3", {"max_tokens": 9}, "max_tokens", "max_completion_tokens"),
    ],
)
def test_refusals_name_the_field(model, fields, param, words):
    with pytest.raises(BadRequest, match=words) as refused:
        read(model, **fields)
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("gpt-5.6", {"tools": [TOOL], "reasoning_effort": "none", "temperature": 1}),
        ("gpt-5.4", {"tools": [TOOL]}),
        ("gpt-4.1", {"tools": [TOOL], "temperature": 1, "stop": "x", "max_tokens": 9}),
        ("sim", {"tools": [TOOL], "reasoning_effort": "max", "temperature": 1}),
        ("gpt-6-astra", {"tools": [{"type": "custom", "custom": {"name": "c"}}]}),
    ],
)
def test_what_the_model_takes_is_read(model, fields):
    assert read(model, **fields).model == model


def test_a_model_of_responses_is_not_found():
    with pytest.raises(NotFound, match="v1/responses"):
        read("gpt-5-pro")
    assert read("gpt-5-pro", OpenAIChat(Quirks(wire_rules=False))).model == "gpt-5-pro"


NEW = ["gpt-6-astra", "gpt-6-sol", "gpt-6.1-terra", "gpt-5.6", "gpt-5.5", "gpt-5.4"]
OLD = ["gpt-5.3-chat-latest", "gpt-5.2", "gpt-5", "o3", "gpt-4.1", "sim"]


@pytest.mark.parametrize("model", NEW + OLD)
@pytest.mark.parametrize("effort", [None, "none", "minimal", "low", "high", "xhigh", "max"])
@pytest.mark.parametrize("tools", [(), (ToolSpec("t"),)])
def test_no_request_of_ours_is_refused(model, effort, tools):
    request = Request(
        model=model,
        messages=(Message.user("Hi"),),
        tools=tools,
        reasoning=None if effort is None else ReasoningOptions(effort=effort),
        settings=Settings(temperature=0.5, top_p=0.5, stop=("x",), max_output_tokens=9),
    )
    try:
        http = OpenAIChat().encode(request, provider="openai").http
    except Unsupported:
        assert (model, bool(tools)) == ("gpt-6-astra", True)
        return
    assert server_side(OpenAIChat()).decode_request(http).model == model
