"""Events written as this wire: what is read again is what was said."""

from __future__ import annotations

import datetime
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.errors import BadRequest, ErrorInfo, RateLimited
from llmstream.events import (
    Custom,
    ErrorEvent,
    File,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    Source,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    Usage,
)
from llmstream.exchange import HttpRequest
from llmstream.request import Request, ToolSpec
from llmstream.server_side.wires import server_side
from tests.examples import examples

NAMES = ResponseMetadata("m", "resp_1", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))


def write(*events):
    writer = server_side(OpenAIResponses()).event_encoder(Request(model="m"))
    return b"".join(writer.feed(event) for event in events) + writer.close()


def frames(body):
    out = []
    for frame in body.decode().split("\n\n")[:-1]:
        name, data = frame.split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        out.append(value)
    return out


def text(block_id, *deltas):
    return [TextStart(block_id), *(TextDelta(delta, block_id) for delta in deltas), TextEnd(block_id)]


def without_metadata(events):
    """The events without what only the wire adds."""
    out = []
    for event in events:
        if hasattr(event, "provider_metadata"):
            event = msgspec.structs.replace(event, provider_metadata=None)
        if isinstance(event, Finish):
            event = msgspec.structs.replace(event, raw_finish_reason=None, usage=Usage())
        out.append(event)
    return out


def test_text_is_written_as_openai_writes_it():
    body = write(NAMES, *text("msg_1", "Hel", "lo"), Finish("stop", Usage(3, 2)))
    events = frames(body)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(10))
    response = events[-1]["response"]
    part = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "status": "completed", "content": [part], "role": "assistant"}
    assert (response["id"], response["status"], response["output"]) == ("resp_1", "completed", [item])
    assert response["usage"]["total_tokens"] == 5
    assert response["created_at"] == 1767225600


def test_foreign_blocks_get_minted_ids():
    """Blocks count from 0 in every answer; openai-node 7.57 refuses an item's id that comes again."""
    thought = [ReasoningStart("0"), ReasoningDelta("Hm", "0"), ReasoningEnd("0")]
    ids = []
    for number in ("resp_1", "resp_2"):
        said = frames(write(ResponseMetadata("m", number), *thought, *text("1", "Hi"), Finish("stop")))
        items = said[-1]["response"]["output"]
        assert [item["status"] for item in items] == ["completed", "completed"]
        assert {e["item_id"] for e in said if "item_id" in e} == {item["id"] for item in items}
        ids += [item["id"] for item in items]
    assert ids == ["rs_1_0", "msg_1_1", "rs_2_0", "msg_2_1"]


def test_the_response_repeats_what_was_asked():
    """langchain-openai parses an answer only where the response says that a schema was asked for."""
    wire = OpenAIResponses()
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    function = {"type": "function", "name": "f", "parameters": schema, "strict": True, "description": "d"}
    asked = {
        "model": "m",
        "input": "Hi",
        "stream": True,
        "instructions": "Be brief.",
        "tools": [function, {"type": "web_search"}],
        "tool_choice": "required",
        "max_output_tokens": 100,
        "metadata": {"who": "me"},
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low"},
        "store": False,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}},
    }
    request = server_side(wire).decode_request(HttpRequest("/responses", json.dumps(asked).encode()))
    writer = server_side(wire).event_encoder(request)
    for frame in frames(writer.feed(NAMES) + writer.feed(Finish("stop"))):
        response = frame["response"]
        same = set(asked) - {"input", "stream", "reasoning"}
        assert {name: response[name] for name in same} == {name: asked[name] for name in same}
        assert response["reasoning"] == {"effort": "low", "summary": None}


def test_foreign_request_is_not_repeated():
    """One that this API would refuse: what it has no word for is no reason to fail."""
    request = Request(model="m", messages=(), tools=(ToolSpec("f"), ToolSpec("f")))
    assert server_side(OpenAIResponses()).event_encoder(request).feed(NAMES)


