"""What each event of a Cohere stream becomes, and what becomes of odd ones."""

from __future__ import annotations

import pytest

from llmstream import events as ev
from llmstream.dialects.base import StreamLimits
from llmstream.events import (
    Custom,
    ErrorEvent,
    Finish,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)


def content(kind, index=0, **fields):
    return {"type": f"content-{kind}", "index": index, "delta": {"message": {"content": fields}}}


def opens(kind, index=0):
    return content("start", index, type=kind, **{kind: ""})


def says(words, index=0, kind="text"):
    return content("delta", index, **{kind: words})


def closes(index=0):
    return {"type": "content-end", "index": index}


def plan(words):
    return {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": words}}}


def call(index=0, id="a", name="f", arguments=""):
    function = {"name": name, "arguments": arguments}
    made = {"id": id, "type": "function", "function": function}
    return {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": made}}}


def more(arguments, index=0):
    delta = {"message": {"tool_calls": {"function": {"arguments": arguments}}}}
    return {"type": "tool-call-delta", "index": index, "delta": delta}


def over(index=0):
    return {"type": "tool-call-end", "index": index}


def cites(*citations):
    told = citations[0] if len(citations) == 1 else list(citations)
    return {"type": "citation-start", "index": 0, "delta": {"message": {"citations": told}}}


def ends(reason="COMPLETE", **fields):
    return {"type": "message-end", "delta": {"finish_reason": reason, **fields}}


def of(events, kind):
    return [event for event in events if type(event) is kind]


def calls(events):
    return [(event.tool_name, event.input, event.tool_call_id) for event in of(events, ToolCall)]


def text(events):
    return "".join(event.delta for event in of(events, TextDelta))


def errors(events):
    return [event.error.code for event in of(events, ErrorEvent)]


# blocks


def test_first_event_names_response_only(decode, stream):
    """It names no model."""
    assert decode(stream())[1] == ResponseMetadata(id="m-1")


def test_text_is_a_block(decode, stream):
    events = decode(stream(opens("text"), says("Hel"), says("lo"), closes()))
    assert events[2:] == [
        TextStart("0"),
        TextDelta("Hel", "0"),
        TextDelta("lo", "0"),
        TextEnd("0"),
        Finish("stop", raw_finish_reason="COMPLETE"),
    ]


def test_thinking_is_reasoning(decode, stream):
    events = decode(stream(opens("thinking"), says("Hm", kind="thinking"), closes()))
    assert events[2:5] == [ReasoningStart("0"), ReasoningDelta("Hm", "0"), ReasoningEnd("0")]


def test_tool_plan_is_marked_reasoning(decode, stream):
    """It closes before the call opens."""
    events = decode(stream(plan("I"), plan(" will"), call(), over(), end="TOOL_CALL"))
    assert events[2:7] == [
        ReasoningStart("0", {"cohere": {"tool_plan": True}}),
        ReasoningDelta("I", "0"),
        ReasoningDelta(" will", "0"),
        ReasoningEnd("0"),
        ToolInputStart("f", "a"),
    ]


def test_the_tool_plan_closes_before_content(decode, stream):
    events = decode(stream(plan("So:"), opens("text"), says("x"), closes()))
    assert [type(event) for event in events[2:6]] == [ReasoningStart, ReasoningDelta, ReasoningEnd, TextStart]


def test_an_empty_tool_plan_says_nothing(decode, stream):
    assert of(decode(stream(plan(""), plan(None))), ReasoningStart) == []


def test_content_and_calls_index_separately(decode, stream):
    body = stream(opens("text", 0), says("Look:", 0), closes(0), call(0), more("{}", 0), over(0))
    events = decode(body)
    assert text(events) == "Look:"
    assert calls(events) == [("f", "{}", "a")]


def test_unclosed_text_closes_before_a_call(decode, stream):
    events = decode(stream(opens("text"), says("x"), call(), over(), closes()))
    assert [type(event) for event in events[2:6]] == [TextStart, TextDelta, TextEnd, ToolInputStart]


def test_two_blocks_may_be_open_at_once(decode, stream):
    body = stream(opens("thinking", 0), opens("text", 1), says("a", 1), says("b", 0, "thinking"), closes(1))
    events = decode(body)
    assert of(events, ReasoningDelta) == [ReasoningDelta("b", "0")]
    assert of(events, TextDelta) == [TextDelta("a", "1")]


def test_content_without_start_opens_a_block(decode, stream):
    events = decode(stream(says("Hello"), closes()))
    assert (text(events), errors(events)) == ("Hello", [])


def test_a_start_may_hold_the_first_words(decode, stream):
    assert text(decode(stream(content("start", type="text", text="Hel"), says("lo")))) == "Hello"


def test_start_at_open_index_is_a_new_block(decode, stream):
    events = decode(stream(opens("text"), says("a"), opens("text"), says("b"), closes()))
    assert of(events, TextStart) == [TextStart("0"), TextStart("1")]


def test_text_of_another_kind_is_a_new_block(decode, stream):
    events = decode(stream(opens("text"), says("hm", kind="thinking"), says("x")))
    assert of(events, ReasoningDelta) == [ReasoningDelta("hm", "1")]
    assert of(events, TextDelta) == [TextDelta("x", "2")]


@pytest.mark.parametrize("odd", ["Hello", [{"type": "text", "text": "Hello"}], [5, {"text": "Hello"}]])
def test_content_may_be_a_string_or_a_list(decode, stream, odd):
    delta = {"type": "content-delta", "index": 0, "delta": {"message": {"content": odd}}}
    assert text(decode(stream(delta))) == "Hello"


def test_unknown_content_kind_is_ignored(decode, stream):
    events = decode(stream(content("start", type="hologram"), closes()))
    assert (of(events, TextStart), errors(events)) == ([], [])


# calls


def test_fragments_of_a_call_are_joined(decode, stream):
    events = decode(stream(call(), more('{"x"'), more(":1}"), over(), end="TOOL_CALL"))
    assert events[2:] == [
        ToolInputStart("f", "a"),
        ToolInputDelta('{"x"', "a"),
        ToolInputDelta(":1}", "a"),
        ToolInputEnd("a"),
        ToolCall("f", '{"x":1}', "a"),
        Finish("tool-calls", raw_finish_reason="TOOL_CALL"),
    ]


@pytest.mark.parametrize("pieces", [[], [""], ["null"], ["nu", "ll"], [" ", "null", " "], [None], [{}]])
def test_missing_arguments_become_an_object(decode, stream, pieces):
    events = decode(stream(call(), *map(more, pieces), over(), end="TOOL_CALL"))
    assert calls(events) == [("f", "{}", "a")]
    assert of(events, ToolInputDelta) == []


def test_arguments_may_stand_in_the_start(decode, stream):
    assert calls(decode(stream(call(arguments='{"x":'), more("1}"), over()))) == [("f", '{"x":1}', "a")]
    assert calls(decode(stream(call(arguments={"x": 1}), over()))) == [("f", '{"x":1}', "a")]


def test_a_beginning_like_null_is_not_lost(decode, stream):
    events = decode(stream(call(), more("nu"), more("mber"), over(), end="TOOL_CALL"))
    (made,) = of(events, ToolCall)
    assert (made.input, made.invalid) == ("number", True)
    (made,) = of(decode(stream(call(), more("nul"), over(), end="TOOL_CALL")), ToolCall)
    assert (made.input, made.invalid) == ("nul", True)


def test_parallel_calls_interleave(decode, stream):
    body = stream(
        call(0, "a", "f"),
        call(1, "b", "g"),
        more("{", 0),
        more("[", 1),
        more("}", 0),
        more("]", 1),
        over(1),
        over(0),
    )
    assert sorted(calls(decode(body))) == [("f", "{}", "a"), ("g", "[]", "b")]


def test_a_list_of_calls_is_several(decode, stream):
    made = [{"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "function": {"name": "g"}}]
    start = {"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": made}}}
    assert calls(decode(stream(start))) == [("f", "{}", "a"), ("g", "{}", "b")]


def test_message_end_completes_an_open_call(decode, stream):
    assert calls(decode(stream(call(), more('{"x":1}'), end="TOOL_CALL"))) == [("f", '{"x":1}', "a")]


def test_call_at_open_index_ends_the_other(decode, stream):
    events = decode(stream(call(0, "a"), more("{}"), call(0, "b"), over()))
    assert calls(events) == [("f", "{}", "a"), ("f", "{}", "b")]


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("arguments", ["", '{"x":'])
def test_call_cut_by_token_limit_is_no_call(decode, stream, arguments, ended):
    body = stream(call(), more(arguments), *([over()] if ended else []), end="MAX_TOKENS")
    events = decode(body)
    assert of(events, ToolInputEnd) == [ToolInputEnd("a", incomplete=True)]
    assert calls(events) == []
    assert events[-1].finish_reason == "length"


def test_complete_call_survives_the_limit(decode, stream):
    events = decode(stream(call(), more('{"x":1}'), over(), call(1, "b"), more("{", 1), end="MAX_TOKENS"))
    assert calls(events) == [("f", '{"x":1}', "a")]


def test_broken_arguments_are_raw_invalid(decode, stream):
    (made,) = of(decode(stream(call(), more('{"x"'), over(), end="TOOL_CALL")), ToolCall)
    assert (made.input, made.invalid) == ('{"x"', True)


def test_missing_or_equal_ids_are_minted(decode, stream):
    events = decode(stream(call(0, None), over(0), call(1, "a"), over(1), call(2, "a"), over(2)))
    assert [made[2] for made in calls(events)] == ["made-1", "a", "made-2"]


def test_no_block_has_the_id_of_a_call(decode, stream):
    events = decode(stream(call(0, "0"), over(), opens("text"), says("x"), call(1, "1"), over(1)))
    opened = [e.id for e in events if isinstance(e, (TextStart, ToolInputStart))]
    assert opened == ["0", "1", "made-1"]


def test_call_without_a_name_is_one_error(decode, stream):
    events = decode(stream(call(name=None), more("{}"), more(" "), over()))
    assert (errors(events), calls(events)) == (["decode-error"], [])


def test_a_start_without_a_call_is_an_error(decode, stream):
    assert errors(decode(stream({"type": "tool-call-start", "index": 0}))) == ["decode-error"]


def test_arguments_of_no_open_call_are_error(decode, stream):
    assert errors(decode(stream(more("{"), more("}")))) == ["decode-error"]


def test_calls_make_complete_mean_tool_calls(decode, stream):
    last = decode(stream(call(), over(), end="COMPLETE"))[-1]
    assert (last.finish_reason, last.raw_finish_reason) == ("tool-calls", "COMPLETE")


# citations


def test_citation_is_a_source_per_document(decode, stream):
    citation = {
        "start": 0,
        "end": 4,
        "text": "Ruby",
        "sources": [
            {"type": "document", "id": "d:0", "document": {"id": "d:0", "title": "facts.txt"}},
            {"type": "tool", "id": "look:0", "tool_output": {"content": "Ruby"}},
            {"type": "document", "id": "d:1", "document": {"url": "https://r.example", "title": "R"}},
        ],
    }
    found = of(decode(stream(opens("text"), says("Ruby"), cites(citation), closes())), Source)
    assert [(s.source_type, s.id, s.url, s.title) for s in found] == [
        ("document", "source-1", None, "facts.txt"),
        ("document", "source-2", None, "look:0"),
        ("url", "source-3", "https://r.example", "R"),
    ]
    assert [s.provider_metadata["cohere"]["source"] for s in found] == [0, 1, 2]
    assert found[0].provider_metadata["cohere"]["citation"] == citation


def test_citation_without_sources_is_stored(decode, stream):
    citation = {"start": 0, "end": 1, "text": "R", "sources": []}
    assert of(decode(stream(cites(citation))), Custom) == [
        Custom("cohere.citation", {"cohere": {"citation": citation}})
    ]


def test_several_citations_in_one_event(decode, stream):
    one = {"text": "a", "sources": [{"id": "x"}]}
    assert len(of(decode(stream(cites(one, one))), Source)) == 2


def test_empty_citation_event_is_an_error(decode, stream):
    assert errors(decode(stream(cites("what")))) == ["decode-error"]


# the end


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("COMPLETE", "stop"),
        ("STOP_SEQUENCE", "stop"),
        ("MAX_TOKENS", "length"),
        ("TOOL_CALL", "tool-calls"),
        ("ERROR_TOXIC", "content-filter"),
        ("ERROR_LIMIT", "length"),
        ("USER_CANCEL", "other"),
        ("complete", "stop"),
        ("BORED", "other"),
        (None, "unknown"),
        (7, "unknown"),
    ],
)
def test_finish_reasons(decode, stream, raw, meant):
    last = decode(stream(opens("text"), says("x"), closes(), ends(raw), end=None))[-1]
    assert last.finish_reason == meant
    assert last.raw_finish_reason == (raw if isinstance(raw, str) else None)


