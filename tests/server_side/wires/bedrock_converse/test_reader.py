"""Requests of clients, and what is refused as Bedrock refuses it."""

from __future__ import annotations

import json

import pytest

from llmstream.chats import content as c
from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest
from llmstream.request import NamedTool, ProviderTool, ReasoningOptions, ToolSpec
from llmstream.server_side.wires import server_side

PATH = "/model/anthropic.claude-3-7-sonnet-20250219-v1%3A0/converse-stream"
HI = {"role": "user", "content": [{"text": "Hi"}]}
USE = {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"a": 1}}}
RESULT = {"toolResult": {"toolUseId": "t1", "content": [{"text": "r"}]}}
SPEC = {"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}
TOOLS = {"tools": [SPEC]}
ASKED = [HI, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT]}]


def decode(path=PATH, **body):
    return server_side(BedrockConverse()).decode_request(
        HttpRequest(path, json.dumps({"messages": [HI], **body}).encode())
    )


def said(*blocks, role="assistant"):
    return [HI, {"role": role, "content": list(blocks)}, HI]


def test_what_is_of_this_dialect():
    accepts = server_side(BedrockConverse()).accepts
    assert accepts(HttpRequest(PATH))
    assert accepts(HttpRequest("http://localhost/prefix" + PATH + "?x=1"))
    assert not accepts(HttpRequest(PATH, method="GET"))
    assert not accepts(HttpRequest("/model/m/converse"))
    assert not accepts(HttpRequest("/model/m/invoke-with-response-stream"))


def test_a_whole_request():
    request = decode(
        messages=[
            HI,
            {"role": "assistant", "content": [USE]},
            {"role": "user", "content": [RESULT, *HI["content"]]},
        ],
        system=[{"text": "A"}, {"cachePoint": {"type": "default"}}],
        inferenceConfig={"maxTokens": 9, "temperature": 0.5, "topP": 0.6, "stopSequences": ["x"]},
        toolConfig={**TOOLS, "toolChoice": {"tool": {"name": "f"}}},
        additionalModelRequestFields={"top_k": 4, "thinking": {"type": "enabled", "budget_tokens": 2000}},
        guardrailConfig={"guardrailIdentifier": "g"},
    )
    assert request.model == "anthropic.claude-3-7-sonnet-20250219-v1:0"
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool", "user"]
    assert request.messages[0].parts == (c.Text("A", {"bedrock": {"cache_point": {"type": "default"}}}),)
    assert request.messages[2].parts == (c.ToolCall("t1", "f", '{"a":1}'),)
    assert request.messages[3].parts == (c.ToolResult("t1", "r", name="f"),)
    assert request.tools == (ToolSpec("f", "", {"type": "object"}),)
    assert request.tool_choice == NamedTool("f")
    assert (request.settings.max_output_tokens, request.settings.top_k) == (9, 4)
    assert request.reasoning == ReasoningOptions(budget_tokens=2000)
    assert request.provider_options == {"bedrock": {"guardrailConfig": {"guardrailIdentifier": "g"}}}


def test_parts_of_every_kind():
    citation = {"title": "t"}
    blocks = [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"reasoningContent": {"reasoningText": {"text": "unsigned"}}},
        {"reasoningContent": {"redactedContent": "aGk="}},
        {"citationsContent": {"content": [{"text": "So."}], "citations": [citation]}},
        {"citationsContent": {"citations": [citation]}},
        {"searchResult": {"source": "s", "title": "t", "content": []}},
    ]
    assert decode(messages=said(*blocks)).messages[1].parts == (
        c.Reasoning("hm", {"bedrock": {"signature": "s"}}),
        c.Reasoning("unsigned"),
        c.Reasoning("", {"bedrock": {"redacted_data": "aGk="}}),
        c.Text("So.", {"bedrock": {"citations": [citation]}}),
        c.Custom("bedrock.citationsContent", {"bedrock": {"citations": [citation]}}),
        c.Custom("bedrock.searchResult", {"bedrock": {"source": "s", "title": "t", "content": []}}),
    )


