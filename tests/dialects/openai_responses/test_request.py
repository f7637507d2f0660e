"""Requests: settings, tools, output formats, reasoning, and what the vendor's own options do."""

from __future__ import annotations

import msgspec
import pytest

from llmstream.chats.content import Audio, Document, Image
from llmstream.chats.message import Message
from llmstream.dialects.openai_responses import (
    InputQuirks,
    OpenAIResponses,
    Quirks,
    ThinkingQuirks,
    ToolQuirks,
)
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool
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

HI = (Message.user("Hi"),)
HI_ITEM = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("weather", "Looks outside.", SCHEMA)


def encode(quirks=Quirks(), provider="openai", **fields):
    fields = {"model": "gpt-4.1", "messages": HI, **fields}
    return OpenAIResponses(quirks).encode(Request(**fields), provider=provider)


def body(quirks=Quirks(), **fields):
    return encode(quirks, **fields).http.json()


def test_the_smallest_request():
    http = encode().http
    assert (http.method, http.url) == ("POST", "/responses")
    assert http.headers == {"content-type": "application/json", "accept": "text/event-stream"}
    assert http.json() == {"model": "gpt-4.1", "input": [HI_ITEM], "store": False, "stream": True}


def test_everything_at_once():
    request = Request(
        model="gpt-5.4",
        messages=(Message.system("Be brief."), *HI),
        tools=(WEATHER, ProviderTool("web_search", options={"search_context_size": "low"})),
        tool_choice="required",
        settings=Settings(max_output_tokens=500, parallel_tool_calls=False),
        response_format=ResponseFormat(SCHEMA, "place"),
        reasoning=ReasoningOptions(effort="low"),
        provider_options={
            "openai": {"reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}, "truncation": "auto"}
        },
        headers={"x-trace": "1"},
    )
    encoded = OpenAIResponses().encode(request, provider="openai")
    strict = {**SCHEMA, "additionalProperties": False}
    form = {"type": "json_schema", "name": "place", "schema": strict, "strict": True}
    function = {"type": "function", "name": "weather", "description": "Looks outside.", "parameters": SCHEMA}
    assert encoded.http.json() == {
        "model": "gpt-5.4",
        "instructions": "Be brief.",
        "input": [HI_ITEM],
        "max_output_tokens": 500,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [function, {"type": "web_search", "search_context_size": "low"}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": form, "verbosity": "low"},
        "truncation": "auto",
        "stream": True,
    }
    assert encoded.http.headers["x-trace"] == "1"
    assert encoded.warnings == []


# Settings.


def test_settings_without_a_field_warned_of():
    settings = Settings(top_k=4, stop=("x",), seed=1, presence_penalty=1.0, frequency_penalty=1.0)
    encoded = encode(settings=settings)
    assert set(encoded.http.json()) == {"model", "input", "store", "stream"}
    assert [warning.setting for warning in encoded.warnings] == [
        "top_k",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
    ]


@pytest.mark.parametrize(
    ("model", "effort", "taken"),
    [
        ("gpt-4.1", None, True),
        ("o4-mini", None, False),
        ("gpt-5", "none", False),
        ("gpt-5.1", "none", True),
        ("gpt-5.1", "low", False),
        ("openai/gpt-5.4", None, False),
        ("grok-4", None, True),
    ],
)
def test_reasoning_models_take_no_sampling(model, effort, taken):
    reasoning = ReasoningOptions(effort=effort) if effort else None
    encoded = encode(model=model, settings=Settings(temperature=0.5, top_p=0.9), reasoning=reasoning)
    assert ({"temperature", "top_p"} <= set(encoded.http.json())) is taken
    assert len([w for w in encoded.warnings if isinstance(w, UnsupportedSetting)]) == (0 if taken else 2)


def test_openai_model_rules_can_be_disabled():
    sent = body(Quirks(reasoning_model_rules=False), model="gpt-5", settings=Settings(temperature=0.5))
    assert sent["temperature"] == 0.5


# Store and encrypted reasoning.


def test_unstored_reasoning_is_encrypted():
    wanted = ["reasoning.encrypted_content"]
    assert body(model="gpt-5")["include"] == wanted
    assert body(model="grok-4", reasoning=ReasoningOptions(effort="high"))["include"] == wanted
    assert "include" not in body(model="gpt-4.1")
    assert "include" not in body(model="gpt-5", provider_options={"openai": {"store": True}})
    assert body(Quirks(thinking=ThinkingQuirks(encrypted="always")), model="m")["include"] == wanted
    assert "include" not in body(Quirks(thinking=ThinkingQuirks(encrypted="never")), model="gpt-5")


def test_store_is_omitted_where_refused():
    assert "store" not in body(Quirks(store=None))


# Options.


def test_options_merge_last_null_removes():
    options = {"openai": {"store": None, "prompt_cache_key": "k", "stream": False}}
    assert body(provider_options=options) == {
        "model": "gpt-4.1",
        "input": [HI_ITEM],
        "prompt_cache_key": "k",
        "stream": False,
    }


def test_own_name_options_come_on_top():
    options = {"openai": {"user": "a", "truncation": "auto"}, "azure": {"user": "b"}, "xai": {"user": "c"}}
    sent = body(provider="azure", provider_options=options)
    assert (sent["user"], sent["truncation"]) == ("b", "auto")


def test_text_and_reasoning_options_merge():
    options = {"openai": {"reasoning": {"summary": "auto", "effort": None}, "text": {"verbosity": "low"}}}
    sent = body(
        model="gpt-5",
        reasoning=ReasoningOptions(effort="low"),
        response_format=None,
        provider_options=options,
    )
    assert sent["reasoning"] == {"summary": "auto"}
    assert sent["text"] == {"verbosity": "low"}


def test_provider_fixed_fields_and_headers():
    quirks = Quirks(
        extra_body={"provider": {"sort": "price"}}, headers={"x-title": "t"}, path="/v2/responses"
    )
    http = encode(quirks).http
    assert (http.url, http.headers["x-title"], http.json()["provider"]) == (
        "/v2/responses",
        "t",
        {"sort": "price"},
    )


def test_non_json_options_are_caller_errors():
    with pytest.raises(InvalidRequest, match="JSON"):
        encode(provider_options={"openai": {"x": object()}})


# Tools.


def test_strict_tools_get_a_strict_schema():
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    schema["required"] = ["a"]
    (tool,) = body(tools=[ToolSpec("t", "", schema, True)])["tools"]
    assert tool == {
        "type": "function",
        "name": "t",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        "strict": True,
    }


def test_unstrict_schema_is_warned_of():
    """It is sent as it is."""
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    encoded = encode(tools=(ToolSpec("t", "", schema, True),), response_format=ResponseFormat(schema))
    sent = encoded.http.json()
    assert (sent["tools"][0]["parameters"], sent["tools"][0]["strict"]) == (schema, False)
    assert (sent["text"]["format"]["schema"], sent["text"]["format"]["strict"]) == (schema, False)
    assert len(encoded.warnings) == 2


def test_a_server_without_strict_tools():
    encoded = encode(Quirks(tools=ToolQuirks(strict=False)), tools=(ToolSpec("t", "", SCHEMA, True),))
    assert "strict" not in encoded.http.json()["tools"][0]
    assert len(encoded.warnings) == 1


def test_tool_without_schema_takes_an_object():
    (tool,) = body(tools=[ToolSpec("now")])["tools"]
    assert tool == {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}}


def test_tools_of_the_vendor_go_as_they_are():
    tools = (
        ProviderTool("custom", "write_sql", {"format": {"type": "text"}}),
        ProviderTool("mcp", "ignored", {"server_label": "dice"}),
        ProviderTool("code_interpreter", options={"container": {"type": "auto"}}),
    )
    assert body(tools=tools)["tools"] == [
        {"type": "custom", "name": "write_sql", "format": {"type": "text"}},
        {"type": "mcp", "server_label": "dice"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
    ]
    encoded = encode(Quirks(tools=ToolQuirks(provider_tools=False)), tools=tools[2:])
    assert "tools" not in encoded.http.json()
    assert encoded.warnings == [UnsupportedTool("code_interpreter", "openai does not take it")]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("weather"), {"type": "function", "name": "weather"}),
        (NamedTool("write_sql"), {"type": "custom", "name": "write_sql"}),
        (NamedTool("web_search"), {"type": "web_search"}),
    ],
)
def test_tool_choices(choice, sent):
    tools = (WEATHER, ProviderTool("custom", "write_sql"), ProviderTool("web_search"))
    assert body(tools=tools, tool_choice=choice)["tool_choice"] == sent


