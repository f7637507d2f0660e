"""Blocks: text, thinking, tools of both kinds, results, sources, and what has no place."""

from __future__ import annotations

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.events import (
    Custom,
    ErrorEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)


def block(index, **fields):
    return {"type": "content_block_start", "index": index, "content_block": fields}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


def end(reason="end_turn"):
    return ({"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"})


def tool(index=0, call_id="toolu_1", *fragments, **fields):
    start = block(index, **{"type": "tool_use", "id": call_id, "name": "f", "input": {}, **fields})
    return (start, *[delta(index, "input_json_delta", partial_json=f) for f in fragments], stop(index))


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def body_of(events):
    """The sentence without its frame."""
    return events[2:-1]


# text and reasoning


def test_block_start_text_is_a_first_delta(decode, stream):
    events = decode(
        stream(block(0, type="text", text="Hel"), delta(0, "text_delta", text="lo"), stop(0), *end())
    )
    assert body_of(events) == [TextStart("0"), TextDelta("Hel", "0"), TextDelta("lo", "0"), TextEnd("0")]


def test_interleaved_and_redacted_thinking(decode, stream):
    wire = [
        block(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="one"),
        delta(0, "signature_delta", signature="sig-0"),
        stop(0),
        block(1, type="redacted_thinking", data="opaque"),
        stop(1),
        block(2, type="thinking", thinking="two"),
        delta(2, "signature_delta", signature="sig-2"),
        stop(2),
    ]
    assert body_of(decode(stream(*wire, *end()))) == [
        ReasoningStart("0"),
        ReasoningDelta("one", "0"),
        ReasoningEnd("0", provider_metadata={"anthropic": {"signature": "sig-0"}}),
        ReasoningStart("1", {"anthropic": {"redacted_data": "opaque"}}),
        ReasoningEnd("1"),
        ReasoningStart("2"),
        ReasoningDelta("two", "2"),
        ReasoningEnd("2", provider_metadata={"anthropic": {"signature": "sig-2"}}),
    ]


def test_an_empty_signature_erases_none(decode, stream):
    wire = [
        block(0, type="thinking", thinking=""),
        delta(0, "signature_delta", signature="sig"),
        delta(0, "signature_delta", signature=""),
        stop(0),
    ]
    (ended,) = of(ReasoningEnd, decode(stream(*wire, *end())))
    assert ended.provider_metadata == {"anthropic": {"signature": "sig"}}


def test_text_of_two_blocks_may_interleave(decode, stream):
    wire = [
        block(0, type="text", text=""),
        block(1, type="thinking", thinking=""),
        delta(0, "text_delta", text="a"),
        delta(1, "thinking_delta", thinking="b"),
        delta(0, "text_delta", text="c"),
        stop(1),
        stop(0),
    ]
    events = decode(stream(*wire, *end()))
    assert [(e.id, e.delta) for e in of((TextDelta, ReasoningDelta), events)] == [
        ("0", "a"),
        ("1", "b"),
        ("0", "c"),
    ]


# calls


@pytest.mark.parametrize("fragments", [(), ("",), ("", "")])
def test_call_without_arguments_is_an_object(fragments, decode, stream):
    events = decode(stream(*tool(0, "toolu_1", *fragments), *end("tool_use")))
    assert body_of(events) == [
        ToolInputStart("f", "toolu_1"),
        ToolInputEnd("toolu_1"),
        ToolCall("f", "{}", "toolu_1"),
    ]


def test_input_in_the_start_is_complete(decode, stream):
    events = decode(stream(*tool(0, "toolu_1", input={"a": [1, 2.5]}), *end("tool_use")))
    assert of(ToolCall, events) == [ToolCall("f", '{"a":[1,2.5]}', "toolu_1")]
    assert of(ToolInputDelta, events) == [ToolInputDelta('{"a":[1,2.5]}', "toolu_1")]


