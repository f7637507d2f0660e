"""What becomes of our settings, tools and reasoning on the way to Bedrock."""

from __future__ import annotations

import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.bedrock_converse import BedrockConverse
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

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "amazon.nova-lite-v1:0"
LLAMA = "meta.llama3-1-70b-instruct-v1:0"
MISTRAL = "mistral.mistral-large-2407-v1:0"
HI = (Message.user("Hi"),)
ECHO = ToolSpec("echo", "Says it again.", {"type": "object", "properties": {"x": {"type": "string"}}})
CALLED = (
    *HI,
    Message.assistant(c.ToolCall("t1", "echo", '{"x":"a"}')),
    Message.tool([c.ToolResult("t1", "a")]),
)


def encode(model=CLAUDE, messages=HI, provider="bedrock", **fields):
    return BedrockConverse().encode(Request(model=model, messages=messages, **fields), provider=provider)


def body(*args, **fields):
    return encode(*args, **fields).http.json()


def test_a_request_of_every_common_kind():
    encoded = encode(
        messages=(Message.system("Be brief."), *CALLED),
        tools=(ECHO,),
        tool_choice="auto",
        settings=Settings(temperature=0.5, max_output_tokens=99, stop=("END",), top_k=7),
    )
    assert encoded.warnings == []
    assert encoded.http.method == "POST"
    assert encoded.http.headers["accept"] == "application/vnd.amazon.eventstream"
    assert encoded.http.json() == {
        "messages": [
            {"role": "user", "content": [{"text": "Hi"}]},
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "t1", "name": "echo", "input": {"x": "a"}}}],
            },
            {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "a"}]}}]},
        ],
        "system": [{"text": "Be brief."}],
        "inferenceConfig": {"maxTokens": 99, "temperature": 0.5, "stopSequences": ["END"]},
        "toolConfig": {
            "tools": [
                {
                    "toolSpec": {
                        "name": "echo",
                        "description": "Says it again.",
                        "inputSchema": {"json": {"type": "object", "properties": {"x": {"type": "string"}}}},
                    }
                }
            ],
            "toolChoice": {"auto": {}},
        },
        "additionalModelRequestFields": {"top_k": 7},
    }


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (NOVA, "/model/amazon.nova-lite-v1%3A0/converse-stream"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.a.b-v1:0",
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.a.b-v1%3A0"
            "/converse-stream",
        ),
        ("../../x?y#z", "/model/..%2F..%2Fx%3Fy%23z/converse-stream"),
    ],
)
def test_model_is_quoted_once_in_the_path(model, path):
    assert encode(model).http.url == path
    assert server_side(BedrockConverse()).decode_request(encode(model).http).model == model


@pytest.mark.parametrize("model", ["", ".", "..", "\ud800"])
def test_unfit_model_name_is_refused(model):
    with pytest.raises(InvalidRequest):
        encode(model)


def test_caller_options_merge_by_field():
    told = {
        "inferenceConfig": {"topP": 0.1},
        "guardrailConfig": {"guardrailIdentifier": "g"},
        "additionalModelRequestFields": {"anthropic_beta": ["b"]},
    }
    sent = body(settings=Settings(max_output_tokens=5, top_k=3), provider_options={"bedrock": told})
    assert sent["inferenceConfig"] == {"maxTokens": 5, "topP": 0.1}
    assert sent["guardrailConfig"] == {"guardrailIdentifier": "g"}
    assert sent["additionalModelRequestFields"] == {"top_k": 3, "anthropic_beta": ["b"]}


def test_other_provider_options_come_last():
    options = {"bedrock": {"serviceTier": {"type": "flex"}}, "mine": {"serviceTier": {"type": "priority"}}}
    assert body(provider="mine", provider_options=options)["serviceTier"] == {"type": "priority"}


def test_own_headers_are_sent():
    assert encode(headers={"X-Trace": "1"}).http.headers["x-trace"] == "1"


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(InvalidRequest):
        encode(provider_options={"bedrock": {"x": object()}})


# settings


def test_unknown_settings_are_warned_of():
    warnings = encode(
        settings=Settings(seed=1, presence_penalty=0.1, frequency_penalty=0.2, parallel_tool_calls=False)
    ).warnings
    assert [w.setting for w in warnings] == [
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "parallel_tool_calls",
    ]


def test_temperature_is_moved_into_range():
    encoded = encode(NOVA, settings=Settings(temperature=1.7))
    assert encoded.http.json()["inferenceConfig"] == {"temperature": 1.0}
    assert isinstance(encoded.warnings[0], OtherWarning)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (CLAUDE, {"top_k": 5}),
        (NOVA, {"inferenceConfig": {"topK": 5}}),
        (MISTRAL, {"top_k": 5}),
        ("cohere.command-r-v1:0", {"k": 5}),
        (LLAMA, None),
        ("openai.gpt-oss-120b-1:0", None),
    ],
)
def test_top_k_goes_where_the_model_wants_it(model, fields):
    encoded = encode(model, settings=Settings(top_k=5))
    assert encoded.http.json().get("additionalModelRequestFields") == fields
    assert len(encoded.warnings) == (fields is None)