def test_allowed_tools_are_an_option():
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "weather"}]}
    options = {"openai": {"tool_choice": allowed}}
    sent = body(tools=(WEATHER,), tool_choice=NamedTool("weather"), provider_options=options)
    assert sent["tool_choice"] == allowed


@pytest.mark.parametrize("choice", ["required", NamedTool("weather")])
def test_tool_is_forced_only_if_supported(choice):
    quirks = Quirks(tools=ToolQuirks(choice=frozenset({"auto"})))
    encoded = encode(quirks, provider="meta", tools=(WEATHER,), tool_choice=choice)
    assert "tool_choice" not in encoded.http.json()
    assert encoded.http.json()["tools"]
    assert encoded.warnings == [UnsupportedSetting("tool_choice", "meta cannot force a tool")]


def test_no_tools_where_none_is_unsupported():
    sent = body(Quirks(tools=ToolQuirks(choice=frozenset({"auto"}))), tools=(WEATHER,), tool_choice="none")
    assert set(sent) == {"model", "input", "store", "stream"}


def test_without_tools_there_is_no_choice():
    sent = body(tool_choice="auto", settings=Settings(parallel_tool_calls=True))
    assert set(sent) == {"model", "input", "store", "stream"}


# Output and reasoning.


def test_json_mode_needs_json_in_the_input():
    asked = encode(messages=(Message.user("Answer in JSON."),), response_format=ResponseFormat())
    assert asked.http.json()["text"] == {"format": {"type": "json_object"}}
    assert asked.warnings == []
    messages = (Message.system("Answer in JSON."), *HI)
    added = encode(messages=messages, response_format=ResponseFormat())
    first, *rest = added.http.json()["input"]
    assert (first["role"], "JSON" in first["content"][0]["text"], rest) == ("system", True, [HI_ITEM])
    assert len(added.warnings) == 1


