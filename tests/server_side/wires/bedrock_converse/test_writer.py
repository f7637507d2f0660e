"""Events of any origin as Converse frames."""

from __future__ import annotations

import json

import pytest

from llmstream import events as ev
from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.errors import ErrorInfo
from llmstream.framing.aws_event_stream import EventStreamDecoder
from llmstream.request import Request
from llmstream.server_side.wires import server_side


def frames(*events):
    """Name and members of each frame."""
    encoder = server_side(BedrockConverse()).event_encoder(Request(model="m"))
    body = b"".join(encoder.feed(event) for event in events) + encoder.close()
    out = []
    for message in EventStreamDecoder().feed(body):
        assert message.headers[":content-type"] == "application/json"
        name = message.headers.get(":event-type") or message.headers[":exception-type"]
        out.append((name, json.loads(message.payload)))
    return out


def test_unstreamed_call_is_its_own_block():
    assert frames(ev.ToolCall("f", '{"a":1}', "t1"), ev.Finish("tool-calls")) == [
        ("messageStart", {"role": "assistant"}),
        (
            "contentBlockStart",
            {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t1", "name": "f"}}},
        ),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": '{"a":1}'}}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {}),
    ]


@pytest.mark.parametrize(
    ("reason", "raw", "wire"),
    [
        ("stop", None, "end_turn"),
        ("stop", "stop_sequence", "stop_sequence"),
        ("stop", "STOP", "end_turn"),
        ("length", "length", "max_tokens"),
        ("content-filter", None, "content_filtered"),
        ("tool-calls", "end_turn", "end_turn"),
        ("other", "new_reason", "new_reason"),
        ("other", None, "end_turn"),
        ("error", "malformed_tool_use", "malformed_tool_use"),
    ],
)
def test_reasons_in_the_wires_words(reason, raw, wire):
    assert frames(ev.Finish(reason, raw_finish_reason=raw))[1] == ("messageStop", {"stopReason": wire})


def test_an_answer_without_a_reason_has_none():
    assert frames(ev.Finish("unknown"))[1] == ("messageStop", {})


def test_foreign_counts_split_as_on_the_wire():
    usage = ev.Usage(100, 5, cached_input_tokens=60, cache_write_tokens=10, raw={"prompt_tokens": 100})
    assert frames(ev.Finish("stop", usage))[-1][1]["usage"] == {
        "inputTokens": 30,
        "outputTokens": 5,
        "totalTokens": 105,
        "cacheReadInputTokens": 60,
        "cacheWriteInputTokens": 10,
    }


def test_error_is_a_final_exception():
    info = ErrorInfo("rate-limited", "slow", True, status=429)
    assert frames(ev.ErrorEvent(info), ev.TextStart("0"), ev.Finish("error")) == [
        ("throttlingException", {"message": "slow"})
    ]
    assert [name for name, _ in frames(ev.Finish("error"))] == ["internalServerException"]


def test_foreign_source_is_a_citation():
    page = ev.Source("url", "1", "https://a.example/x", "A")
    paper = ev.Source("document", "2", filename="b.pdf")
    deltas = [members["delta"] for name, members in frames(page, paper) if name == "contentBlockDelta"]
    assert deltas == [
        {
            "citation": {
                "title": "A",
                "location": {"web": {"url": "https://a.example/x", "domain": "a.example"}},
            }
        },
        {"citation": {"title": "b.pdf"}},
    ]


def test_results_of_any_shape_are_pieces():
    for result, pieces in (("x", [{"text": "x"}]), ({"a": 1}, [{"json": {"a": 1}}]), ([1], [{"json": [1]}])):
        event = ev.ToolResult(result, "t", "f", is_error=True, provider_executed=True)
        (_, start, delta, _) = frames(event)
        assert start[1]["start"]["toolResult"] == {"toolUseId": "t", "status": "error"}
        assert delta[1]["delta"] == {"toolResult": pieces}


def test_unsupported_events_write_nothing():
    silent = [
        ev.ToolResult("x", "t", "f"),
        ev.ToolResult("x", "t", "f", preliminary=True, provider_executed=True),
        ev.File("audio/wav", b"x"),
        ev.File("image/png", "https://a.example/a.png"),
        ev.Raw({}),
        ev.Custom("other.thing"),
        ev.TextDelta("x", "never opened"),
    ]
    assert frames(*silent) == []


def test_a_block_that_broke_off_has_no_stop():
    names = [name for name, _ in frames(ev.TextStart("0"), ev.TextDelta("x", "0"), ev.TextEnd("0", True))]
    assert names == ["messageStart", "contentBlockDelta"]


def test_bucket_image_names_its_owner():
    image = ev.File("image/png", "s3://bucket/a.png", {"bedrock": {"bucket_owner": "123"}})
    source = {"s3Location": {"uri": "s3://bucket/a.png", "bucketOwner": "123"}}
    written = [members["delta"] for name, members in frames(image) if name == "contentBlockDelta"]
    assert written == [{"image": {"source": source}}]