def test_deltas_outrank_the_start_input(decode, stream):
    events = decode(stream(*tool(0, "toolu_1", '{"a":1}', input={"b": 2}), *end("tool_use")))
    assert [call.input for call in of(ToolCall, events)] == ['{"a":1}']


def test_the_caller_rides_along(decode, stream):
    events = decode(stream(*tool(0, "toolu_1", caller={"type": "direct"}), *end("tool_use")))
    assert of(ToolCall, events)[0].provider_metadata == {"anthropic": {"caller": {"type": "direct"}}}


@pytest.mark.parametrize("text", ['{"a": ', "{}{}", "nope", "[" * 100_000, '{"a": NaN}'])
def test_non_json_input_is_an_invalid_call(text, decode, stream):
    (call,) = of(ToolCall, decode(stream(*tool(0, "toolu_1", text), *end("tool_use"))))
    assert call.invalid
    assert call.input == text


@pytest.mark.parametrize("text", ['{"a": "\\ud83d"}', '{"a": 1e999}', "[1]", '"s"'])
def test_odd_json_is_json(text, decode, stream):
    (call,) = of(ToolCall, decode(stream(*tool(0, "toolu_1", text), *end("tool_use"))))
    assert not call.invalid


def test_eager_input_cut_by_limit_is_no_call(decode, stream):
    events = decode(stream(*tool(0, "toolu_1", '{"a": "b')[:-1], *end("max_tokens")))
    assert of(ToolCall, events) == []
    assert of(ToolInputEnd, events) == [ToolInputEnd("toolu_1", incomplete=True)]
    assert events[-1].finish_reason == "length"


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "model_context_window_exceeded"])
def test_limit_before_arguments_is_no_call(reason, decode, stream):
    events = decode(stream(*tool(0, "toolu_1", ""), *tool(1, "toolu_2", ""), *end(reason)))
    assert [call.tool_call_id for call in of(ToolCall, events)] == ["toolu_1"]
    assert [(e.id, e.incomplete) for e in of(ToolInputEnd, events)] == [("toolu_1", False), ("toolu_2", True)]


def test_stop_reason_completes_an_empty_call(stream):
    from llmstream.dialects.anthropic import Anthropic

    decoder = Anthropic().decoder(provider="anthropic")
    assert of(ToolCall, decoder.feed(stream(*tool(0, "toolu_1")))) == []
    assert len(of(ToolCall, decoder.feed(stream(end("tool_use")[0], begin=False)))) == 1


def test_defect_beside_cut_keeps_the_reason(decode, stream):
    wire = (*tool(0, "toolu_1", '{"a"')[:-1], {"type": "message_start"}, *end("max_tokens"))
    events = decode(stream(*wire))
    assert events[-1].finish_reason == "length"
    assert of(ToolCall, events) == []


def test_truncation_drops_an_unstopped_call(decode, stream):
    """The input is complete JSON, but its block never stopped."""
    events = decode(stream(*tool(0, "toolu_1", '{"a":1}')[:-1]))
    assert of(ToolCall, events) == []
    assert of(ToolInputEnd, events) == [ToolInputEnd("toolu_1", incomplete=True)]


def test_missing_stop_before_end_is_allowed(decode, stream):
    events = decode(stream(*tool(0, "toolu_1", '{"a":1}')[:-1], *end("tool_use")))
    assert [call.input for call in of(ToolCall, events)] == ['{"a":1}']


def test_parallel_inputs_interleave_by_index(decode, stream):
    one, two = tool(0, "toolu_1", '{"a"', ":1}"), tool(1, "toolu_2", '{"b"', ":2}")
    wire = [event for pair in zip(one, two, strict=True) for event in pair]
    events = decode(stream(*wire, *end("tool_use")))
    assert [(c.tool_call_id, c.input) for c in of(ToolCall, events)] == [
        ("toolu_1", '{"a":1}'),
        ("toolu_2", '{"b":2}'),
    ]