def test_a_loose_schema_with_its_description():
    form = body(response_format=ResponseFormat(SCHEMA, "p", "A place.", False))["text"]["format"]
    assert form == {
        "type": "json_schema",
        "name": "p",
        "description": "A place.",
        "schema": SCHEMA,
        "strict": False,
    }


def test_efforts_and_budgets():
    assert body(model="gpt-5", reasoning=ReasoningOptions(effort="minimal"))["reasoning"] == {
        "effort": "minimal",
        "summary": "auto",
    }
    most = encode(model="gpt-5", reasoning=ReasoningOptions(effort="max"))
    assert most.http.json()["reasoning"] == {"effort": "high", "summary": "auto"}
    assert most.warnings == [OtherWarning("reasoning effort 'max' was sent as 'high'")]
    budget = encode(model="gpt-5", reasoning=ReasoningOptions(budget_tokens=100))
    assert "reasoning" not in budget.http.json()
    assert budget.warnings[0].setting == "reasoning.budget_tokens"


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("gpt-6-astra", "none", "low"),
        ("gpt-6-astra", "max", "max"),
        ("gpt-6.1-sol", "minimal", "low"),
        ("gpt-6-sol", "none", "none"),
        ("gpt-5.6", "max", "max"),
        ("gpt-5.5", "max", "xhigh"),
        ("gpt-5.1-chat-latest", "high", "medium"),
        ("o3", "none", "low"),
        ("gpt-4.1", "high", None),
        ("my-deployment", "max", "xhigh"),
        ("my-deployment", "low", "low"),
    ],
)
def test_effort_becomes_nearest_supported(model, effort, sent):
    encoded = encode(model=model, reasoning=ReasoningOptions(effort=effort))
    assert encoded.http.json().get("reasoning", {}).get("effort") == sent
    assert len(encoded.warnings) == (sent != effort)