@pytest.mark.parametrize(("raw", "status"), [("ERROR", 500), ("TIMEOUT", 504)])
def test_failed_response_has_vendor_message(decode, stream, raw, status):
    events = decode(stream(opens("text"), says("x"), ends(raw, error="out of memory"), end=None))
    (error,) = of(events, ErrorEvent)
    assert (error.error.message, error.error.status, error.error.retryable) == ("out of memory", status, True)
    assert (events[-1].finish_reason, events[-1].raw_finish_reason) == ("error", raw)


def test_failed_response_needs_no_message(decode, stream):
    (error,) = of(decode(stream(end="ERROR")), ErrorEvent)
    assert "'ERROR'" in error.error.message


def test_error_with_other_reason_is_an_error(decode, stream):
    events = decode(stream(ends("COMPLETE", error="lost a shard"), end=None))
    assert (errors(events), events[-1].finish_reason) == (["server-error"], "error")


def test_usage_includes_cached_and_thinking(decode, stream):
    told = {
        "billed_units": {"input_tokens": 84, "output_tokens": 314},
        "tokens": {"input_tokens": 1501.0, "output_tokens": 346.0, "reasoning_tokens": 304},
        "cached_tokens": 1008.0,
    }
    usage = decode(stream(ends(usage=told), end=None))[-1].usage
    assert usage == ev.Usage(1501, 346, 1847, 304, 1008, raw=told)


