"""What each part of a Mistral stream becomes, and what becomes of odd ones."""

from __future__ import annotations

import datetime

import pytest

from llmstream import events as ev
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.mistral import Mistral
from llmstream.events import (
    Custom,
    ErrorEvent,
    File,
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
from llmstream.request import Request
from llmstream.server_side.wires import server_side


def words(text):
    return {"type": "text", "text": text}


def thought(*texts, **more):
    return {"type": "thinking", "thinking": [words(text) for text in texts], **more}


def piece(name=None, arguments=None, **more):
    return {"function": {"name": name, "arguments": arguments}, **more}


def call(*pieces):
    return {"tool_calls": list(pieces)}


def of(events, kind):
    return [event for event in events if type(event) is kind]


def calls(events):
    return [(event.tool_name, event.input, event.tool_call_id) for event in of(events, ToolCall)]


def text(events):
    return "".join(event.delta for event in of(events, TextDelta))


def reasoning(events):
    return "".join(event.delta for event in of(events, ReasoningDelta))


def errors(events):
    return [event.error.code for event in of(events, ErrorEvent)]


# content


def test_first_chunk_gives_id_model_and_time(decode, stream):
    events = decode(stream("a", "b"))
    when = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    assert of(events, ResponseMetadata) == [ResponseMetadata("m", "c-1", when)]


def test_content_as_text(decode, stream):
    events = decode(stream({"role": "assistant", "content": ""}, "Hel", "lo"))
    assert events[2:] == [
        TextStart("0"),
        TextDelta("Hel", "0"),
        TextDelta("lo", "0"),
        TextEnd("0"),
        Finish("stop", raw_finish_reason="stop"),
    ]


def test_content_list_keeps_its_order(decode, stream):
    events = decode(stream([thought("Hm", ", so"), words("A")], "B", [thought("again")], [words("C")]))
    assert events[2:-1] == [
        ReasoningStart("0"),
        ReasoningDelta("Hm", "0"),
        ReasoningDelta(", so", "0"),
        ReasoningEnd("0"),
        TextStart("1"),
        TextDelta("A", "1"),
        TextDelta("B", "1"),
        TextEnd("1"),
        ReasoningStart("2"),
        ReasoningDelta("again", "2"),
        ReasoningEnd("2"),
        TextStart("3"),
        TextDelta("C", "3"),
        TextEnd("3"),
    ]


@pytest.mark.parametrize("thinking", ["Hm", ["Hm"], words("Hm"), [words("Hm"), words(""), 7]])
def test_thinking_in_other_shapes(decode, stream, thinking):
    assert reasoning(decode(stream([{"type": "thinking", "thinking": thinking}]))) == "Hm"


def test_closed_flag_ends_no_reasoning(decode, stream):
    events = decode(stream([thought("a", closed=True)], [thought("b", closed=True)]))
    assert (len(of(events, ReasoningStart)), reasoning(events)) == (1, "ab")


def test_signature_goes_on_the_reasoning_end(decode, stream):
    events = decode(stream([thought("a")], [thought(signature="sig")], "x"))
    assert of(events, ReasoningEnd) == [
        ReasoningEnd("0", provider_metadata={"mistral": {"signature": "sig"}})
    ]


def test_thinking_after_signature_is_new(decode, stream):
    events = decode(stream([thought("a", signature="s1"), thought("b", signature="s2")]))
    told = [event.provider_metadata["mistral"]["signature"] for event in of(events, ReasoningEnd)]
    assert (told, reasoning(events)) == (["s1", "s2"], "ab")


def test_lone_signature_is_an_empty_thought(decode, stream):
    events = decode(stream("x", [thought(signature="sig")]))
    assert len(of(events, ReasoningStart)) == 1
    assert of(events, ReasoningEnd)[0].provider_metadata == {"mistral": {"signature": "sig"}}


def test_reasoning_content_of_hosted_models(decode, stream):
    events = decode(stream({"reasoning_content": "Hm"}, {"reasoning_content": None, "content": "x"}))
    assert (reasoning(events), text(events)) == ("Hm", "x")


def test_thinking_alone_is_an_answer(decode, stream):
    events = decode(stream([thought("only")]))
    assert (text(events), events[-1].finish_reason, errors(events)) == ("", "stop", [])


def test_references_are_sources(decode, stream):
    events = decode(stream([words("a"), {"type": "reference", "reference_ids": [3, "x"]}, words("b")]))
    assert [(s.source_type, s.id, s.title) for s in of(events, Source)] == [
        ("document", "source-1", "3"),
        ("document", "source-2", "x"),
    ]
    assert (text(events), len(of(events, TextStart))) == ("ab", 1)


def test_references_in_thinking_are_sources(decode, stream):
    inner = [
        words("a"),
        {"type": "reference", "reference_ids": [1]},
        {"type": "tool_reference", "url": "u:v"},
    ]
    events = decode(stream([{"type": "thinking", "thinking": inner}]))
    assert [(s.title, s.url) for s in of(events, Source)] == [("1", None), (None, "u:v")]


def test_pages_that_a_tool_found_are_sources(decode, stream):
    page = {"type": "tool_reference", "tool": "web_search", "title": "Moon", "url": "https://m.example"}
    (source,) = of(decode(stream([page])), Source)
    assert (source.source_type, source.url, source.title) == ("url", "https://m.example", "Moon")
    (source,) = of(decode(stream([{"type": "tool_reference", "title": "t"}])), Source)
    assert (source.source_type, source.title) == ("document", "t")


def test_images_and_documents_are_files(decode, stream):
    parts = [
        {"type": "image_url", "image_url": {"url": "https://i.example/a.png"}},
        {"type": "image_url", "image_url": "data:image/webp;base64,AAE="},
        {"type": "document_url", "document_url": "https://d.example/x.pdf", "document_name": "x.pdf"},
    ]
    assert of(decode(stream(parts)), File) == [
        File("image/*", "https://i.example/a.png"),
        File("image/webp", b"\x00\x01"),
        File("application/pdf", "https://d.example/x.pdf", {"mistral": {"document_name": "x.pdf"}}),
    ]


@pytest.mark.parametrize("url", [None, 7, "nowhere", "data:image/png;base64,?"])
def test_an_image_without_a_url_is_an_error(decode, stream, url):
    events = decode(stream([{"type": "image_url", "image_url": url}], "x"))
    assert (errors(events), text(events)) == (["decode-error"], "x")


def test_other_parts_are_stored_verbatim(decode, stream):
    part = {"type": "file", "file_id": "f-1"}
    assert of(decode(stream([part])), Custom) == [Custom("mistral.file", {"mistral": part})]


@pytest.mark.parametrize("content", [7, [7], [[words("x")]]])
def test_unknown_content_shape_is_an_error(decode, stream, content):
    events = decode(stream({"content": content}, "x"))
    assert (errors(events), text(events)) == (["decode-error"], "x")


# calls


def test_calls_may_come_with_finish_reason(decode, stream):
    chunk = {
        "id": "c",
        "choices": [
            {
                "index": 0,
                "delta": {
                    "content": None,
                    **call(piece("f", '{"x":1}', id="D681PevKs"), piece("g", "{}", id="a9Zx81Lmn")),
                },
                "finish_reason": "tool_calls",
            }
        ],
    }
    events = decode(stream("Look:", chunk, end=None))
    assert events[4:] == [
        TextEnd("0"),
        ToolInputStart("f", "D681PevKs"),
        ToolInputDelta('{"x":1}', "D681PevKs"),
        ToolInputEnd("D681PevKs"),
        ToolCall("f", '{"x":1}', "D681PevKs"),
        ToolInputStart("g", "a9Zx81Lmn"),
        ToolInputDelta("{}", "a9Zx81Lmn"),
        ToolInputEnd("a9Zx81Lmn"),
        ToolCall("g", "{}", "a9Zx81Lmn"),
        Finish("tool-calls", raw_finish_reason="tool_calls"),
    ]


def test_bare_pieces_join_the_call_at_index(decode, stream):
    """Pieces without a name and an id."""
    deltas = [
        call(piece("f", "", id="chatcmpl-tool-1", index=0)),
        call(piece("", '{"q": ', index=0)),
        call(piece("", "1}", index=0)),
    ]
    events = decode(stream(*deltas, end="tool_calls"))
    assert calls(events) == [("f", '{"q": 1}', "chatcmpl-tool-1")]
    assert [event.delta for event in of(events, ToolInputDelta)] == ['{"q": ', "1}"]


@pytest.mark.parametrize("arguments", [None, "", {}])
def test_missing_arguments_become_an_object(decode, stream, arguments):
    events = decode(stream(call(piece("f", arguments, id="abcdefghi")), end="tool_calls"))
    assert calls(events) == [("f", "{}", "abcdefghi")]


def test_arguments_may_be_an_object(decode, stream):
    events = decode(stream(call(piece("f", {"x": [1]}, id="abcdefghi")), end="tool_calls"))
    assert calls(events) == [("f", '{"x":[1]}', "abcdefghi")]


@pytest.mark.parametrize("number", [None, "", "null"])
def test_a_call_without_an_id_gets_one(decode, stream, number):
    events = decode(stream(call(piece("f", "{}", id=number)), end="tool_calls"))
    assert calls(events) == [("f", "{}", "made-1")]


def test_calls_at_index_0_differ_by_id(decode, stream):
    both = call(piece("f", "{}", id="aaaaaaaaa", index=0), piece("f", "{}", id="bbbbbbbbb", index=0))
    assert [made[2] for made in calls(decode(stream(both, end="tool_calls")))] == ["aaaaaaaaa", "bbbbbbbbb"]


@pytest.mark.parametrize("arguments", ["", '{"x": "half'])
def test_call_cut_by_token_limit_is_invalid(decode, stream, arguments):
    events = decode(stream(call(piece("f", arguments, id="abcdefghi")), end="length"))
    assert of(events, ToolCall) == [ToolCall("f", arguments or "{}", "abcdefghi", invalid=True)]
    assert events[-1].finish_reason == "length"


def test_complete_call_survives_the_limit(decode, stream):
    events = decode(stream(call(piece("f", '{"x":1}', id="abcdefghi")), end="length"))
    assert of(events, ToolCall) == [ToolCall("f", '{"x":1}', "abcdefghi")]


def test_failed_response_drops_partial_call(decode, stream):
    events = decode(stream(call(piece("f", '{"x"', id="abcdefghi")), end="error"))
    assert (calls(events), of(events, ToolInputEnd)) == ([], [ToolInputEnd("abcdefghi", incomplete=True)])


def test_calls_with_stop_are_tool_calls(decode, stream):
    last = decode(stream(call(piece("f", "{}", id="abcdefghi"))))[-1]
    assert (last.finish_reason, last.raw_finish_reason) == ("tool-calls", "stop")


def test_a_call_without_a_name_is_an_error(decode, stream):
    events = decode(stream(call(piece(None, "{}", id="abcdefghi")), end="tool_calls"))
    assert (calls(events), errors(events)) == ([], ["decode-error"])


def test_stray_fragment_is_one_error(decode, stream):
    """Reading continues."""
    deltas = [
        call(piece("f", "", id="a", index=0), piece("g", "", id="b", index=1)),
        call(piece("", "{", index=7)),
    ]
    events = decode(stream(*deltas, None or call(None), end="tool_calls"))
    assert (errors(events), len(calls(events))) == (["decode-error"], 2)


def test_call_ids_differ_from_blocks_sources(decode, stream):
    reference = {"type": "reference", "reference_ids": [1]}
    deltas = ["a", call(piece("f", "{}", id="0")), call(piece("f", "{}", id="source-1"))]
    events = decode(stream(*deltas, [reference], call(piece("f", "{}", id="2")), "b", [thought("c")], "d"))
    opened = [e.id for e in events if isinstance(e, (TextStart, ReasoningStart, ToolInputStart, Source))]
    assert len(opened) == len(set(opened))


def test_an_oversized_input_ends_the_stream(decode, stream):
    events = decode(
        stream(call(piece("f", '{"x":"' + "y" * 100, id="a"))), limits=StreamLimits(max_tool_input_bytes=50)
    )
    assert (errors(events), calls(events)) == (["limit-exceeded"], [])


def test_too_many_blocks_end_the_stream(decode, stream):
    deltas = [part for _ in range(9) for part in ("x", [thought("y")])]
    assert errors(decode(stream(*deltas), limits=StreamLimits(max_blocks=5))) == ["limit-exceeded"]


# the end


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("tool_calls", "tool-calls"),
        ("content_filter", "content-filter"),
        ("tired", "other"),
    ],
)
def test_finish_reasons(decode, stream, raw, meant):
    last = decode(stream("x", end=raw))[-1]
    assert (last.finish_reason, last.raw_finish_reason) == (meant, raw)


