"""Requests read back, and what the vendor refuses."""

from __future__ import annotations

import itertools
import json

import msgspec
import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.gemini import VERTEX, Gemini
from llmstream.errors import BadRequest
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

PATH = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
PATH_3 = "/v1beta/models/gemini-3-flash-preview:streamGenerateContent?alt=sse"
HELLO = {"role": "user", "parts": [{"text": "Hello"}]}
SIGNED = {"google": {"thought_signature": "c2ln"}}
SCHEMA = {"type": "object", "properties": {"day": {"type": "integer"}}}
TOOL = ToolSpec("tide", "Tides of a day", SCHEMA)


def dialect(vertex=False):
    numbers = itertools.count(1)
    return Gemini(vertex=vertex, new_call_id=lambda: f"minted-{next(numbers)}")


def read(body, url=PATH, vertex=False):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return server_side(dialect(vertex)).decode_request(HttpRequest(url, data))


def refused(body, url=PATH, vertex=False):
    with pytest.raises(BadRequest) as caught:
        read(body, url, vertex)
    assert (caught.value.status, caught.value.reason) == (400, "INVALID_ARGUMENT")
    return caught.value.message


# which requests


@pytest.mark.parametrize(
    ("url", "yes"),
    [
        (PATH, True),
        ("https://h/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent", True),
        ("/tunedModels/x%2Fy:streamGenerateContent?alt=sse", True),
        ("/models/m:generateContent", False),
        ("/models/m", False),
        ("/v1/messages", False),
    ],
)
def test_which_requests_are_of_this_dialect(url, yes):
    assert server_side(Gemini()).accepts(HttpRequest(url)) is yes
    assert not server_side(Gemini()).accepts(HttpRequest(url, method="GET"))


def test_the_model_is_read_from_the_path():
    assert read({"contents": [HELLO]}).model == "gemini-2.5-flash"
    assert read({"contents": [HELLO]}, "/models/a%2Fb:streamGenerateContent").model == "a/b"
    assert read({"contents": [HELLO]}, "/tunedModels/t:streamGenerateContent").model == "tunedModels/t"


# there and back