def test_billed_counts_replace_missing_ones(decode, stream):
    told = {"billed_units": {"input_tokens": 6, "output_tokens": 7}}
    usage = decode(stream(ends(usage=told), end=None))[-1].usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens) == (6, 7, None)


@pytest.mark.parametrize(
    "odd", [None, [], "x", {"tokens": 3}, {"tokens": {"input_tokens": "x", "output_tokens": 1.5}}]
)
def test_odd_usage_says_nothing(decode, stream, odd):
    events = decode(stream(ends(usage=odd), end=None))
    assert (events[-1].usage.input_tokens, events[-1].usage.output_tokens) == (None, None)
    assert errors(events) == []


def test_missing_last_event_is_incomplete(decode, stream):
    events = decode(stream(opens("text"), says("Hel"), end=None, done=False))
    assert of(events, TextEnd) == [TextEnd("0", incomplete=True)]
    assert errors(events) == ["incomplete-stream"]
    assert events[-1].finish_reason == "error"


def test_a_cut_call_is_no_call(decode, stream):
    events = decode(stream(call(), more('{"x":1}'), end=None, done=False))
    assert (calls(events), errors(events)) == ([], ["incomplete-stream"])


def test_done_without_a_last_event_is_an_end(decode, stream):
    events = decode(stream(opens("text"), says("x"), end=None))
    assert (errors(events), events[-1].finish_reason) == ([], "unknown")


