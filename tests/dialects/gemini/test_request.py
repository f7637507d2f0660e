"""Requests as the API gets them: the whole body, settings, tools, options and headers."""

from __future__ import annotations

import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.gemini import VERTEX, Gemini
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

FLASH = "gemini-2.5-flash"
PRO_3 = "gemini-3.1-pro-preview"
HELLO = (Message.user("Hello"),)
SCHEMA = {
    "type": "object",
    "properties": {"day": {"type": ["integer", "null"]}},
    "additionalProperties": False,
}
TOOL = ToolSpec("tide", "Tides of a day", SCHEMA)
SEARCH = ProviderTool("google_search")


def encode(dialect=Gemini(), provider="google", **fields):
    return dialect.encode(Request(**{"model": FLASH, "messages": HELLO, **fields}), provider=provider)


def body(**fields):
    return encode(**fields).http.json()


def config(**fields):
    encoded = encode(**fields)
    return encoded.http.json().get("generationConfig", {}), encoded.warnings


def test_a_plain_request():
    encoded = encode()
    assert encoded.http.url == "/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert encoded.http.method == "POST"
    assert encoded.http.headers == {"content-type": "application/json"}
    assert encoded.http.json() == {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    assert encoded.warnings == []


def test_a_request_with_everything():
    encoded = encode(
        model=PRO_3,
        messages=(
            Message.system("Be brief."),
            Message.user("Tide?"),
            Message.assistant(c.ToolCall("x1", "tide", '{"day": 1}')),
            Message.tool([c.ToolResult("x1", "12:03")]),
        ),
        tools=(TOOL, SEARCH),
        tool_choice="required",
        settings=Settings(
            temperature=0.5,
            top_p=0.9,
            top_k=5,
            max_output_tokens=500,
            stop=("END",),
            seed=7,
        ),
        response_format=ResponseFormat(SCHEMA),
        reasoning=ReasoningOptions(effort="low"),
        provider_options={"google": {"safetySettings": [{"category": "X", "threshold": "OFF"}]}},
        headers={"X-Trace": "7"},
    )
    assert encoded.warnings == []
    assert encoded.http.headers == {"content-type": "application/json", "x-trace": "7"}
    assert encoded.http.json() == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Tide?"}]},
            {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {"id": "x1", "name": "tide", "args": {"day": 1}},
                        "thoughtSignature": "skip_thought_signature_validator",
                    }
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "x1", "name": "tide", "response": {"output": "12:03"}}}
                ],
            },
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "tide", "description": "Tides of a day", "parametersJsonSchema": SCHEMA}
                ]
            },
            {"googleSearch": {}},
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}, "includeServerSideToolInvocations": True},
        "generationConfig": {
            "maxOutputTokens": 500,
            "temperature": 0.5,
            "topP": 0.9,
            "topK": 5,
            "stopSequences": ["END"],
            "seed": 7,
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
            "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "low"},
        },
        "safetySettings": [{"category": "X", "threshold": "OFF"}],
    }


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("models/gemini-2.5-pro", "/models/gemini-2.5-pro"),
        ("tunedModels/mine-1", "/tunedModels/mine-1"),
        ("publishers/google/models/gemini-3-pro", "/models/gemini-3-pro"),
        ("projects/p/locations/l/endpoints/42", "/endpoints/42"),
        ("odd/name?x", "/models/odd%2Fname%3Fx"),
        ("a@001", "/models/a@001"),
    ],
)
def test_model_is_one_path_segment(model, path):
    assert encode(model=model).http.url == f"{path}:streamGenerateContent?alt=sse"


# settings


def test_only_older_models_take_penalties():
    settings = Settings(presence_penalty=0.1, frequency_penalty=0.2)
    for model in ("gemini-2.0-flash", "tunedModels/t"):
        assert config(model=model, settings=settings) == (
            {"presencePenalty": 0.1, "frequencyPenalty": 0.2},
            [],
        )
    for model in (FLASH, PRO_3, "gemini-2.5-flash-image"):
        found, warnings = config(model=model, settings=settings)
        assert found == {}
        assert [warning.setting for warning in warnings] == ["presence_penalty", "frequency_penalty"]


