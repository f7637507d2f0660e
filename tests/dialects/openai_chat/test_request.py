"""A Request as this wire has it."""

from __future__ import annotations

import pytest

from llmstream.chats.message import Message
from llmstream.dialects.openai_chat import (
    OpenAIChat,
    Quirks,
    SchemaQuirks,
    SettingQuirks,
    ThinkingQuirks,
    ToolQuirks,
)
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool
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

SEARCH = ToolSpec("search", "Looks things up", {"type": "object", "properties": {"q": {"type": "string"}}})


def encode(quirks=Quirks(), *, model="gpt-4o", messages=(Message.user("hi"),), **options):
    request = Request(model=model, messages=tuple(messages), **options)
    encoded = OpenAIChat(quirks).encode(request, provider="acme")
    return encoded.http.json(), encoded.warnings


def test_the_smallest_request():
    encoded = OpenAIChat().encode(Request(model="m", messages=(Message.user("hi"),)), provider="acme")
    assert (encoded.http.method, encoded.http.url) == ("POST", "/chat/completions")
    assert encoded.http.headers == {"content-type": "application/json", "accept": "text/event-stream"}
    assert encoded.http.json() == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert encoded.warnings == []


def test_a_request_with_everything():
    settings = Settings(
        temperature=0.5, top_p=0.9, max_output_tokens=100, stop=("END",), seed=7,
        presence_penalty=0.1, frequency_penalty=0.2, parallel_tool_calls=False,
    )  # fmt: skip
    body, warnings = encode(
        messages=[Message.system("Be brief."), Message.user("hi")],
        tools=(SEARCH, ToolSpec("now", strict=True)),
        tool_choice=NamedTool("search"),
        settings=settings,
        response_format=ResponseFormat({"type": "object"}, "thing", "A thing"),
        provider_options={"acme": {"service_tier": "flex", "seed": 8}, "other": {"x": 1}},
    )
    assert body == {
        "model": "gpt-4o",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_completion_tokens": 100,
        "stop": ["END"],
        "seed": 8,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "tools": [
            {"type": "function", "function": {
                "name": "search", "description": "Looks things up", "parameters": SEARCH.input_schema}},
            {"type": "function", "function": {
                "name": "now", "strict": True,
                "parameters": {
                    "type": "object", "properties": {}, "required": [], "additionalProperties": False}}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "search"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {
            "name": "thing", "schema": {"type": "object"}, "strict": True, "description": "A thing"}},
        "stream": True,
        "stream_options": {"include_usage": True},
        "service_tier": "flex",
    }  # fmt: skip
    assert warnings == []


def test_request_and_quirk_headers_are_sent():
    quirks = Quirks(headers={"x-title": "a"}, path="/v2/chat", extra_body={"tool_stream": True})
    request = Request(model="m", messages=(Message.user("hi"),), headers={"x-mine": "b"})
    http = OpenAIChat(quirks).encode(request, provider="acme").http
    assert http.url == "/v2/chat"
    assert (http.headers["x-title"], http.headers["x-mine"]) == ("a", "b")
    assert http.json()["tool_stream"] is True


@pytest.mark.parametrize(
    ("model", "role"),
    [("gpt-5.2", "developer"), ("o4-mini", "developer"), ("openai/o3", "developer"), ("gpt-4o", "system"),
     ("gpt-5-chat-latest", "system"), ("llama-o3", "system"), ("gpt-oss-120b", "system")],
)  # fmt: skip
def test_the_system_role_goes_by_the_model(model, role):
    body, _ = encode(model=model, messages=[Message.system("s"), Message.user("u")])
    assert body["messages"][0]["role"] == role


def test_a_quirk_fixes_the_system_role():
    body, _ = encode(Quirks(system_role="system"), model="o3", messages=[Message.system("s")])
    assert body["messages"][0]["role"] == "system"


def test_reasoning_models_get_no_sampling():
    settings = Settings(temperature=1, top_p=1, presence_penalty=1, frequency_penalty=1, seed=1)
    body, warnings = encode(model="gpt-5", settings=settings)
    assert {"temperature", "top_p", "presence_penalty", "frequency_penalty"} & set(body) == set()
    assert body["seed"] == 1
    assert [w.setting for w in warnings] == ["temperature", "top_p", "presence_penalty", "frequency_penalty"]


def test_later_models_sample_unless_thinking():
    settings = Settings(temperature=1)
    body, warnings = encode(model="gpt-5.1", settings=settings, reasoning=ReasoningOptions(effort="none"))
    assert (body["temperature"], body["reasoning_effort"], warnings) == (1, "none", [])
    body, warnings = encode(model="gpt-5", settings=settings, reasoning=ReasoningOptions(effort="none"))
    assert "temperature" not in body
    body, warnings = encode(Quirks(reasoning_model_rules=False), model="gpt-5", settings=settings)
    assert body["temperature"] == 1


def test_refused_settings_are_warned_of():
    body, warnings = encode(
        Quirks(settings=SettingQuirks(unsupported=frozenset({"seed"}))), settings=Settings(seed=1, top_k=3)
    )
    assert ("seed" in body, body["top_k"]) == (False, 3)
    assert [w.setting for w in warnings] == ["seed"]
    assert encode(settings=Settings(top_k=3))[1] == [UnsupportedSetting("top_k", "acme does not take it")]


def test_names_and_switches_of_fields():
    quirks = Quirks(
        settings=SettingQuirks(max_tokens_field="max_tokens", stream_options=False),
        tools=ToolQuirks(parallel_calls=False),
    )
    settings = Settings(max_output_tokens=5, parallel_tool_calls=True)
    body, warnings = encode(quirks, settings=settings, tools=(SEARCH,))
    assert body["max_tokens"] == 5
    assert {"max_completion_tokens", "stream_options", "parallel_tool_calls"} & set(body) == set()
    assert [w.setting for w in warnings] == ["parallel_tool_calls"]


def test_no_tools_means_no_field_of_tools():
    body, _ = encode(tools=(), tool_choice="auto", settings=Settings(parallel_tool_calls=True))
    assert {"tools", "tool_choice", "parallel_tool_calls"} & set(body) == set()


def test_unsupported_tools_are_named():
    body, warnings = encode(
        Quirks(tools=ToolQuirks(functions=False)), tools=(SEARCH,), tool_choice="required"
    )
    assert "tools" not in body
    assert warnings == [UnsupportedTool("search", "acme does not take it")]
    body, warnings = encode(tools=(ProviderTool("browser_search"),))
    assert [w.tool for w in warnings] == ["browser_search"]
    body, _ = encode(
        Quirks(tools=ToolQuirks(provider_tools=True)), tools=(ProviderTool("web", options={"n": 1}),)
    )
    assert body["tools"] == [{"type": "web", "n": 1}]


def test_unknown_strict_field_is_left_out():
    body, warnings = encode(Quirks(tools=ToolQuirks(strict=False)), tools=(ToolSpec("f", strict=True),))
    assert "strict" not in body["tools"][0]["function"]
    assert isinstance(warnings[0], OtherWarning)


@pytest.mark.parametrize(
    ("known", "choice", "sent", "warned"),
    [
        ({"auto"}, "required", None, True),
        ({"auto"}, "auto", "auto", False),
        (set(), "auto", None, False),
        ({"auto"}, NamedTool("search"), None, True),
        ({"auto", "required"}, NamedTool("search"), "required", False),
        ({"auto", "none"}, "none", "none", False),
    ],
)
def test_tool_choice_fits_the_vendor(known, choice, sent, warned):
    tools = (SEARCH, ToolSpec("other"))
    body, warnings = encode(
        Quirks(tools=ToolQuirks(choice=frozenset(known))), tools=tools, tool_choice=choice
    )
    assert body.get("tool_choice") == sent
    assert bool(warnings) == warned
    if sent == "required":
        assert [tool["function"]["name"] for tool in body["tools"]] == ["search"]


def test_no_tools_where_none_is_unsupported():
    body, _ = encode(
        Quirks(tools=ToolQuirks(choice=frozenset({"auto"}))), tools=(SEARCH,), tool_choice="none"
    )
    assert "tools" not in body


def test_forced_tool_conflicts_with_thinking():
    quirks = Quirks(tools=ToolQuirks(choice_while_thinking=False), thinking=ThinkingQuirks(style="thinking"))
    body, warnings = encode(quirks, tools=(SEARCH,), tool_choice="required", reasoning=ReasoningOptions())
    assert ("tool_choice" in body, len(warnings)) == (False, 1)
    body, _ = encode(
        quirks, tools=(SEARCH,), tool_choice="required", reasoning=ReasoningOptions(effort="none")
    )
    assert body["tool_choice"] == "required"


@pytest.mark.parametrize(
    ("style", "reasoning", "expected"),
    [
        ("effort", ReasoningOptions(effort="high"), {"reasoning_effort": "high"}),
        ("effort", ReasoningOptions(effort="max"), {"reasoning_effort": "xhigh"}),
        ("groq", ReasoningOptions(effort="low"), {"reasoning_effort": "low", "reasoning_format": "parsed"}),
        ("openrouter", ReasoningOptions(effort="low"), {"reasoning": {"effort": "low"}}),
        ("openrouter", ReasoningOptions(budget_tokens=9), {"reasoning": {"max_tokens": 9}}),
        ("openrouter", ReasoningOptions(), {"reasoning": {"enabled": True}}),
        ("thinking", ReasoningOptions(effort="none"), {"thinking": {"type": "disabled"}}),
        ("thinking", ReasoningOptions(budget_tokens=9), {"thinking": {"type": "enabled"}}),
        (
            "effort-or-budget",
            ReasoningOptions(budget_tokens=9),
            {"thinking": {"type": "enabled", "budget_tokens": 9}},
        ),
        ("effort-or-budget", ReasoningOptions(effort="low", budget_tokens=9), {"reasoning_effort": "low"}),
        (
            "thinking-effort",
            ReasoningOptions(effort="high"),
            {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        ),
        ("thinking-effort", ReasoningOptions(effort="none"), {"thinking": {"type": "disabled"}}),
        ("enable-thinking", ReasoningOptions(effort="none"), {"enable_thinking": False}),
        (
            "enable-thinking",
            ReasoningOptions(budget_tokens=9),
            {"enable_thinking": True, "thinking_budget": 9},
        ),
        ("none", ReasoningOptions(effort="high"), {}),
    ],
)
def test_thinking_uses_the_vendors_fields(style, reasoning, expected):
    body, _ = encode(Quirks(thinking=ThinkingQuirks(style=style)), model="m", reasoning=reasoning)
    names = {
        "reasoning_effort",
        "reasoning_format",
        "reasoning",
        "thinking",
        "enable_thinking",
        "thinking_budget",
    }
    assert {name: body[name] for name in names & set(body)} == expected


def test_budget_without_support_is_warned_of():
    _, warnings = encode(model="m", reasoning=ReasoningOptions(effort="low", budget_tokens=9))
    assert [w.setting for w in warnings] == ["reasoning.budget_tokens"]


def test_json_formats():
    assert encode(response_format=ResponseFormat())[0]["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(("known", "sent"), [("json_object", {"type": "json_object"}), ("none", None)])
def test_schema_goes_into_the_prompt(known, sent):
    """Where the wire has no field for it."""
    body, warnings = encode(
        Quirks(schemas=SchemaQuirks(output=known)), response_format=ResponseFormat({"type": "object"})
    )
    assert body.get("response_format") == sent
    assert '{"type":"object"}' in body["messages"][0]["content"]
    assert [w.setting for w in warnings] == ["output"]


def test_non_json_options_are_caller_errors():
    with pytest.raises(InvalidRequest):
        encode(provider_options={"acme": {"x": object()}})


def test_the_dialect_knows_its_requests():
    dialect = OpenAIChat()
    http = dialect.encode(Request(model="m"), provider="acme").http
    assert server_side(dialect).accepts(http)
    assert (dialect.name, dialect.content_type) == ("openai-chat", "text/event-stream")
