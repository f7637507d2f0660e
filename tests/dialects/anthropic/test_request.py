"""Requests as the API gets them: the whole body, settings, options and headers."""

from __future__ import annotations

import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.anthropic import BEDROCK_INVOKE, VERTEX, Anthropic, Quirks
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting
from llmstream.request import (
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolSpec,
)

SONNET = "claude-sonnet-4-5"
HELLO = (Message.user("Hello"),)
TOOL = ToolSpec("tide", "Tides of a day", {"type": "object", "properties": {"day": {"type": "integer"}}})


def encode(dialect=Anthropic(), provider="anthropic", **fields):
    request = Request(**{"model": SONNET, "messages": HELLO, **fields})
    return dialect.encode(request, provider=provider)


def body(**fields):
    return encode(**fields).http.json()


def settings(model=SONNET, reasoning=None, **fields):
    return encode(model=model, reasoning=reasoning, settings=Settings(**fields))


def test_a_plain_request():
    encoded = encode()
    assert encoded.http.url == "/v1/messages"
    assert encoded.http.method == "POST"
    assert encoded.http.headers == {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    assert encoded.warnings == []
    assert encoded.http.json() == {
        "model": SONNET,
        "max_tokens": 32_000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "stream": True,
    }


def test_a_request_with_everything():
    encoded = encode(
        messages=(
            Message.system("Be brief."),
            Message.user("Tide?"),
            Message.assistant(c.ToolCall("toolu_1", "tide", '{"day": 1}')),
            Message.tool([c.ToolResult("toolu_1", "12:03")]),
        ),
        tools=(TOOL, ProviderTool("web_search_20250305", "web_search", {"max_uses": 2})),
        tool_choice="required",
        settings=Settings(
            temperature=0.5, max_output_tokens=500, stop=("END",), parallel_tool_calls=False, top_k=5
        ),
        response_format=ResponseFormat({"type": "object", "properties": {"t": {"type": "string"}}}),
        provider_options={"anthropic": {"metadata": {"user_id": "u1"}, "betas": ["a-1", "b-2"]}},
        headers={"X-Trace": "7"},
    )
    assert encoded.warnings == []
    assert encoded.http.headers == {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "a-1,b-2",
        "x-trace": "7",
    }
    assert encoded.http.json() == {
        "model": SONNET,
        "max_tokens": 500,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Tide?"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {"day": 1}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "12:03"}],
            },
        ],
        "stream": True,
        "tools": [
            {
                "name": "tide",
                "description": "Tides of a day",
                "input_schema": {"type": "object", "properties": {"day": {"type": "integer"}}},
            },
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
        ],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "output_config": {
            "format": {
                "type": "json_schema",
                "schema": {
                    "type": "object",
                    "properties": {"t": {"type": "string"}},
                    "additionalProperties": False,
                },
            }
        },
        "temperature": 0.5,
        "top_k": 5,
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u1"},
    }


# max_tokens


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-3-haiku-20240307", 4_096),
        ("claude-3-5-sonnet-20241022", 8_192),
        ("claude-3-7-sonnet-latest", 32_000),
        ("claude-sonnet-4-20250514", 32_000),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", 32_000),
        ("anthropic/claude-opus-4.8", 32_000),
        ("somebody-elses-model", 8_192),
    ],
)
def test_max_tokens_is_always_sent(model, tokens):
    assert body(model=model)["max_tokens"] == tokens


def test_a_server_may_set_its_own_default():
    assert encode(Anthropic(quirks=Quirks(default_max_tokens=99))).http.json()["max_tokens"] == 99


# settings


def test_unknown_settings_are_warned_about():
    encoded = settings(seed=1, presence_penalty=0.1, frequency_penalty=0.2)
    assert [w.setting for w in encoded.warnings] == ["seed", "presence_penalty", "frequency_penalty"]
    assert not {"seed", "presence_penalty"} & set(encoded.http.json())


@pytest.mark.parametrize(("given", "sent"), [(1.7, 1.0), (-1, 0.0)])
def test_temperature_is_clamped(given, sent):
    encoded = settings(temperature=given)
    assert encoded.http.json()["temperature"] == sent
    assert isinstance(encoded.warnings[0], OtherWarning)