def test_temperature_is_moved_into_range():
    found, warnings = config(settings=Settings(temperature=3))
    assert found == {"temperature": 2.0}
    assert isinstance(warnings[0], OtherWarning)


def test_excess_stop_sequences_are_cut():
    found, warnings = config(settings=Settings(stop=tuple("abcdefg")))
    assert found == {"stopSequences": list("abcde")}
    assert isinstance(warnings[0], OtherWarning)


@pytest.mark.parametrize(
    ("model", "reasoning", "thinking", "warned"),
    [
        (FLASH, ReasoningOptions(effort="none"), {"thinkingBudget": 0}, False),
        (FLASH, ReasoningOptions(effort="low"), {"includeThoughts": True, "thinkingBudget": 1024}, False),
        (FLASH, ReasoningOptions(effort="max"), {"includeThoughts": True, "thinkingBudget": 24576}, False),
        (FLASH, ReasoningOptions(budget_tokens=99), {"includeThoughts": True, "thinkingBudget": 99}, False),
        (FLASH, ReasoningOptions(budget_tokens=-1), {"includeThoughts": True, "thinkingBudget": -1}, False),
        (
            FLASH,
            ReasoningOptions(budget_tokens=10**6),
            {"includeThoughts": True, "thinkingBudget": 24576},
            True,
        ),
        ("gemini-2.5-pro", ReasoningOptions(effort="none"), {"thinkingBudget": 128}, True),
        (
            "gemini-2.5-pro",
            ReasoningOptions(effort="max"),
            {"includeThoughts": True, "thinkingBudget": 32768},
            False,
        ),
        (
            PRO_3,
            ReasoningOptions(effort="medium"),
            {"includeThoughts": True, "thinkingLevel": "medium"},
            False,
        ),
        (PRO_3, ReasoningOptions(effort="xhigh"), {"includeThoughts": True, "thinkingLevel": "high"}, True),
        (PRO_3, ReasoningOptions(effort="none"), {"thinkingLevel": "low"}, True),
        (PRO_3, ReasoningOptions(budget_tokens=99), {"includeThoughts": True, "thinkingBudget": 99}, False),
        (
            PRO_3,
            ReasoningOptions(effort="low", budget_tokens=9),
            {"includeThoughts": True, "thinkingLevel": "low"},
            True,
        ),
        (
            "gemini-3-pro-preview",
            ReasoningOptions(effort="medium"),
            {"includeThoughts": True, "thinkingLevel": "high"},
            True,
        ),
        (
            "gemini-3-flash",
            ReasoningOptions(effort="minimal"),
            {"includeThoughts": True, "thinkingLevel": "minimal"},
            False,
        ),
        ("gemini-2.0-flash", ReasoningOptions(effort="low"), None, True),
        ("gemini-2.0-flash", ReasoningOptions(effort="none"), None, False),
        (FLASH, ReasoningOptions(), None, False),
    ],
)
def test_reasoning_by_model(model, reasoning, thinking, warned):
    found, warnings = config(model=model, reasoning=reasoning)
    assert found.get("thinkingConfig") == thinking
    assert bool(warnings) is warned


# tools


def tools(**fields):
    encoded = encode(**fields)
    found = encoded.http.json()
    return found.get("tools"), found.get("toolConfig"), encoded.warnings


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (NamedTool("tide"), {"mode": "ANY", "allowedFunctionNames": ["tide"]}),
    ],
)
def test_the_choice_among_tools(choice, calling):
    assert tools(tools=(TOOL,), tool_choice=choice)[1] == {"functionCallingConfig": calling}


def test_strict_tools_are_validated():
    spec = ToolSpec("tide", "", SCHEMA, strict=True)
    assert tools(tools=(spec,))[1] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert tools(tools=(spec,), tool_choice="required")[1] == {"functionCallingConfig": {"mode": "ANY"}}