def test_call_is_written_as_openai_writes_it():
    call = [ToolInputStart("look", "c1"), ToolInputDelta('{"a"', "c1"), ToolInputDelta(":1}", "c1")]
    call += [ToolInputEnd("c1"), ToolCall("look", '{"a":1}', "c1")]
    events = frames(write(NAMES, *call, Finish("tool-calls")))
    assert [event["type"].removeprefix("response.") for event in events[2:]] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    item = {"id": "fc_c1", "type": "function_call", "call_id": "c1", "name": "look"}
    assert events[-2]["item"] == {**item, "status": "completed", "arguments": '{"a":1}'}


def test_unstreamed_call_is_written_complete(wire):
    answer = wire.read(write(NAMES, ToolCall("look", '{"a":1}', "c1"), Finish("tool-calls")))
    assert (answer.calls, answer.ids) == ([("look", '{"a":1}')], ["c1"])


def test_call_without_input_is_an_object(wire):
    call = [ToolInputStart("now", "c1"), ToolInputEnd("c1"), ToolCall("now", "{}", "c1")]
    body = write(NAMES, *call, Finish("tool-calls"))
    assert frames(body)[-2]["item"]["arguments"] == "{}"
    assert wire.read(body).calls == [("now", "{}")]


def test_a_sentence_without_names_gets_some():
    events = frames(write(*text("a", "x"), Finish("stop")))
    assert events[0]["type"] == "response.created"
    assert events[0]["response"]["id"]
    assert events[0]["response"]["model"] == "m"


def test_summaries_of_one_item_are_one_item(wire):
    kept = {"openai": {"provider": "openai", "item_id": "rs_1"}}
    said = [
        ReasoningStart("rs_1:0", kept),
        ReasoningDelta("a", "rs_1:0"),
        ReasoningEnd("rs_1:0"),
        ReasoningStart("rs_1:1", kept),
        ReasoningDelta("b", "rs_1:1"),
        ReasoningEnd("rs_1:1", provider_metadata={"openai": {"encrypted_content": "e"}}),
    ]
    body = write(NAMES, *said, *text("msg_1", "c"), Finish("stop"))
    (item, _) = frames(body)[-1]["response"]["output"]
    assert [piece["text"] for piece in item["summary"]] == ["a", "b"]
    assert item["encrypted_content"] == "e"
    assert wire.read(body).events[2:8] == said


def test_foreign_reasoning_has_its_own_items(wire):
    said = []
    for block in ("0", "1"):
        said += [ReasoningStart(block), ReasoningDelta("hm", block), ReasoningEnd(block)]
    answer = wire.read(write(NAMES, *said, Finish("stop")))
    assert answer.reasonings == ["hm", "hm"]


def test_sources_stand_in_the_text(wire):
    page = Source("url", "s1", "https://a.example", "A")
    paper = Source("document", "s2", filename="a.pdf")
    body = write(NAMES, page, TextStart("m"), TextDelta("a", "m"), paper, TextEnd("m"), Finish("stop"))
    found = wire.read(body).of(Source)
    assert [(source.url, source.filename) for source in found] == [
        ("https://a.example", None),
        (None, "a.pdf"),
    ]
    assert len(frames(body)[-1]["response"]["output"][0]["content"][0]["annotations"]) == 2


def test_foreign_vendor_call_is_an_mcp_call(wire):
    call = [ToolInputStart("bash", "t1", provider_executed=True), ToolInputDelta('{"a":1}', "t1")]
    call += [ToolInputEnd("t1"), ToolCall("bash", '{"a":1}', "t1", provider_executed=True)]
    for result, failed in (("done", False), ({"error": 1}, True)):
        told = ToolResult(result, "t1", "bash", failed, provider_executed=True)
        answer = wire.read(write(NAMES, *call, told, Finish("stop")))
        (made,), (got,) = answer.of(ToolCall), answer.of(ToolResult)
        assert (made.tool_name, made.provider_executed, made.dynamic) == ("bash", True, True)
        assert (got.tool_call_id, got.is_error) == ("t1", failed)