def test_repeated_call_ids_become_unique(decode, stream):
    events = decode(stream(*tool(0, "same"), *tool(1, "same"), *end("tool_use")))
    assert [call.tool_call_id for call in of(ToolCall, events)] == ["same", "same.2"]


def test_a_call_without_an_id_gets_one(decode, stream):
    events = decode(stream(*tool(3, None), *end("tool_use")))
    assert [call.tool_call_id for call in of(ToolCall, events)] == ["call_3"]


def test_call_id_avoids_the_block_ids(decode, stream):
    wire = (block(0, type="text", text="x"), stop(0), *tool(1, "0"))
    events = decode(stream(*wire, *end("tool_use")))
    assert [call.tool_call_id for call in of(ToolCall, events)] == ["0.2"]


def test_a_call_without_a_name_is_invalid(decode, stream):
    events = decode(stream(*tool(0, "toolu_1", name=None), *end("tool_use")))
    assert [call.invalid for call in of(ToolCall, events)] == [True]
    assert len(of(ErrorEvent, events)) == 1


def test_a_start_sent_twice_is_one_block(decode, stream):
    first, *rest = tool(0, "toolu_1", "{}")
    events = decode(stream(first, first, *rest, *end("tool_use")))
    assert len(of(ToolInputStart, events)) == len(of(ToolCall, events)) == 1


def test_an_index_used_again_is_a_new_block(decode, stream):
    wire = (block(0, type="text", text="a"), block(0, type="text", text="b"), stop(0))
    events = decode(stream(*wire, *end()))
    assert [e.id for e in of(TextStart, events)] == ["0", "0.2"]
    assert [e.id for e in of(TextEnd, events)] == ["0", "0.2"]


# the vendor's tools


@pytest.mark.parametrize(
    "name",
    ["web_search", "web_fetch", "code_execution", "bash_code_execution", "tool_search_tool_bm25", "advisor"],
)
def test_vendor_tools_are_provider_executed(name, decode, stream):
    wire = [
        block(0, type="server_tool_use", id="srvtoolu_1", name=name, input={}),
        delta(0, "input_json_delta", partial_json='{"q":1}'),
        stop(0),
        block(1, type=f"{name}_tool_result", tool_use_id="srvtoolu_1", content={"type": "x"}),
        stop(1),
    ]
    events = decode(stream(*wire, *end()))
    (call,), (result,) = of(ToolCall, events), of(ToolResult, events)
    assert call.provider_executed
    assert call.input == '{"q":1}'
    assert (result.tool_call_id, result.tool_name, result.result) == ("srvtoolu_1", name, {"type": "x"})
    assert result.provider_executed
    assert not result.is_error


def test_mcp_tools_are_dynamic_with_a_server(decode, stream):
    wire = [
        block(0, type="mcp_tool_use", id="mcptoolu_1", name="look", server_name="docs", input={}),
        delta(0, "input_json_delta", partial_json="{}"),
        stop(0),
        block(1, type="mcp_tool_result", tool_use_id="mcptoolu_1", is_error=True, content=[]),
        stop(1),
    ]
    events = decode(stream(*wire, *end()))
    (call,), (result,) = of(ToolCall, events), of(ToolResult, events)
    assert call.dynamic
    assert call.input == "{}"
    assert call.provider_metadata == {"anthropic": {"type": "mcp_tool_use", "server_name": "docs"}}
    assert result.is_error
    assert of(ToolInputDelta, events) == [ToolInputDelta("{}", "mcptoolu_1")]


def test_vendor_tool_error_is_error_result(decode, stream):
    content = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    wire = (block(0, type="web_search_tool_result", tool_use_id="srvtoolu_0", content=content), stop(0))
    (result,) = of(ToolResult, decode(stream(*wire, *end())))
    assert result.is_error
    assert result.tool_name == "web_search"


def test_second_result_of_a_call_is_a_defect(decode, stream):
    result = block(0, type="web_fetch_tool_result", tool_use_id="srvtoolu_0", content={})
    events = decode(stream(result, stop(0), {**result, "index": 1}, stop(1), *end()))
    assert len(of(ToolResult, events)) == 1
    assert len(of(ErrorEvent, events)) == 1