MODEL = Message.assistant
REQUESTS = [
    Request(model="gemini-2.5-flash", messages=(Message.user("Hello"),)),
    Request(
        model="gemini-3-flash-preview",
        messages=(
            Message.system("Be brief."),
            Message.user("Look:", c.Image(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")),
            MODEL(
                c.Reasoning("hm", SIGNED),
                c.Text("I see.", SIGNED),
                c.ToolCall("x1", "tide", '{"day":1}', metadata=SIGNED),
                c.ToolCall("x2", "now", "{}"),
            ),
            Message.tool(
                [
                    c.ToolResult(
                        "x1", "12:03", name="tide", parts=(c.Image(data=b"i", media_type="image/png"),)
                    ),
                    c.ToolResult("x2", '{"hour":3}', name="now"),
                ]
            ),
            Message.user(c.Document(url="gs://b/c.pdf", media_type="application/pdf")),
        ),
        tools=(
            TOOL,
            ProviderTool("google_search"),
            ProviderTool("file_search", "", {"fileSearchStoreNames": ["s"]}),
        ),
        tool_choice=NamedTool("tide"),
        settings=Settings(temperature=0.5, top_p=0.9, top_k=5, max_output_tokens=9, stop=("a",), seed=1),
        response_format=ResponseFormat(SCHEMA),
        reasoning=ReasoningOptions(effort="low"),
        provider_options={"google": {"safetySettings": [{"category": "X"}], "labels": {"a": "b"}}},
    ),
    Request(
        model="gemini-2.5-pro",
        messages=(
            Message.user("?"),
            MODEL(
                c.ToolCall("x", "code_execution", '{"language":"PYTHON","code":"1"}', True, SIGNED),
                c.ToolResult(
                    "x",
                    '{"outcome":"OUTCOME_OK"}',
                    name="code_execution",
                    result={"outcome": "OUTCOME_OK"},
                    provider_executed=True,
                ),
                c.File("image/png", data=b"i"),
                c.File("image/png", data=b"d", metadata={"llmstream": {"reasoning": True}}),
            ),
            Message.user("!"),
        ),
        tools=(ProviderTool("code_execution"),),
        reasoning=ReasoningOptions(budget_tokens=512),
    ),
    Request(
        model="gemini-2.0-flash",
        messages=(Message.user("?"),),
        settings=Settings(presence_penalty=0.5, frequency_penalty=0.25),
    ),
    Request(model="tunedModels/t", messages=(Message.user("?"),), reasoning=ReasoningOptions(effort="none")),
    Request(
        model="m",
        messages=(Message.user("?"),),
        response_format=ResponseFormat(),
        tool_choice="none",
        tools=(TOOL,),
    ),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=range(len(REQUESTS)))
def test_a_request_comes_back_as_it_was(request_):
    encoded = Gemini().encode(request_, provider="google")
    assert encoded.warnings == []
    assert server_side(Gemini()).decode_request(encoded.http) == request_


def test_vertex_ids_are_minted_for_results():
    encoded = VERTEX.encode(REQUESTS[1], provider="vertex")
    found = server_side(dialect(vertex=True)).decode_request(encoded.http)
    assert [call.id for call in found.messages[2].tool_calls] == ["minted-1", "minted-2"]
    assert [result.tool_call_id for result in found.messages[3].tool_results] == ["minted-1", "minted-2"]
    assert VERTEX.encode(found, provider="vertex").http == encoded.http


def test_same_name_results_match_in_order():
    call = {"functionCall": {"name": "f", "args": {}}}
    result = {"functionResponse": {"name": "f", "response": {"output": "1"}}}
    body = {
        "contents": [
            HELLO,
            {"role": "model", "parts": [call, call]},
            {"role": "user", "parts": [result, result]},
        ]
    }
    assert [r.tool_call_id for r in read(body).messages[2].tool_results] == ["minted-1", "minted-2"]


def test_chunked_model_turn_is_joined():
    call = {"functionCall": {"name": "f", "args": {}}}
    result = {"functionResponse": {"name": "f", "response": {"output": "1"}}}
    chunks = [{"role": "model", "parts": [part]} for part in ({"text": "a"}, call, {"text": ""})]
    found = read({"contents": [HELLO, *chunks, {"role": "user", "parts": [result]}]})
    assert [message.role for message in found.messages] == ["user", "assistant", "tool"]
    assert found.messages[2].tool_results[0].tool_call_id == found.messages[1].tool_calls[0].id


def test_older_fields_read_as_json_schema():
    declaration = {
        "name": "tide",
        "parameters": {"type": "OBJECT", "properties": {"day": {"type": "INTEGER"}}},
    }
    config = {"responseMimeType": "application/json", "responseSchema": {"type": "STRING", "nullable": True}}
    found = read({"contents": [HELLO], "tools": [{"functionDeclarations": [declaration]}]})
    assert found.tools == (ToolSpec("tide", "", SCHEMA),)
    found = read({"contents": [HELLO], "generationConfig": config})
    assert found.response_format == ResponseFormat({"type": ["string", "null"]})
    assert found.provider_options == {}


def test_snake_case_is_read_too():
    found = read(
        {
            "contents": {"parts": [{"inline_data": {"mime_type": "image/png", "data": "aQ"}}]},
            "system_instruction": {"parts": [{"text": "s"}]},
            "generation_config": {"max_output_tokens": 5, "thinking_config": {"thinking_budget": 9}},
            "tools": [{"google_search": {}}],
            "tool_config": {"function_calling_config": {"mode": "NONE"}},
        }
    )
    assert found.messages == (
        Message.system("s"),
        Message.user(c.Image(data=b"i", media_type="image/png")),
    )
    assert (found.settings.max_output_tokens, found.reasoning) == (5, ReasoningOptions(budget_tokens=9))
    assert (found.tools, found.tool_choice) == ((ProviderTool("google_search"),), "none")


@pytest.mark.parametrize(
    "more",
    [
        {"generationConfig": {"responseModalities": ["IMAGE"], "imageConfig": {"aspectRatio": "1:1"}}},
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1, "includeThoughts": True}}},
        {
            "generationConfig": {
                "responseMimeType": "text/x.enum",
                "responseSchema": {"type": "STRING", "enum": ["a"]},
            }
        },
        {"generationConfig": {"candidateCount": 2, "temperature": 0.1}},
        {"toolConfig": {"retrievalConfig": {"languageCode": "de"}}},
        {
            "tools": [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f", "g"]}},
        },
        {
            "tools": [{"functionDeclarations": [{"name": "f"}]}],
            "toolConfig": {
                "functionCallingConfig": {"mode": "VALIDATED", "streamFunctionCallArguments": True}
            },
        },
        {"tools": [{"functionDeclarations": [{"name": "f", "behavior": "NON_BLOCKING"}]}]},
        {"cachedContent": "cachedContents/1", "serviceTier": "flex"},
    ],
)
def test_what_our_fields_do_not_say_is_kept(more):
    body = {"contents": [HELLO], **more}
    found = read(body)
    assert Gemini().encode(found, provider="google").http.json() == body


def test_hidden_thoughts_budget_stays_hidden():
    found = read({"contents": [HELLO], "generationConfig": {"thinkingConfig": {"thinkingBudget": 9}}})
    again = Gemini().encode(found, provider="google").http.json()["generationConfig"]["thinkingConfig"]
    assert again == {"thinkingBudget": 9, "includeThoughts": False}


def test_parts_nobody_knows_are_kept():
    body = {"contents": [{"role": "user", "parts": [{"hologram": {"x": 1}}]}]}
    found = read(body)
    assert found.messages[0].parts == (c.Custom("google.hologram", {"google": {"x": 1}}),)
    assert Gemini().encode(found, provider="google").http.json() == body