def test_newer_models_take_one_sampler():
    """Temperature and top_p exclude each other there."""
    assert "top_p" in settings(model="claude-3-5-haiku-latest", temperature=0.1, top_p=0.2).http.json()
    encoded = settings(temperature=0.1, top_p=0.2)
    assert "top_p" not in encoded.http.json()
    assert [w.setting for w in encoded.warnings] == ["top_p"]


def test_the_newest_models_take_no_sampling():
    encoded = settings(model="claude-opus-4-7", temperature=0.1, top_p=0.2, top_k=3)
    assert not {"temperature", "top_p", "top_k"} & set(encoded.http.json())
    assert [w.setting for w in encoded.warnings] == ["temperature", "top_p", "top_k"]


def test_thinking_bars_sampling():
    think = ReasoningOptions(budget_tokens=2000)
    encoded = settings(reasoning=think, temperature=0.5, top_k=3)
    assert [w.setting for w in encoded.warnings] == ["temperature", "top_k"]
    assert settings(reasoning=think, temperature=1.0).http.json()["temperature"] == 1.0
    assert [w.setting for w in settings(reasoning=think, top_p=0.5).warnings] == ["top_p"]


# reasoning


def test_budget_raises_max_tokens_above_it():
    sent = body(reasoning=ReasoningOptions(budget_tokens=40_000))
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 40_000}
    assert sent["max_tokens"] > 40_000


def test_budget_without_room_is_refused():
    with pytest.raises(InvalidRequest, match="leaves no room"):
        settings(reasoning=ReasoningOptions(budget_tokens=2000), max_output_tokens=2000)


def test_budget_below_minimum_is_raised():
    encoded = encode(reasoning=ReasoningOptions(budget_tokens=10))
    assert encoded.http.json()["thinking"]["budget_tokens"] == 1024
    assert len(encoded.warnings) == 1


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high", "xhigh", "max"])
def test_effort_becomes_a_budget_if_unknown(effort):
    """Where the model has no effort levels."""
    sent = body(reasoning=ReasoningOptions(effort=effort))
    assert 1024 <= sent["thinking"]["budget_tokens"] < sent["max_tokens"]
    small = settings(reasoning=ReasoningOptions(effort=effort), max_output_tokens=1500).http.json()
    assert small["thinking"]["budget_tokens"] == 1024


def test_an_effort_without_room_is_left_out():
    encoded = settings(reasoning=ReasoningOptions(effort="high"), max_output_tokens=1000)
    assert "thinking" not in encoded.http.json()
    assert [w.setting for w in encoded.warnings] == ["reasoning"]


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("claude-opus-4-8", "minimal", "low"),
        ("claude-opus-4-8", "xhigh", "xhigh"),
        ("claude-sonnet-4-6", "xhigh", "max"),
        ("claude-sonnet-4-6", "max", "max"),
    ],
)
def test_effort_is_adaptive_if_supported(model, effort, sent):
    sent_body = body(model=model, reasoning=ReasoningOptions(effort=effort))
    assert sent_body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert sent_body["output_config"] == {"effort": sent}


def test_budget_for_adaptive_model_is_warned():
    encoded = encode(model="claude-opus-4-7", reasoning=ReasoningOptions(budget_tokens=5000))
    assert encoded.http.json()["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert [w.setting for w in encoded.warnings] == ["reasoning.budget_tokens"]


def test_effort_none_disables_reasoning():
    assert body(reasoning=ReasoningOptions(effort="none"))["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(
    ("model", "thinking", "effort"),
    [
        ("claude-opus-5-5", None, "low"),
        ("claude-fable-5", None, "low"),
        ("claude-fable-5-2", None, "low"),
        ("claude-mythos-preview", None, "low"),
        ("claude-word-of-2027", None, "low"),
        ("claude-sonnet-5-5", {"type": "between_tools"}, None),
        ("claude-haiku-5-5", {"type": "disabled"}, None),
        ("claude-opus-5", {"type": "disabled"}, None),
        ("claude-sonnet-5", {"type": "disabled"}, None),
    ],
)
def test_disabling_reasoning_fits_the_model(model, thinking, effort):
    encoded = encode(model=model, reasoning=ReasoningOptions(effort="none"))
    sent = encoded.http.json()
    assert sent.get("thinking") == thinking
    assert sent.get("output_config", {}).get("effort") == effort
    assert [w.setting for w in encoded.warnings] == (["reasoning.effort"] if effort else [])


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("claude-opus-5-5", "auto"),
        ("claude-sonnet-5-5", "auto"),
        ("claude-mythos-5-1", "auto"),
        ("claude-fable-5", "any"),
        ("claude-haiku-5-5", "any"),
    ],
)
def test_tool_is_forced_only_if_supported(model, sent):
    encoded = encode(model=model, tools=(ToolSpec("t"),), tool_choice="required")
    assert encoded.http.json()["tool_choice"] == {"type": sent}
    assert len(encoded.warnings) == (sent == "auto")


