"""Answers as Mistral would stream them."""

from __future__ import annotations

import json

from llmstream import events as ev
from llmstream.dialects.mistral import Mistral
from llmstream.errors import IncompleteStream, RateLimited
from llmstream.request import Request
from llmstream.server_side.wires import server_side


def written(*events):
    encoder = server_side(Mistral()).event_encoder(Request(model="m"))
    return b"".join(encoder.feed(event) for event in events) + encoder.close()


def chunks(*events):
    frames = written(*events).split(b"\n\n")
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames if frame[:7] == b"data: {"]


def deltas(*events):
    return [chunk["choices"][0]["delta"] for chunk in chunks(*events)][1:]


def test_an_answer_chunk_by_chunk():
    body = chunks(
        ev.StreamStart(),
        ev.ResponseMetadata("m-2", "c-7"),
        ev.TextStart("0"),
        ev.TextDelta("Hello", "0"),
        ev.TextEnd("0"),
        ev.Finish("stop", ev.Usage(3, 4)),
    )
    frame = {"id": "c-7", "object": "chat.completion.chunk", "created": 0, "model": "m-2"}
    usage = {"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4}
    assert body == [
        {
            **frame,
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
        },
        {**frame, "choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": None}]},
        {
            **frame,
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}],
            "usage": usage,
        },
    ]
    assert written(ev.Finish("stop")).endswith(b"data: [DONE]\n\n")


def test_reasoning_with_its_signature():
    assert deltas(
        ev.ReasoningStart("0"),
        ev.ReasoningDelta("Hm", "0"),
        ev.ReasoningEnd("0", provider_metadata={"mistral": {"signature": "s"}}),
    ) == [
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]},
        {"content": [{"type": "thinking", "thinking": [], "signature": "s"}]},
    ]


def test_a_call_is_written_whole():
    said = deltas(
        ev.ToolInputStart("f", "a"),
        ev.ToolInputDelta('{"x"', "a"),
        ev.ToolInputDelta(":1}", "a"),
        ev.ToolInputEnd("a"),
        ev.ToolCall("f", '{"x":1}', "a"),
        ev.ToolCall("g", "{}", "b"),
    )
    assert [delta["tool_calls"] for delta in said] == [
        [{"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}, "index": 0, "type": "function"}],
        [{"id": "b", "function": {"name": "g", "arguments": "{}"}, "index": 1, "type": "function"}],
    ]


def test_vendor_tool_calls_are_not_written():
    assert written(ev.ToolCall("search", "{}", "a", provider_executed=True)) == b""


def test_sources_and_files():
    assert deltas(
        ev.Source("url", "s", "https://x.example", "X"),
        ev.File("image/png", b"\x01"),
        ev.File("application/pdf", "https://d.example"),
        ev.Custom("mistral.file", {"mistral": {"type": "file", "file_id": "f"}}),
        ev.Custom("openai.thing", {"openai": {}}),
        ev.Source("document", "t", title="T"),
    ) == [
        {
            "content": [
                {"type": "tool_reference", "tool": "web_search", "title": "X", "url": "https://x.example"}
            ]
        },
        {"content": [{"type": "image_url", "image_url": "data:image/png;base64,AQ=="}]},
        {"content": [{"type": "document_url", "document_url": "https://d.example"}]},
        {"content": [{"type": "file", "file_id": "f"}]},
    ]


def test_foreign_reasons_are_translated():
    def reason(finish):
        return chunks(finish)[-1]["choices"][0]["finish_reason"]

    assert reason(ev.Finish("length", raw_finish_reason="max_tokens")) == "length"
    assert reason(ev.Finish("length", raw_finish_reason="model_length")) == "model_length"
    assert reason(ev.Finish("tool-calls", raw_finish_reason="stop")) == "stop"
    assert reason(ev.Finish("tool-calls")) == "tool_calls"
    assert reason(ev.Finish("content-filter")) == "content_filter"
    assert reason(ev.Finish("unknown")) is None


def test_error_ends_the_body_without_done(decode):
    body = written(
        ev.TextStart("0"),
        ev.TextDelta("x", "0"),
        ev.ErrorEvent(RateLimited("slow down", status=429).info),
        ev.Finish("error"),
    )
    assert b"[DONE]" not in body
    (error,) = [event.error for event in decode(body) if isinstance(event, ev.ErrorEvent)]
    assert (error.code, error.message, error.status) == ("rate-limited", "slow down", 429)


def test_truncated_response_reads_as_error(decode):
    body = written(ev.ErrorEvent(IncompleteStream("cut").info), ev.Finish("error"))
    assert [type(event) for event in decode(body)] == [ev.StreamStart, ev.ErrorEvent, ev.Finish]