def test_text_of_the_reasoning_is_asked_for():
    asked = {"effort": "high", "summary": "auto"}
    assert body(model="gpt-6-astra", reasoning=ReasoningOptions(effort="high"))["reasoning"] == asked
    assert body(model="gpt-5.6", reasoning=ReasoningOptions(effort="none"))["reasoning"] == {"effort": "none"}
    assert body(model="o1", reasoning=ReasoningOptions(effort="high"))["reasoning"] == {"effort": "high"}
    unasked = {"openai": {"reasoning": {"summary": None}}}
    sent = body(model="gpt-6-astra", reasoning=ReasoningOptions(effort="high"), provider_options=unasked)
    assert sent["reasoning"] == {"effort": "high"}


def test_chat_variants_take_no_sampling():
    encoded = encode(model="gpt-5.3-chat-latest", settings=Settings(temperature=0.5, top_p=0.5))
    assert not {"temperature", "top_p"} & set(encoded.http.json())
    assert [w.setting for w in encoded.warnings] == ["temperature", "top_p"]


def test_empty_conversation_is_refused():
    """Unless it continues a stored response."""
    with pytest.raises(InvalidRequest, match="empty"):
        encode(messages=())
    options = {"openai": {"previous_response_id": "resp_1"}}
    assert body(messages=(), provider_options=options)["input"] == []


def test_the_path_decides_what_is_accepted():
    dialect = OpenAIResponses()
    assert server_side(dialect).accepts(HttpRequest("/v1/responses?api-version=1"))
    assert not server_side(dialect).accepts(HttpRequest("/v1/chat/completions"))
    assert not server_side(dialect).accepts(HttpRequest("/v1/responses", method="GET"))
    assert (dialect.name, dialect.content_type) == ("openai-responses", "text/event-stream")
    assert msgspec.structs.replace(dialect, quirks=Quirks(store=None)).quirks.store is None


def test_media_urls_stay_audio_urls_do_not():
    known = OpenAIResponses(Quirks(input=InputQuirks(audio=True)))
    for part in (Image(url="https://a.example"), Document(url="https://a.example")):
        assert known.accepts_url(part)
    assert not known.accepts_url(Audio(url="https://a.example"))
    assert OpenAIResponses().accepts_url(Audio(url="https://a.example"))


def test_bytes_go_where_urls_are_not_fetched():
    bedrock = OpenAIResponses(Quirks(input=InputQuirks(urls=False)))
    assert not bedrock.accepts_url(Image(url="https://a.example/x.png"))
    assert bedrock.accepts_url(Image(url="s3://bucket/x.png"))
    assert bedrock.accepts_url(Image(data=b"x", media_type="image/png"))
    for part in (Image(url="https://a.example/x.png"), Document(url="https://a.example/x.pdf")):
        with pytest.raises(Unsupported, match="as bytes only"):
            encode(Quirks(input=InputQuirks(urls=False)), messages=(Message.user(part),))
    kept = encode(
        Quirks(input=InputQuirks(urls=False)), messages=(Message.user(Image(url="s3://bucket/x.png")),)
    )
    assert kept.http.json()["input"][0]["content"][0]["image_url"] == "s3://bucket/x.png"