def test_thinking_by_option_replaces_ours():
    thinking = {"type": "enabled", "budget_tokens": 2048}
    sent = body(
        model="claude-sonnet-4-6",
        reasoning=ReasoningOptions(effort="high"),
        provider_options={"anthropic": {"thinking": thinking}},
    )
    assert sent["thinking"] == thinking


def test_newest_api_version_has_no_sampling():
    chosen = Settings(temperature=1.0, top_p=1.0, top_k=1)
    encoded = encode(settings=chosen, headers={"Anthropic-Version": "2026-10-21"})
    assert not {"temperature", "top_p", "top_k"} & set(encoded.http.json())
    assert [w.setting for w in encoded.warnings] == ["temperature", "top_p", "top_k"]


def test_max_tokens_is_capped_at_the_model():
    encoded = encode(model="claude-haiku-4-5", settings=Settings(max_output_tokens=100_000))
    assert encoded.http.json()["max_tokens"] == 64_000
    assert len(encoded.warnings) == 1


def test_a_toolset_has_no_name():
    tool = ProviderTool("computer_toolset_20260801", options={"configs": {}})
    assert body(tools=(tool,))["tools"] == [{"type": "computer_toolset_20260801", "configs": {}}]


def test_plain_model_gets_no_thinking():
    """A model that does not reason."""
    encoded = encode(model="claude-3-5-haiku-latest", reasoning=ReasoningOptions(effort="low"))
    assert "thinking" not in encoded.http.json()
    assert encoded.warnings == [UnsupportedSetting("reasoning", "this model does not support reasoning")]


# structured output


def test_json_without_a_schema_is_warned_of():
    encoded = encode(response_format=ResponseFormat())
    assert "output_config" not in encoded.http.json()
    assert [w.setting for w in encoded.warnings] == ["output"]


def test_structured_output_drops_citations():
    cited = c.Document(
        data=b"facts", media_type="text/plain", metadata={"anthropic": {"citations": {"enabled": True}}}
    )
    messages = (Message.user(cited, "?"),)
    assert body(messages=messages)["messages"][0]["content"][0]["citations"] == {"enabled": True}
    encoded = encode(messages=messages, response_format=ResponseFormat({"type": "object"}))
    assert "citations" not in encoded.http.json()["messages"][0]["content"][0]
    assert len(encoded.warnings) == 1


# provider options