def test_each_hit_of_a_search_is_a_source(decode, stream):
    hits = [{"type": "web_search_result", "url": f"https://{n}.example", "title": n} for n in "ab"]
    wire = (
        block(0, type="web_search_tool_result", tool_use_id="s", content=[*hits, None, {"url": 5}]),
        stop(0),
    )
    sources = of(Source, decode(stream(*wire, *end())))
    assert [(s.url, s.title) for s in sources] == [("https://a.example", "a"), ("https://b.example", "b")]
    assert len({s.id for s in sources}) == 2


# citations


@pytest.mark.parametrize(
    ("citation", "source"),
    [
        (
            {"type": "char_location", "cited_text": "t", "document_title": "facts.txt"},
            ("document", None, "facts.txt", "text/plain"),
        ),
        (
            {"type": "page_location", "document_title": "a.pdf"},
            ("document", None, "a.pdf", "application/pdf"),
        ),
        ({"type": "content_block_location", "document_title": None}, ("document", None, None, None)),
        (
            {"type": "web_search_result_location", "url": "https://x.example", "title": "X"},
            ("url", "https://x.example", "X", None),
        ),
        (
            {"type": "search_result_location", "source": "https://kb.example/1", "title": "KB"},
            ("url", "https://kb.example/1", "KB", None),
        ),
        (
            {"type": "search_result_location", "source": "handbook", "title": None},
            ("document", None, "handbook", None),
        ),
    ],
)
def test_citation_is_a_source_on_its_text(citation, source, decode, stream):
    wire = (block(0, type="text", text="x"), delta(0, "citations_delta", citation=citation), stop(0))
    events = decode(stream(*wire, *end()))
    (told,) = of(Source, events)
    assert (told.source_type, told.url, told.title, told.media_type) == source
    assert told.provider_metadata == {"anthropic": citation}
    assert of(TextEnd, events)[0].provider_metadata == {"anthropic": {"citations": [citation]}}


# blocks of this vendor alone


def test_compaction_is_stored_for_replay(decode, stream):
    wire = [
        block(0, type="compaction", content=None),
        delta(0, "compaction_delta", content="Earlier: "),
        delta(0, "compaction_delta", content="hello."),
        stop(0),
    ]
    told = {"anthropic": {"type": "compaction", "content": "Earlier: hello."}}
    assert body_of(decode(stream(*wire, *end()))) == [Custom("anthropic.compaction", told)]


def test_custom_block_delta_keeps_its_fields(decode, stream):
    """Fields that no delta had when this was written, beside one that is joined."""
    wire = [
        block(0, type="invented_block", words="a", list=[1]),
        delta(0, "invented_delta", words="b", list=[2], more={"x": None}, gone=None),
        delta(0, "text_delta", text="c", note="d"),
        stop(0),
    ]
    told = {
        "type": "invented_block",
        "words": "ab",
        "list": [2],
        "more": {"x": None},
        "text": "c",
        "note": "d",
    }
    body = stream(*wire, *end())
    assert body_of(decode(body)) == [Custom("anthropic.invented_block", {"anthropic": told})]
    assert body_of(decode(*(body[i : i + 1] for i in range(len(body))))) == body_of(decode(body))


def test_half_a_character_in_a_custom_block(decode, stream):
    broken = rb'{"type":"content_block_delta","index":0,"delta":{"type":"x_delta","words":"\ud83d"}}'
    body = stream(block(0, type="x")) + b"data: " + broken + b"\n\n" + stream(stop(0), *end(), begin=False)
    told = {"anthropic": {"type": "x", "words": "\ufffd"}}
    assert body_of(decode(body)) == [Custom("anthropic.x", told)]


# reasoning whose text is left out