@pytest.mark.parametrize(
    "response",
    [
        {"output": "a"},
        {"error": "a"},
        {"result": 5},
        {},
        {"a": [1]},
        {"output": {"a": 1}},
        {"output": 5},
        {"error": {"a": 1}},
    ],
)
def test_responses_come_back_as_they_were(response):
    call = {"functionCall": {"name": "f", "args": {}}}
    result = {"functionResponse": {"name": "f", "response": response}}
    body = {"contents": [HELLO, {"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]}
    assert Gemini().encode(read(body), provider="google").http.json() == body


# refusals


CALL = {"functionCall": {"name": "f", "args": {}}}
RESULT = {"functionResponse": {"name": "f", "response": {}}}
DECLARED = {"tools": [{"functionDeclarations": [{"name": "f"}]}]}


def turns(*parts):
    roles = itertools.cycle(["user", "model"])
    return {"contents": [{"role": role, "parts": one} for role, one in zip(roles, parts, strict=False)]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{nope", "Invalid JSON payload"),
        (b"[]", "Invalid JSON payload"),
        ({}, "contents is not specified"),
        ({"contents": []}, "contents is not specified"),
        ({"contents": 5}, "Invalid value at 'contents'"),
        ({"contents": ["a"]}, "An object was expected"),
        (
            {"contents": [{"role": "system", "parts": [{"text": "a"}]}]},
            "Please use a valid role: user, model.",
        ),
        ({"contents": [{"role": "user", "parts": []}]}, "contents.parts must not be empty"),
        ({"contents": [{"role": "user", "parts": [{"thought": True}]}]}, "required oneof field 'data'"),
        (turns([{"inlineData": {"data": "!"}}]), "Base64 decoding failed"),
        (turns([{"text": "?"}], [{"functionCall": {"args": {}}}]), "Name cannot be empty"),
        (turns([{"text": "?"}], [{"functionCall": {"name": "f", "args": 5}}]), "Struct"),
        (turns([RESULT]), "comes immediately after a function call turn"),
        (turns([{"text": "?"}], [CALL], [{"text": "?"}]), "number of function response parts"),
        (turns([{"text": "?"}], [CALL, CALL], [RESULT]), "number of function response parts"),
        ({"contents": [HELLO], "generationConfig": {"temperature": 3}}, "must be in the range [0.0, 2.0]"),
        ({"contents": [HELLO], "generationConfig": {"topP": "x"}}, "TYPE_FLOAT"),
        ({"contents": [HELLO], "generationConfig": {"topK": "x"}}, "TYPE_INT32"),
        ({"contents": [HELLO], "generationConfig": {"maxOutputTokens": 0}}, "must be positive"),
        ({"contents": [HELLO], "generationConfig": {"stopSequences": list("abcdef")}}, "at most 5"),
        (
            {
                "contents": [HELLO],
                "generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "low"}},
            },
            "only one of thinking budget and thinking level",
        ),
        (
            {"contents": [HELLO], **DECLARED, "generationConfig": {"responseMimeType": "application/json"}},
            "'application/json' is unsupported",
        ),
        (
            {"contents": [HELLO], "tools": [*DECLARED["tools"], {"googleSearch": {}}]},
            "Tool use with function calling",
        ),
        ({"contents": [HELLO], "tools": DECLARED["tools"] * 2}, "Duplicate function declaration found: f"),
        (
            {"contents": [HELLO], "tools": [{"functionDeclarations": [{"name": "a b"}]}]},
            "Invalid function name",
        ),
        (
            {"contents": [HELLO], "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
            "without function_declarations",
        ),
        (
            {
                "contents": [HELLO],
                **DECLARED,
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["g"]}},
            },
            "should be a subset",
        ),
    ],
)
def test_what_the_vendor_refuses(body, words):
    assert words in refused(body)


def test_vertex_refuses_ids():
    with_id = turns([{"text": "?"}], [{"functionCall": {"id": "x", "name": "f"}}])
    assert 'Unknown name "id"' in refused(with_id, vertex=True)
    assert read(with_id)


def test_gemini_3_refuses_unsigned_calls():
    body = turns([{"text": "?"}], [CALL], [RESULT])
    assert "missing a thought_signature" in refused(body, PATH_3)
    body["contents"][1]["parts"] = [{**CALL, "thoughtSignature": "c2ln"}]
    assert read(body, PATH_3)
    earlier = turns([{"text": "?"}], [CALL], [RESULT])
    earlier["contents"] += [{"role": "model", "parts": [{"text": "a"}]}, HELLO]
    assert read(earlier, PATH_3)


def test_our_own_requests_are_never_refused():
    for request in REQUESTS:
        for one in (Gemini(), VERTEX):
            server_side(one).decode_request(one.encode(request, provider="google").http)


def test_a_foreign_history_is_not_refused():
    request = msgspec.structs.replace(
        REQUESTS[0],
        model="gemini-3-pro-preview",
        messages=(
            Message.assistant("Hi"),
            Message.user("?"),
            Message.assistant(
                c.Reasoning("r"), c.ToolCall("toolu_1", "f", "{}"), c.ToolCall("toolu_2", "g", "[1]")
            ),
            Message.tool([c.ToolResult("toolu_2", "b")]),
            Message.user("go on"),
        ),
    )
    assert server_side(Gemini()).decode_request(Gemini().encode(request, provider="google").http)