def test_caller_results_are_not_written():
    assert write(ToolResult("x", "c1", "look")) == b""


def test_files(wire):
    answer = wire.read(write(NAMES, File("audio/wav", b"RIFF"), Finish("stop")))
    assert answer.of(File) == [File("audio/wav", b"RIFF")]
    answer = wire.read(write(NAMES, File("image/png", b"png"), Finish("stop")))
    assert answer.of(ToolResult)[0].result["result"] == "cG5n"
    assert write(File("image/png", "https://a.example/a.png")) == b""
    assert write(File("text/plain", b"x")) == b""


def test_parts_of_others_are_left_out():
    assert write(Custom("google.x", {"google": {"item": {}}}), Custom("openai.x"), StreamStart()) == b""


@pytest.mark.parametrize(
    ("reason", "raw", "read"),
    [
        ("stop", None, ("stop", "completed")),
        ("unknown", None, ("stop", "completed")),
        ("length", "max_tokens", ("length", "max_tokens")),
        ("length", "length", ("length", "max_output_tokens")),
        ("content-filter", "safety", ("content-filter", "content_filter")),
        ("other", "cancelled", ("other", "cancelled")),
        ("other", "new_reason", ("other", "new_reason")),
        ("other", None, ("other", "cancelled")),
    ],
)
def test_finish_reasons(wire, reason, raw, read):
    finish = wire.read(write(NAMES, *text("m", "a"), Finish(reason, raw_finish_reason=raw))).finish
    assert (finish.finish_reason, finish.raw_finish_reason) == read


@pytest.mark.parametrize(
    "info",
    [
        ErrorInfo("rate-limited", "Slow down", True, status=429, reason="rate_limit_exceeded"),
        ErrorInfo("overloaded", "Busy", True, status=503),
        ErrorInfo("server-error", "Oops", True),
        ErrorInfo("context-too-long", "Too many input tokens: context_length_exceeded", False, status=400),
    ],
)
def test_error_ends_the_stream_as_at_openai(wire, info):
    body = write(NAMES, TextStart("m"), TextDelta("half", "m"), ErrorEvent(info), Finish("error"))
    assert [event["type"] for event in frames(body)[-2:]] == ["error", "response.failed"]
    answer = wire.read(body)
    assert (answer.texts, answer.errors) == (["half"], [info.code])
    assert answer.of(ErrorEvent)[0].error.message == info.message


def test_a_stream_that_broke_off_breaks_off(wire):
    info = ErrorInfo("incomplete-stream", "gone", True)
    body = write(NAMES, TextStart("m"), TextDelta("half", "m"), ErrorEvent(info), Finish("error"))
    assert wire.read(body).errors == ["incomplete-stream"]


def test_a_failure_without_words(wire):
    assert wire.read(write(NAMES, Finish("error"))).errors == ["server-error"]


def test_errors_as_answers():
    dialect = OpenAIResponses()
    info = RateLimited("Slow down", status=429, retry_after_s=2.5, request_id="req_1").info
    answer = server_side(dialect).encode_error(info)
    assert (answer.status, answer.headers["retry-after"]) == (429, "2.5")
    again = dialect.decode_error(answer.status, answer.headers, answer.body, provider="openai")
    assert (again.info.code, again.info.retry_after_s, again.info.request_id) == (
        "rate-limited",
        2.5,
        "req_1",
    )
    refused = server_side(dialect).encode_error(BadRequest("no").info)
    assert (refused.status, json.loads(refused.body)["error"]["type"]) == (400, "invalid_request_error")