def test_done_before_any_answer_is_an_error(decode, stream):
    assert errors(decode(b"data: [DONE]\n\n")) == ["incomplete-stream"]
    assert errors(decode(stream(end=None))) == ["incomplete-stream"]


def test_what_follows_done_is_not_read(decode, stream):
    assert text(decode(stream(says("a")) + stream(says("b")))) == "a"


def test_finish_waits_for_done(decode, stream):
    from llmstream.dialects.cohere import Cohere

    decoder = Cohere().decoder(provider="cohere")
    events = decoder.feed(stream(says("a"), done=False))
    assert (decoder.complete, decoder.done) == (True, False)
    assert of(events, Finish) == []
    assert of(decoder.feed(b"data: [DONE]\n\n"), Finish) == [Finish("stop", raw_finish_reason="COMPLETE")]


# what else may come


def test_error_as_an_event_ends_the_stream(decode, stream):
    events = decode(stream(says("a"), {"id": "r", "message": "too many requests, rate_limit hit"}))
    (error,) = of(events, ErrorEvent)
    assert (error.error.code, error.error.status) == ("rate-limited", 429)
    assert text(events) == "a"


def test_gateway_error_ends_the_stream(decode, stream):
    events = decode(stream({"type": "error", "error": {"message": "busy", "code": 503}}))
    assert errors(events) == ["overloaded"]