def test_the_reason_error_is_an_error(decode, stream):
    events = decode(stream("x", end="error"))
    assert (errors(events), events[-1].finish_reason) == (["server-error"], "error")


@pytest.mark.parametrize(
    "cached",
    [
        {"num_cached_tokens": 16},
        {"prompt_tokens_details": {"cached_tokens": 16}},
        {"prompt_token_details": {"cached_tokens": 16}},
        {"num_cached_tokens": None, "prompt_tokens_details": {"cached_tokens": 16.0}},
    ],
)
def test_cached_tokens_under_any_name(decode, stream, cached):
    told = {"prompt_tokens": 86, "completion_tokens": 5, "total_tokens": 91, **cached}
    usage = decode(stream("x", usage=told))[-1].usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (86, 5, 91)
    assert usage.cached_input_tokens == 16


def test_usage_may_follow_in_another_choice(decode, stream):
    late = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]}
    late["usage"] = {"prompt_tokens": 8, "completion_tokens": 10}
    events = decode(stream("yes", {"choices": [{"index": 0, "finish_reason": "stop"}]}, late, end=None))
    assert (text(events), events[-1].usage.total_tokens) == ("yes", 18)


def test_usage_alone_in_a_chunk(decode, stream):
    events = decode(stream("x", {"choices": [], "usage": {"prompt_tokens": 8}}))
    assert events[-1].usage == ev.Usage(8, raw={"prompt_tokens": 8})