def test_openai_client_reads_what_is_written(recording, wire):
    openai = pytest.importorskip("openai")
    httpx = pytest.importorskip("httpx")
    answer = wire.read(recording.read_bytes())
    body = write(*answer.events)

    def reply(_):
        return httpx.Response(200, content=body, headers={"content-type": "text/event-stream"})

    with httpx.Client(transport=httpx.MockTransport(reply)) as http:
        client = openai.OpenAI(api_key="k", base_url="http://sim.example/v1", http_client=http)
        with client.responses.stream(model="m", input="Hi") as stream:
            events = list(stream)
    response = events[-1].response
    refused = recording.stem == "refusal"
    assert response.output_text == ("" if refused else "".join(answer.texts))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == response.output_text
    assert response.usage.total_tokens == answer.finish.usage.total_tokens
    calls = [item for item in response.output if item.type == "function_call" and item.status == "completed"]
    assert [call.call_id for call in calls] == [
        call.tool_call_id
        for call in answer.of(ToolCall)
        if call.provider_metadata["openai"]["type"] == "function_call"
    ]


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
inputs = st.dictionaries(words, words, max_size=2).map(lambda value: json.dumps(value, ensure_ascii=False))


@st.composite
def sentences(draw):
    events = [NAMES]
    for number in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["text", "reasoning", "call", "custom"]))
        deltas = draw(st.lists(words, min_size=1, max_size=3))
        if kind == "text":
            events += text(f"msg_{number}", *deltas)
        elif kind == "reasoning":
            block = f"rs_{number}:0"
            events += [
                ReasoningStart(block),
                *(ReasoningDelta(d, block) for d in deltas),
                ReasoningEnd(block),
            ]
        else:
            call_id = f"call_{number}"
            metadata = {"openai": {"type": "custom_tool_call"}} if kind == "custom" else None
            if kind == "call":
                whole = draw(inputs)
                cut = draw(st.integers(1, len(whole)))
                deltas = [piece for piece in (whole[:cut], whole[cut:]) if piece]
            events += [
                ToolInputStart("look", call_id, provider_metadata=metadata),
                *(ToolInputDelta(delta, call_id) for delta in deltas),
                ToolInputEnd(call_id),
                ToolCall("look", "".join(deltas), call_id, provider_metadata=metadata),
            ]
    called = any(isinstance(event, ToolCall) for event in events)
    events.append(Finish("tool-calls" if called else draw(st.sampled_from(["stop", "length", "other"]))))
    return events


@settings(max_examples=examples(80), deadline=None)
@given(sentences(), st.data())
def test_any_stream_survives_at_any_cut(wire, events, data):
    body = write(*events)
    cut = data.draw(st.integers(0, len(body)))
    answer = wire.read(body, cuts=[cut])
    assert without_metadata(answer.events[1:]) == without_metadata(events)


ENTRY = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}


def test_foreign_logprobs_are_written(wire):
    said = {"mistral": {"logprobs": [ENTRY]}}
    body = write(NAMES, TextStart("0"), TextDelta("a", "0", said), TextEnd("0", provider_metadata=said))
    answer = wire.read(body)
    assert answer.of(TextDelta)[0].provider_metadata == {"openai": {"logprobs": [ENTRY]}}
    assert answer.of(TextEnd)[0].provider_metadata == {"openai": {"logprobs": [ENTRY]}}


@pytest.mark.parametrize("streamed", [True, False])
def test_foreign_custom_call_stays_custom(wire, streamed):
    said = {"azure": {"type": "custom_tool_call"}}
    input_ = [
        ToolInputStart("sql", "c1", provider_metadata=said),
        ToolInputDelta("SELECT 1", "c1"),
        ToolInputEnd("c1"),
    ]
    call = ToolCall("sql", "SELECT 1", "c1", provider_metadata=said)
    body = write(NAMES, *(input_ if streamed else ()), call, Finish("tool-calls"))
    items = [frame["item"] for frame in frames(body) if frame["type"] == "response.output_item.done"]
    assert (items[0]["type"], items[0]["input"]) == ("custom_tool_call", "SELECT 1")
    assert wire.read(body).calls == [("sql", "SELECT 1")]