def test_unknown_events_are_skipped(decode, stream):
    events = decode(stream({"type": "debug", "prompt": "x"}, {"type": 7}, {"x": 1}, says("a")))
    assert (text(events), errors(events)) == ("a", [])


def test_raw_events_come_when_asked_for(decode, stream):
    raw = of(decode(stream({"type": "debug"}), include_raw=True), Raw)
    assert [event.raw_value["type"] for event in raw if isinstance(event.raw_value, dict)] == [
        "message-start",
        "debug",
        "message-end",
    ]


def test_malformed_event_is_one_error(decode, stream):
    """Reading continues."""
    events = decode(stream({"type": "content-delta", "delta": 5}, says("a")))
    assert (errors(events), text(events)) == (["decode-error"], "a")


def test_halves_of_a_character_are_joined(decode):
    halves = [rb'"\ud83d"', rb'"\ude42"']
    frames = [
        b'data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":' + half + b"}}}}\n\n"
        for half in halves
    ]
    end = b'data: {"type":"message-end","delta":{"finish_reason":"COMPLETE"}}\n\n'
    assert text(decode(b"".join(frames) + end)) == "🙂"


@pytest.mark.parametrize("index", [None, "0", [1], {"a": 1}, 1.5])
def test_odd_indices_do_no_harm(decode, stream, index):
    body = stream(
        opens("text", index), says("a", index), closes(index), call(index), more("{}", index), over(index)
    )
    events = decode(body)
    assert (text(events), calls(events), errors(events)) == ("a", [("f", "{}", "a")], [])


def test_an_oversized_input_ends_the_stream(decode, stream):
    body = stream(call(), more('{"x":"'), more("y" * 100), over())
    events = decode(body, limits=StreamLimits(max_tool_input_bytes=50))
    assert (errors(events), calls(events)) == (["limit-exceeded"], [])


def test_too_many_blocks_end_the_stream(decode, stream):
    many = [event for n in range(20) for event in (opens("text", n), says("x", n), closes(n))]
    assert errors(decode(stream(*many), limits=StreamLimits(max_blocks=10))) == ["limit-exceeded"]