def test_missing_reason_is_incomplete(decode, stream):
    events = decode(stream("Hel", end=None, done=False))
    assert of(events, TextEnd) == [TextEnd("0", incomplete=True)]
    assert (errors(events), events[-1].finish_reason) == (["incomplete-stream"], "error")


def test_a_cut_stream_makes_no_call(decode, stream):
    events = decode(stream(call(piece("f", '{"x":1}', id="a")), end=None, done=False))
    assert (calls(events), errors(events)) == ([], ["incomplete-stream"])


def test_done_without_a_reason_is_an_end(decode, stream):
    events = decode(stream("x", end=None))
    assert (errors(events), events[-1].finish_reason) == ([], "unknown")


def test_done_before_any_answer_is_an_error(decode):
    assert errors(decode(b"data: [DONE]\n\n")) == ["incomplete-stream"]


# what else may come


@pytest.mark.parametrize(
    ("told", "code", "status", "said"),
    [
        (
            {
                "object": "error",
                "message": "Rate limit exceeded",
                "type": "rate_limited",
                "code": "1300",
                "raw_status_code": 429,
            },
            "rate-limited",
            429,
            "Rate limit exceeded",
        ),
        (
            {
                "object": "error",
                "message": {"detail": [{"loc": ["body", "n"], "msg": "Extra inputs"}]},
                "type": "invalid_request_error",
            },
            "bad-request",
            400,
            "Extra inputs",
        ),
        ({"object": "error"}, "server-error", 500, "without a message"),
        ({"error": {"message": "down", "code": 503}, "object": "x"}, "overloaded", 503, "down"),
        ({"detail": "Unauthorized", "object": "error"}, "server-error", 500, "Unauthorized"),
    ],
)
def test_error_as_a_chunk_ends_the_stream(decode, stream, told, code, status, said):
    events = decode(stream("a", told, "b"))
    (error,) = of(events, ErrorEvent)
    assert (error.error.code, error.error.status) == (code, status)
    assert said in error.error.message
    assert text(events) == "a"