def test_reasoning_without_text_has_its_size(decode, stream):
    wire = [
        block(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="", estimated_tokens=64),
        delta(0, "thinking_delta", thinking="", estimated_tokens=None),
        delta(0, "thinking_delta", thinking="", estimated_tokens=128),
        delta(0, "signature_delta", signature="sig"),
        stop(0),
    ]
    told = {"anthropic": {"signature": "sig", "estimated_tokens": 192}}
    ended = ReasoningEnd("0", provider_metadata=told)
    assert body_of(decode(stream(*wire, *end()))) == [ReasoningStart("0"), ended]


def test_deltas_beside_text_hold_estimate(decode, stream):
    wire = [
        block(0, type="thinking", thinking=""),
        delta(0, "thinking_delta", thinking="Hm", estimated_tokens=64),
        delta(0, "thinking_delta", thinking=".", estimated_tokens=32),
        stop(0),
    ]
    assert body_of(decode(stream(*wire, *end()))) == [
        ReasoningStart("0"),
        ReasoningDelta("Hm", "0", {"anthropic": {"estimated_tokens": 64}}),
        ReasoningDelta(".", "0", {"anthropic": {"estimated_tokens": 32}}),
        ReasoningEnd("0", provider_metadata={"anthropic": {"estimated_tokens": 96}}),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
        {"type": "container_upload", "file_id": "file_1"},
        {"type": "invented_block", "x": [1]},
    ],
)
def test_vendor_only_blocks_are_custom(fields, decode, stream):
    events = decode(stream(block(0, **fields), stop(0), *end()))
    assert body_of(events) == [Custom(f"anthropic.{fields['type']}", {"anthropic": fields})]


# what has no place


def test_text_without_a_block_is_an_error(decode, stream):
    """The text itself is not lost."""
    events = decode(stream(delta(5, "text_delta", text="lost"), delta(5, "text_delta", text="?"), *end()))
    assert "".join(e.delta for e in of(TextDelta, events)) == "lost?"
    assert [e.error.code for e in of(ErrorEvent, events)] == ["decode-error"]


def test_a_delta_of_another_kind_is_an_error(decode, stream):
    wire = (block(0, type="text", text=""), delta(0, "input_json_delta", partial_json="{}"), stop(0))
    events = decode(stream(*wire, *end()))
    assert [e.error.code for e in of(ErrorEvent, events)] == ["decode-error"]


def test_a_second_stop_is_harmless(decode, stream):
    wire = (block(0, type="text", text="x"), stop(0), stop(0))
    assert of(ErrorEvent, decode(stream(*wire, *end()))) == []


def test_text_closes_before_a_tool_input(decode, stream):
    wire = (block(0, type="text", text="x"), *tool(1, "toolu_1", "{}"), stop(0))
    kinds = [type(e) for e in body_of(decode(stream(*wire, *end("tool_use"))))]
    assert kinds.index(TextEnd) < kinds.index(ToolInputStart)


# limits


def test_oversized_input_ends_the_stream(decode, stream):
    wire = tool(0, "toolu_1", *["x" * 50] * 3)
    events = decode(stream(*wire, *end("tool_use")), limits=StreamLimits(max_tool_input_bytes=100))
    assert [e.error.code for e in of(ErrorEvent, events)] == ["limit-exceeded"]
    assert of(ToolCall, events) == []


def test_too_many_blocks_end_the_stream(decode, stream):
    wire = [event for n in range(12) for event in (block(n, type="text", text=""), stop(n))]
    events = decode(stream(*wire, *end()), limits=StreamLimits(max_blocks=10))
    assert [e.error.code for e in of(ErrorEvent, events)] == ["limit-exceeded"]


@pytest.mark.parametrize("citations", [7, 1.5, True, "a", {}, {"type": "char_location"}, [7, None, []]])
def test_unknown_citation_shapes_are_skipped(decode, stream, citations):
    events = decode(stream(block(0, type="text", text="a", citations=citations), stop(0), *end()))
    assert [type(event) for event in body_of(events)] == [TextStart, TextDelta, TextEnd]