def test_choice_without_functions_is_omitted():
    found, calling, warnings = tools(tools=(SEARCH,), tool_choice="required")
    assert (found, calling) == ([{"googleSearch": {}}], None)
    assert len(warnings) == 1
    assert tools(tool_choice="none") == (None, None, [])


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_tool_without_arguments_no_schema(schema):
    assert tools(tools=(ToolSpec("now", "", schema),))[0] == [{"functionDeclarations": [{"name": "now"}]}]


def test_untyped_schema_is_an_object():
    ((entry,), _, _) = tools(tools=(ToolSpec("f", "", {"properties": {"a": {}}}),))
    assert entry["functionDeclarations"][0]["parametersJsonSchema"]["type"] == "object"


def test_vendor_tools_keep_their_options():
    found = tools(
        tools=(
            ProviderTool("fileSearch", "", {"fileSearchStoreNames": ["s"]}),
            ProviderTool("code_execution"),
        )
    )
    assert found[0] == [{"fileSearch": {"fileSearchStoreNames": ["s"]}}, {"codeExecution": {}}]


def test_older_models_take_one_kind_of_tools():
    """Either the vendor's tools or functions."""
    found, _, warnings = tools(tools=(TOOL, SEARCH))
    assert len(found) == 1
    assert isinstance(warnings[0], UnsupportedTool)


def test_older_models_take_tools_or_a_format():
    encoded = encode(tools=(TOOL,), response_format=ResponseFormat(SCHEMA))
    assert "generationConfig" not in encoded.http.json()
    assert isinstance(encoded.warnings[0], UnsupportedSetting)


def test_an_unknown_model_may_take_both():
    encoded = encode(model="mine", tools=(TOOL, SEARCH), response_format=ResponseFormat(SCHEMA))
    assert len(encoded.http.json()["tools"]) == 2
    assert encoded.warnings == []


def test_parallel_calls_cannot_be_forbidden():
    assert isinstance(tools(tools=(TOOL,), settings=Settings(parallel_tool_calls=False))[2][0], OtherWarning)


def test_vertex_has_no_server_invocations():
    found = tools(dialect=VERTEX, model=PRO_3, tools=(TOOL, SEARCH))
    assert found[1] is None


# formats and schemas


def test_json_without_a_schema():
    assert config(response_format=ResponseFormat())[0] == {"responseMimeType": "application/json"}


def test_older_fields_get_an_openapi_subset():
    found = body(
        dialect=Gemini(schemas="openapi"), model=PRO_3, tools=(TOOL,), response_format=ResponseFormat(SCHEMA)
    )
    subset = {"type": "object", "properties": {"day": {"type": "integer", "nullable": True}}}
    assert found["tools"][0]["functionDeclarations"][0]["parameters"] == subset
    assert found["generationConfig"] == {"responseMimeType": "application/json", "responseSchema": subset}


# options


def test_options_win_field_by_field():
    found = body(
        settings=Settings(temperature=1),
        provider_options={
            "google": {
                "generationConfig": {"topK": 3, "responseModalities": ["IMAGE"]},
                "labels": {"a": "b"},
            },
            "vertex": {"generationConfig": {"topK": 4}},
        },
        provider="vertex",
        dialect=VERTEX,
    )
    assert found["generationConfig"] == {"temperature": 1.0, "topK": 4, "responseModalities": ["IMAGE"]}
    assert found["labels"] == {"a": "b"}


def test_cached_content_is_not_repeated():
    encoded = encode(
        messages=(Message.system("s"), *HELLO),
        tools=(TOOL,),
        tool_choice="auto",
        provider_options={"google": {"cachedContent": "cachedContents/1"}},
    )
    assert encoded.http.json() == {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "cachedContent": "cachedContents/1",
    }
    assert len(encoded.warnings) == 1


def test_non_json_options_are_caller_errors():
    with pytest.raises(InvalidRequest):
        encode(provider_options={"google": {"labels": {"a": object()}}})