def test_empty_error_beside_text_is_none(decode, stream):
    chunk = {"error": None, "choices": [{"index": 0, "delta": {"content": "x"}}]}
    assert errors(decode(stream(chunk, {**chunk, "error": ""}))) == []


def test_a_whole_answer_in_one_chunk(decode, stream):
    whole = {
        "id": "c",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
        ],
    }
    events = decode(stream(whole, end=None))
    assert (text(events), events[-1].finish_reason) == ("Hello", "stop")


def test_raw_chunks_come_when_asked_for(decode, stream):
    assert len(of(decode(stream("x"), include_raw=True), Raw)) == 3


def test_malformed_chunk_is_one_error(decode, stream):
    """Reading continues."""
    events = decode(stream({"choices": 5}, "x"))
    assert (errors(events), text(events)) == (["decode-error"], "x")


def test_halves_of_a_character_are_joined(decode):
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":[{"type":"text","text":%s}]}}]}\n\n'
    end = b'data: {"choices":[{"index":0,"finish_reason":"stop"}]}\n\n'
    assert text(decode(chunk % rb'"\ud83d"' + chunk % rb'"\ude42"' + end)) == "🙂"


# what stands beside


def test_objects_of_several_chunks_are_one(decode, stream):
    events = decode(stream({"content": "a", "metadata": {"x": 1}}, {"content": "b", "metadata": {"y": 2}}))
    assert events[-1].provider_metadata == {"mistral": {"metadata": {"x": 1, "y": 2}}}


@pytest.mark.parametrize("nothing", [None, {}])
def test_an_empty_object_says_nothing(decode, stream, nothing):
    assert decode(stream({"content": "a", "metadata": nothing}))[-1].provider_metadata is None


def test_the_detail_of_a_picture_survives(decode, stream):
    part = {"type": "image_url", "image_url": {"url": "https://i.example/a.png", "detail": "high"}}
    (file,) = of(decode(stream([part])), File)
    assert file.provider_metadata == {"mistral": {"detail": "high"}}
    encoder = server_side(Mistral()).event_encoder(Request(model="m"))
    assert of(decode(encoder.feed(file)), File) == [file]