def test_newer_claudes_take_one_sampler():
    encoded = encode(settings=Settings(temperature=0.1, top_p=0.2))
    assert encoded.http.json()["inferenceConfig"] == {"temperature": 0.1}
    assert [w.setting for w in encoded.warnings] == ["top_p"]


# reasoning


def test_a_budget_for_claude():
    sent = body(reasoning=ReasoningOptions(budget_tokens=2048))
    assert sent["additionalModelRequestFields"] == {"thinking": {"type": "enabled", "budget_tokens": 2048}}
    assert "inferenceConfig" not in sent


def test_a_budget_without_room_is_refused():
    with pytest.raises(InvalidRequest, match="leaves no room"):
        encode(reasoning=ReasoningOptions(budget_tokens=2048), settings=Settings(max_output_tokens=2048))


def test_an_effort_for_the_newest_claude():
    sent = body("anthropic.claude-opus-4-7-v1", reasoning=ReasoningOptions(effort="high"))
    thinking = {"type": "adaptive", "display": "summarized"}
    assert sent["additionalModelRequestFields"] == {"thinking": thinking}
    assert sent["outputConfig"] == {"effort": "high"}


def test_always_thinking_gets_least_effort():
    encoded = encode("anthropic.claude-opus-5-5-v1", reasoning=ReasoningOptions(effort="none"))
    assert "additionalModelRequestFields" not in encoded.http.json()
    assert encoded.http.json()["outputConfig"] == {"effort": "low"}
    assert [w.setting for w in encoded.warnings] == ["reasoning.effort"]


def test_unforceable_model_may_choose_a_tool():
    encoded = encode("anthropic.claude-sonnet-5-5-v1", tools=(ECHO,), tool_choice="required")
    assert encoded.http.json()["toolConfig"]["toolChoice"] == {"auto": {}}
    assert len(encoded.warnings) == 1


def test_thinking_bars_sampling_and_forcing():
    encoded = encode(
        reasoning=ReasoningOptions(budget_tokens=1024),
        settings=Settings(temperature=0.2, top_k=3),
        tools=(ECHO,),
        tool_choice="required",
    )
    sent = encoded.http.json()
    assert sent["toolConfig"]["toolChoice"] == {"auto": {}}
    assert "inferenceConfig" not in sent
    assert len(encoded.warnings) == 3


def test_thinking_by_option_bars_them_too():
    thinking = {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}}}
    encoded = encode(tools=(ECHO,), tool_choice=NamedTool("echo"), provider_options={"bedrock": thinking})
    assert encoded.http.json()["toolConfig"]["toolChoice"] == {"auto": {}}


def test_an_effort_for_nova():
    sent = body("us.amazon.nova-2-lite-v1:0", reasoning=ReasoningOptions(effort="minimal"))
    config = {"type": "enabled", "maxReasoningEffort": "low"}
    assert sent["additionalModelRequestFields"] == {"reasoningConfig": config}
    off = body("us.amazon.nova-2-lite-v1:0", reasoning=ReasoningOptions(effort="none"))
    assert off["additionalModelRequestFields"] == {"reasoningConfig": {"type": "disabled"}}


def test_high_nova_effort_drops_sampling():
    """The length is left to the model too."""
    encoded = encode(
        "us.amazon.nova-2-lite-v1:0",
        reasoning=ReasoningOptions(effort="max"),
        settings=Settings(max_output_tokens=10, temperature=0.1, top_k=2),
    )
    assert "inferenceConfig" not in encoded.http.json()
    left_out = [w.setting for w in encoded.warnings if isinstance(w, UnsupportedSetting)]
    assert left_out == ["temperature", "top_k", "max_output_tokens"]


def test_effort_goes_to_gpt_oss_alone():
    sent = body("openai.gpt-oss-20b-1:0", reasoning=ReasoningOptions(effort="medium"))
    assert sent["additionalModelRequestFields"] == {"reasoning_effort": "medium"}
    encoded = encode(LLAMA, reasoning=ReasoningOptions(effort="high"))
    assert encoded.warnings == [
        UnsupportedSetting("reasoning", "this model does not support the setting here")
    ]


# structured output