def test_options_are_merged_last_and_deep():
    sent = body(
        reasoning=ReasoningOptions(effort="low"),
        model="claude-opus-4-8",
        settings=Settings(max_output_tokens=10),
        provider_options={
            "anthropic": {"thinking": {"display": "summarized"}, "max_tokens": 77, "service_tier": "auto"},
            "openai": {"ignored": True},
        },
    )
    assert sent["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert sent["max_tokens"] == 77
    assert sent["service_tier"] == "auto"
    assert "ignored" not in sent


def test_options_under_own_provider_name():
    options = {"anthropic": {"a": 1, "b": 1}, "kimi": {"b": 2}}
    sent = encode(provider="kimi", provider_options=options).http.json()
    assert (sent["a"], sent["b"]) == (1, 2)


def test_vendor_tools_add_their_beta_headers():
    tools = (ProviderTool("code_execution_20250825"), ProviderTool("web_fetch_20250910"))
    encoded = encode(tools=tools, provider_options={"anthropic": {"betas": ["web-fetch-2025-09-10"]}})
    assert encoded.http.headers["anthropic-beta"] == "code-execution-2025-08-25,web-fetch-2025-09-10"


def test_container_is_reused_for_code_runs():
    answer = Message.assistant("Done.")
    answer.set_meta("llmstream", {"anthropic": {"container": {"id": "container_1"}}})
    messages = (*HELLO, answer, Message.user("More"))
    assert (
        body(messages=messages, tools=(ProviderTool("code_execution_20250825"),))["container"]
        == "container_1"
    )
    assert "container" not in body(messages=messages)


def test_non_json_options_are_refused():
    with pytest.raises(InvalidRequest, match="cannot be written as JSON"):
        encode(messages=(Message.user("\ud83d"),))
    with pytest.raises(InvalidRequest, match="cannot be written as JSON"):
        encode(provider_options={"anthropic": {"x": object()}})


# other places


def test_bedrock_puts_the_model_in_the_path():
    """The version goes into the body."""
    encoded = encode(
        BEDROCK_INVOKE,
        model="us.anthropic.claude-haiku-4-5-20251001-v1:0",
        provider_options={"anthropic": {"betas": ["x-1"]}},
    )
    assert encoded.http.url == (
        "/model/us.anthropic.claude-haiku-4-5-20251001-v1%3A0/invoke-with-response-stream"
    )
    sent = encoded.http.json()
    assert sent["anthropic_version"] == "bedrock-2023-05-31"
    assert sent["anthropic_beta"] == ["x-1"]
    assert not {"model", "stream"} & set(sent)
    assert set(encoded.http.headers) == {"content-type"}


def test_vertex_puts_the_model_in_the_path():
    """The version and the stream field go into the body."""
    encoded = encode(VERTEX, model="claude-sonnet-4-5@20250929")
    assert encoded.http.url == "/models/claude-sonnet-4-5@20250929:streamRawPredict"
    sent = encoded.http.json()
    assert (sent["anthropic_version"], sent["stream"]) == ("vertex-2023-10-16", True)
    assert "model" not in sent


# tool choice


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        (None, None, None),
        ("auto", None, {"type": "auto"}),
        ("none", True, {"type": "none"}),
        ("required", None, {"type": "any"}),
        (NamedTool("tide"), None, {"type": "tool", "name": "tide"}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", True, {"type": "any", "disable_parallel_tool_use": False}),
    ],
)
def test_tool_choice(choice, parallel, sent):
    sent_body = body(tools=(TOOL,), tool_choice=choice, settings=Settings(parallel_tool_calls=parallel))
    assert sent_body.get("tool_choice") == sent


def test_a_choice_without_tools_is_left_out():
    encoded = encode(tool_choice="required")
    assert "tool_choice" not in encoded.http.json()
    assert len(encoded.warnings) == 1


def test_no_forced_tool_while_thinking():
    encoded = encode(
        tools=(TOOL,), tool_choice=NamedTool("tide"), reasoning=ReasoningOptions(budget_tokens=2000)
    )
    assert encoded.http.json()["tool_choice"] == {"type": "auto"}
    assert len(encoded.warnings) == 1


# tools


def test_tool_without_schema_takes_an_object():
    assert body(tools=(ToolSpec("now"),))["tools"] == [
        {"name": "now", "input_schema": {"type": "object", "properties": {}}}
    ]


def test_strict_tools_stop_after_twenty():
    """Strict schemas are fitted; the twenty-first tool is not strict."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    encoded = encode(tools=tuple(ToolSpec(f"t{n}", "", schema, strict=True) for n in range(21)))
    tools = encoded.http.json()["tools"]
    assert [tool.get("strict") for tool in tools] == [True] * 20 + [None]
    assert tools[0]["input_schema"]["additionalProperties"] is False
    assert tools[20]["input_schema"] == schema
    assert len(encoded.warnings) == 1


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("web_search_20250305", "web_search"),
        ("text_editor_20250728", "str_replace_based_edit_tool"),
        ("bash_20250124", "bash"),
        ("mcp_toolset", None),
    ],
)
def test_the_vendors_tools_know_their_names(kind, name):
    assert body(tools=(ProviderTool(kind),))["tools"][0].get("name") == name


def test_white_space_is_no_stop_sequence():
    request = Request(
        model="claude-sonnet-4-5", messages=(Message.user("Hi"),), settings=Settings(stop=("\n", "END"))
    )
    encoded = Anthropic().encode(request, provider="anthropic")
    assert encoded.http.json()["stop_sequences"] == ["END"]
    assert len(encoded.warnings) == 1
