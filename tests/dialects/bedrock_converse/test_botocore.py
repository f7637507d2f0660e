"""AWS's own SDK on the other side: its model of requests, and its parser of answers."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.bedrock_converse import BedrockConverse
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
from tests.examples import examples

pytest.importorskip("botocore", reason="botocore is not installed")


@pytest.fixture(scope="module")
def operation():
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    description = Loader().load_service_model("bedrock-runtime", "service-2")
    return ServiceModel(description, "bedrock-runtime").operation_model("ConverseStream")


def faults(operation, request):
    """What botocore would refuse of a request."""
    from botocore.validate import ParamValidator

    body = BedrockConverse().encode(request, provider="bedrock").http.json()
    known = set(operation.input_shape.members)
    report = ParamValidator().validate({"modelId": request.model, **body}, operation.input_shape)
    unknown = sorted(set(body) - known)
    return report.generate_report() + "".join(unknown)


def test_full_request_fits_botocore_model(operation):
    mark = {"bedrock": {"cache_point": {"ttl": "1h"}}}
    citation = {"title": "t", "location": {"web": {"url": "https://a.example", "domain": "a.example"}}}
    request = Request(
        model="us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        messages=(
            Message("", "system", (c.Text("A", mark),)),
            Message.user(
                "Look.",
                c.Image(data=b"x", media_type="image/png", metadata=mark),
                c.Document(data=b"%PDF", filename="a.b.pdf"),
                c.Document(url="s3://bucket/a.mp4", media_type="video/mp4"),
            ),
            Message.assistant(
                c.Reasoning("hm", {"bedrock": {"signature": "s"}}),
                c.Reasoning("", {"bedrock": {"redacted_data": "aGk="}}),
                c.Text("So.", {"bedrock": {"citations": [citation]}}),
                c.ToolCall("call|1", "f", '{"a": 1}'),
                c.ToolCall("g", "nova_grounding", "{}", True, {"bedrock": {"type": "server_tool_use"}}),
            ),
            Message.tool(
                [c.ToolResult("call|1", "", True, parts=(c.Image(data=b"x", media_type="image/gif"),))]
            ),
        ),
        tools=(
            ToolSpec("f", "d", {"type": "object"}, strict=True),
            ProviderTool("nova_grounding"),
            ProviderTool("cachePoint"),
        ),
        tool_choice=NamedTool("f"),
        settings=Settings(temperature=0.5, top_k=3, max_output_tokens=9, stop=("x",)),
        response_format=ResponseFormat({"type": "object"}, "n", "d"),
        provider_options={
            "bedrock": {
                "guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"},
                "serviceTier": {"type": "flex"},
            }
        },
    )
    assert faults(operation, request) == ""
    claude = "anthropic.claude-opus-4-7-v1"
    thinking = Request(
        model=claude, messages=(Message.user("Hi"),), reasoning=ReasoningOptions(effort="high")
    )
    assert faults(operation, thinking) == ""


texts = st.builds(c.Text, st.text(max_size=6))
calls = st.builds(c.ToolCall, st.text(max_size=70), st.text(max_size=70), st.text(max_size=6))
results = st.builds(c.ToolResult, st.text(max_size=70), st.text(max_size=6), st.booleans())
names = st.text(st.characters(codec="utf-8"), max_size=30)
papers = st.builds(c.Document, data=st.just(b"x"), media_type=st.just("text/plain"), filename=names)
turns = st.one_of(
    st.lists(texts | papers | results, max_size=4).map(lambda parts: Message.user(*parts)),
    st.lists(texts | calls, max_size=4).map(lambda parts: Message.assistant(*parts)),
)


@settings(
    max_examples=examples(150), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(
    history=st.lists(turns, max_size=6),
    model=st.sampled_from(["amazon.nova-lite-v1:0", "mistral.m-v1", "meta.llama3-v1", "writer.palmyra-x5"]),
)
def test_any_history_fits_botocore_model(operation, history, model):
    request = Request(model=model, messages=(*history, Message.user("Hi")), tools=(ToolSpec("f"),))
    assert faults(operation, request) == ""
    http = BedrockConverse().encode(request, provider="bedrock").http
    server_side(BedrockConverse()).decode_request(http)  # refuses what Bedrock refuses
    roles = [turn["role"] for turn in http.json()["messages"]]
    assert roles == [("user", "assistant")[number % 2] for number in range(len(roles))]


def test_botocore_reads_what_we_write(operation, recording):
    from botocore.eventstream import EventStreamBuffer
    from botocore.parsers import EventStreamJSONParser

    from llmstream import events as ev

    encoder = server_side(BedrockConverse()).event_encoder(Request(model="m"))
    events = [ev.decode(line) for line in recording.expected.read_bytes().splitlines()]
    buffer = EventStreamBuffer()
    buffer.add_data(b"".join(encoder.feed(event) for event in events))
    shape = operation.get_event_stream_output()
    parsed = [EventStreamJSONParser().parse(message.to_response_dict(), shape) for message in buffer]
    assert outline(parsed) == outline(recording.wire)


def outline(wire):
    """The events that make the answer's shape; how it is cut into deltas is free."""
    return [name for event in wire for name in event if name not in ("contentBlockDelta", "ResponseMetadata")]