def test_media_of_every_kind():
    blocks = [
        {"text": "Look."},
        {"image": {"format": "png", "source": {"bytes": "YQ=="}}},
        {"document": {"format": "txt", "name": "facts", "source": {"text": "So."}, "context": "old"}},
        {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/v", "bucketOwner": "1"}}}},
        {"audio": {"format": "wav", "source": {"bytes": "YQ=="}}},
        {"document": {"format": "txt", "name": "parts", "source": {"content": [{"text": "x"}]}}},
        {"image": {"format": "png", "source": {"bytes": "*"}}},
    ]
    parts = decode(messages=[{"role": "user", "content": blocks}]).messages[0].parts
    assert parts[1:5] == (
        c.Image(data=b"a", media_type="image/png"),
        c.Document(
            data=b"So.",
            media_type="text/plain",
            filename="facts",
            metadata={"bedrock": {"context": "old", "text_source": True}},
        ),
        c.Document(url="s3://b/v", media_type="video/mp4", metadata={"bedrock": {"bucket_owner": "1"}}),
        c.Audio(data=b"a", media_type="audio/wav"),
    )
    assert [part.type for part in parts[5:]] == ["bedrock.document", "bedrock.image"]


def test_tools_of_every_kind():
    tools = [SPEC, {"systemTool": {"name": "nova_grounding"}}, {"cachePoint": {"type": "default"}}]
    assert decode(toolConfig={"tools": tools, "toolChoice": {"any": {}}}).tools[1:] == (
        ProviderTool("systemTool", "nova_grounding"),
        ProviderTool("cachePoint", options={"type": "default"}),
    )


def test_a_schema_is_read_from_its_text():
    schema = {"jsonSchema": {"schema": '{"type":"object"}', "name": "n", "description": "d"}}
    request = decode(
        "/model/anthropic.claude-sonnet-4-6/converse-stream",
        outputConfig={"textFormat": {"type": "json_schema", "structure": schema}, "effort": "low"},
    )
    assert request.response_format is not None
    assert (request.response_format.schema, request.response_format.name) == ({"type": "object"}, "n")
    assert request.provider_options == {"bedrock": {"outputConfig": {"effort": "low"}}}


def test_unusual_model_fields_stay_options():
    fields = {"reasoning_config": {"type": "enabled", "budget_tokens": 2000}}
    request = decode(additionalModelRequestFields=fields)
    assert request.reasoning is None
    assert request.provider_options == {"bedrock": {"additionalModelRequestFields": fields}}


NOVA = "/model/us.amazon.nova-2-lite-v1:0/converse-stream"


@pytest.mark.parametrize(
    ("path", "fields", "reasoning", "top_k"),
    [
        (
            NOVA,
            {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}},
            ReasoningOptions(effort="low"),
            None,
        ),
        (NOVA, {"reasoningConfig": {"type": "disabled"}}, ReasoningOptions(effort="none"), None),
        (NOVA, {"inferenceConfig": {"topK": 3}}, None, 3),
        (
            "/model/openai.gpt-oss-20b-1:0/converse-stream",
            {"reasoning_effort": "high"},
            ReasoningOptions(effort="high"),
            None,
        ),
        (PATH, {"thinking": {"type": "disabled"}}, ReasoningOptions(effort="none"), None),
    ],
)
def test_model_fields_that_mean_a_setting(path, fields, reasoning, top_k):
    request = decode(path, additionalModelRequestFields=fields)
    assert (request.reasoning, request.settings.top_k) == (reasoning, top_k)
    assert request.provider_options == {}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": []}, "must start with a user message"),
        ({"messages": [{"role": "assistant", "content": [{"text": "a"}]}]}, "must start with a user message"),
        (
            {"messages": [{"role": "user", "content": []}]},
            "content field in the Message object at messages.0",
        ),
        ({"messages": [{"role": "user", "content": [{"text": " "}]}]}, "at messages.0.content.0 is blank"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "is a union"),
        ({"messages": [{"role": "user", "content": [{"text": 5}]}]}, "wrong type"),
        ({"messages": [{"role": "user", "content": [{"image": 5}]}]}, "wrong type"),
        ({"messages": [{"role": "user", "content": [{"image": {"format": "png"}}]}]}, "source field"),
        ({"messages": [HI, {"role": "tool", "content": [{"text": "a"}]}]}, "enum value set"),
        ({"messages": "Hi"}, "could not be read"),
        ({"messages": ASKED}, "toolConfig field must be defined"),
        ({"messages": said(USE), "toolConfig": TOOLS}, "Expected toolResult blocks at messages.2.content"),
        (
            {"messages": [HI, {"role": "assistant", "content": [USE]}], "toolConfig": TOOLS},
            "Expected toolResult",
        ),
        ({"messages": [{"role": "user", "content": [RESULT]}], "toolConfig": TOOLS}, "exceeds the number"),
        (
            {
                "messages": [
                    HI,
                    {"role": "assistant", "content": [USE]},
                    {"role": "user", "content": [RESULT] * 2},
                ],
                "toolConfig": TOOLS,
            },
            "duplicate Ids",
        ),
        (
            {"messages": said({"toolUse": {**USE["toolUse"], "input": "x"}}), "toolConfig": TOOLS},
            "json object",
        ),
        ({"messages": said({"toolUse": {**USE["toolUse"], "name": "a b"}}), "toolConfig": TOOLS}, "pattern"),
        (
            {"messages": said({"toolUse": {**USE["toolUse"], "toolUseId": "?"}}), "toolConfig": TOOLS},
            "pattern",
        ),
        (
            {"messages": said({"toolResult": {"toolUseId": "t1"}}, role="user"), "toolConfig": TOOLS},
            "content field",
        ),
        (
            {"messages": [{"role": "user", "content": [{"document": {"name": "a.pdf", "source": {}}}]}]},
            "document file name can only contain",
        ),
        (
            {"messages": [{"role": "user", "content": [{"document": {"name": "a", "source": {}}}]}]},
            "text block",
        ),
        ({"system": [{"text": ""}]}, "greater than or equal to 1"),
        ({"inferenceConfig": {"maxTokens": 0}}, "greater than or equal to 1"),
        ({"inferenceConfig": {"temperature": 1.5}}, "less than or equal to 1"),
        ({"inferenceConfig": {"topP": -1}}, "greater than or equal to 0"),
        ({"toolConfig": {"tools": []}}, "length greater than or equal to 1"),
        ({"toolConfig": {"tools": [5]}}, "is a union"),
        ({"toolConfig": {"tools": [{"toolSpec": {"name": "a b"}}]}}, "pattern"),
        (
            {"toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": 5}}]}},
            "must be one of the following",
        ),
        ({"toolConfig": {"tools": [SPEC, SPEC]}}, "duplicate tool names"),
        ({"toolConfig": {"tools": [{"toolSpec": {**SPEC["toolSpec"], "description": ""}}]}}, "description"),
        ({"toolConfig": {**TOOLS, "toolChoice": {"tool": {"name": "g"}}}}, "not among"),
        ({"toolConfig": {**TOOLS, "toolChoice": {"none": {}}}}, "union"),
        (
            {
                "outputConfig": {
                    "textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": "{"}}}
                }
            },
            "jsonSchema.schema",
        ),
    ],
)
def test_refusals(body, words):
    with pytest.raises(BadRequest) as caught:
        decode(**body)
    assert words in caught.value.message
    assert (caught.value.status, caught.value.reason) == (400, "ValidationException")


def test_non_json_body_and_no_model_refused():
    for http in (HttpRequest(PATH, b"{"), HttpRequest("/elsewhere", b"{}"), HttpRequest(PATH, b"[" * 9999)):
        with pytest.raises(BadRequest):
            server_side(BedrockConverse()).decode_request(http)


def test_refusal_has_the_vendors_shape():
    with pytest.raises(BadRequest) as caught:
        decode(messages=[])
    answer = server_side(BedrockConverse()).encode_error(caught.value.info)
    assert answer.status == 400
    assert answer.headers["x-amzn-errortype"] == "ValidationException"
    assert set(json.loads(answer.body)) == {"message"}