def test_schema_is_text_in_output_config():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    sent = body(response_format=ResponseFormat(schema, "numbers", "One number."))
    inner = sent["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert (inner["name"], inner["description"]) == ("numbers", "One number.")
    assert '"additionalProperties":false' in inner["schema"]
    assert '"minimum":1' not in inner["schema"]


@pytest.mark.parametrize(
    ("model", "schema"), [(NOVA, {"type": "object"}), (CLAUDE, None), ("anthropic.claude-3-haiku-v1:0", {})]
)
def test_loose_schemas_are_warned_of(model, schema):
    encoded = encode(model, response_format=ResponseFormat(schema))
    assert "outputConfig" not in encoded.http.json()
    assert [w.setting for w in encoded.warnings] == ["output"]


def test_schema_switches_citations_off():
    cited = c.Document(
        data=b"x", media_type="text/plain", metadata={"bedrock": {"citations": {"enabled": True}}}
    )
    encoded = encode(
        messages=(Message.user("Read.", cited),), response_format=ResponseFormat({"type": "object"})
    )
    assert "citations" not in encoded.http.json()["messages"][0]["content"][1]["document"]
    assert any("citations" in w.message for w in encoded.warnings)


@pytest.mark.parametrize(
    ("model", "reasoning", "ways"),
    [
        (CLAUDE, None, ("json_schema", "tool")),
        (CLAUDE, ReasoningOptions(effort="none"), ("json_schema", "tool")),
        (CLAUDE, ReasoningOptions(effort="low"), ("json_schema",)),
        (NOVA, None, ("tool",)),
        (LLAMA, None, ()),
    ],
)
def test_how_a_model_can_be_held_to_json(model, reasoning, ways):
    request = Request(model=model, messages=HI, reasoning=reasoning)
    assert BedrockConverse().output_abilities(request) == ways


# tools


def test_history_tools_are_declared_again():
    encoded = encode(messages=CALLED)
    (tool,) = encoded.http.json()["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "echo"
    assert len(encoded.warnings) == 1


def test_choice_none_leaves_tools_out():
    encoded = encode(tools=(ECHO,), tool_choice="none")
    assert "toolConfig" not in encoded.http.json()
    assert encoded.warnings == []


def test_choice_none_keeps_history_tools():
    other = ToolSpec("other")
    encoded = encode(messages=CALLED, tools=(ECHO, other), tool_choice="none")
    config = encoded.http.json()["toolConfig"]
    assert [tool["toolSpec"]["name"] for tool in config["tools"]] == ["echo"]
    assert "toolChoice" not in config
    assert "forbid" in encoded.warnings[0].message


@pytest.mark.parametrize(
    ("model", "choice", "wire", "warned"),
    [
        (CLAUDE, "required", {"any": {}}, False),
        (CLAUDE, NamedTool("echo"), {"tool": {"name": "echo"}}, False),
        (MISTRAL, "required", {"any": {}}, False),
        (MISTRAL, NamedTool("echo"), {"any": {}}, True),
        (LLAMA, "required", None, True),
        (LLAMA, "auto", None, False),
    ],
)
def test_tool_choices_by_model(model, choice, wire, warned):
    encoded = encode(model, tools=(ECHO,), tool_choice=choice)
    assert encoded.http.json()["toolConfig"].get("toolChoice") == wire
    assert bool(encoded.warnings) == warned


def test_unfit_tool_name_is_refused():
    with pytest.raises(InvalidRequest, match="letters"):
        encode(tools=(ToolSpec("say it"),))


def test_tool_without_schema_or_description():
    (tool,) = body(tools=(ToolSpec("now"),))["toolConfig"]["tools"]
    assert tool["toolSpec"] == {
        "name": "now",
        "inputSchema": {"json": {"type": "object", "properties": {}}},
    }


def test_strict_tools_close_where_supported():
    strict = ToolSpec("f", input_schema={"type": "object", "properties": {}}, strict=True)
    (tool,) = body(tools=(strict,))["toolConfig"]["tools"]
    assert tool["toolSpec"]["strict"] is True
    assert tool["toolSpec"]["inputSchema"]["json"]["additionalProperties"] is False
    encoded = encode(NOVA, tools=(strict,))
    assert "strict" not in encoded.http.json()["toolConfig"]["tools"][0]["toolSpec"]
    assert len(encoded.warnings) == 1


def test_aws_tools_and_cache_points_in_tools():
    tools = body(NOVA, tools=(ProviderTool("nova_grounding"), ProviderTool("cachePoint")))["toolConfig"][
        "tools"
    ]
    assert tools == [{"systemTool": {"name": "nova_grounding"}}, {"cachePoint": {"type": "default"}}]


def test_anthropic_tools_go_to_claude_alone():
    computer = ProviderTool("computer_20250124", "computer", {"display_width_px": 800})
    sent = body(tools=(computer,))
    assert sent["additionalModelRequestFields"] == {
        "tools": [{"type": "computer_20250124", "name": "computer", "display_width_px": 800}]
    }
    assert isinstance(encode(NOVA, tools=(computer,)).warnings[0], UnsupportedTool)


def test_foreign_vendor_tool_is_warned_of():
    encoded = encode(tools=(ProviderTool("code_interpreter"),))
    assert "toolConfig" not in encoded.http.json()
    assert encoded.warnings == [UnsupportedTool("code_interpreter", "Converse has no such tool")]
