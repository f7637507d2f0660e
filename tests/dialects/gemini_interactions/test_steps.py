"""Steps as events."""

from __future__ import annotations

import pytest

from llmstream.events import (
    Custom,
    File,
    ReasoningEnd,
    ReasoningFile,
    Source,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputStart,
    ToolResult,
)

L16 = "audio/l16"
SIGNED = {"google": {"signature": "c2ln"}}


def summary(text):
    return {"type": "thought_summary", "content": {"type": "text", "text": text}}


def signature(value):
    return {"type": "thought_signature", "signature": value}


def arguments(text):
    return {"type": "arguments_delta", "arguments": text}


def test_each_output_is_a_block(wire):
    answer = wire.steps(wire.text("a"), wire.text("b", 1))
    assert [start.id for start in answer.of(TextStart)] == ["0", "1"]
    assert answer.text == "ab"


def test_steps_may_overlap(wire):
    answer = wire.steps(
        wire.start(0, "thought"),
        wire.start(1, "model_output"),
        {"event_type": "step.delta", "index": 1, "delta": {"type": "text", "text": "a"}},
        {"event_type": "step.delta", "index": 0, "delta": summary("r")},
        wire.stop(1),
        wire.stop(0),
    )
    assert (answer.text, answer.reasoning) == ("a", "r")


def test_step_start_content_is_not_lost(wire):
    answer = wire.steps(
        wire.step(0, "thought", signature="c2ln", summary=[{"type": "text", "text": "r"}]),
        wire.step(1, "model_output", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    )
    assert (answer.reasoning, answer.text) == ("r", "ab")
    assert answer.of(ReasoningEnd)[0].provider_metadata == SIGNED


def test_an_empty_signature_erases_none(wire):
    answer = wire.steps(wire.step(0, "thought", signature("c2ln"), summary("r"), signature("")))
    assert answer.of(ReasoningEnd)[0].provider_metadata == SIGNED


def test_an_empty_output_is_no_block(wire):
    assert wire.steps(wire.step(0, "model_output", {"type": "text", "text": ""})).of(TextStart) == []


# calls


def test_a_call_grows_by_fragments(wire):
    answer = wire.steps(
        wire.step(0, "function_call", arguments('{"a"'), arguments(":1}"), id="x", name="f", signature="c2ln")
    )
    assert answer.of(ToolCall) == [ToolCall("f", '{"a":1}', "x", provider_metadata=SIGNED)]


@pytest.mark.parametrize(
    ("fields", "text"), [({}, "{}"), ({"arguments": {}}, "{}"), ({"arguments": {"a": 1}}, '{"a":1}')]
)
def test_start_arguments_count_if_alone(wire, fields, text):
    assert wire.steps(wire.step(0, "function_call", id="x", name="f", **fields)).calls == [("f", text)]


def test_late_name_delays_the_call_start(wire):
    late = {"type": "arguments_delta", "arguments": "", "id": "x", "name": "f"}
    answer = wire.steps(wire.step(0, "function_call", late, arguments("{}")))
    assert answer.of(ToolInputStart) == [ToolInputStart("f", "x")]
    assert answer.calls == [("f", "{}")]


def test_call_without_a_name_is_an_error(wire):
    assert wire.steps(wire.step(0, "function_call", arguments("{}"), id="x")).errors == ["decode-error"]


def test_ids_are_made_and_never_shared(wire):
    answer = wire.steps(
        wire.text("a"),
        wire.step(1, "function_call", name="f"),
        wire.step(2, "function_call", id="0", name="f"),
        wire.step(3, "function_call", id="0", name="f"),
    )
    assert [call.tool_call_id for call in answer.of(ToolCall)] == ["made-1", "0.2", "0.3"]


def test_broken_arguments_are_invalid(wire):
    assert (
        wire.steps(wire.step(0, "function_call", arguments('{"a'), id="x", name="f")).of(ToolCall)[0].invalid
    )


# tools that the vendor runs


def test_a_search_and_what_it_found(wire):
    found = [{"search_suggestions": "<b>"}, {"url": "https://a.example", "title": "A"}]
    answer = wire.steps(
        wire.step(
            0, "google_search_call", {"type": "google_search_call", "arguments": {"queries": ["q"]}}, id="s"
        ),
        wire.step(1, "google_search_result", {"type": "google_search_result", "result": found}, call_id="s"),
    )
    (call,) = answer.of(ToolCall)
    assert (call.tool_name, call.input, call.tool_call_id) == ("google_search", '{"queries":["q"]}', "s")
    assert call.provider_executed
    assert call.provider_metadata == {"google": {"type": "google_search_call"}}
    (result,) = answer.of(ToolResult)
    assert (result.tool_name, result.result, result.tool_call_id) == ("google_search", found, "s")
    assert [source.url for source in answer.of(Source)] == ["https://a.example"]
    assert answer.finish.finish_reason == "stop"


def test_a_tool_of_a_server_is_dynamic(wire):
    answer = wire.steps(
        wire.step(0, "mcp_server_tool_call", id="m", name="tide", server_name="harbour", arguments={"d": 1}),
        wire.step(1, "mcp_server_tool_result", call_id="m", name="tide", result="12:03", is_error=True),
    )
    (call,) = answer.of(ToolCall)
    assert (call.tool_name, call.dynamic, call.input) == ("tide", True, '{"d":1}')
    assert answer.of(ToolResult)[0].is_error


def test_second_result_of_a_call_is_an_error(wire):
    result = wire.step(1, "code_execution_result", call_id="c", result="1")
    answer = wire.steps(wire.step(0, "code_execution_call", id="c"), result, result)
    assert len(answer.of(ToolResult)) == 1
    assert answer.errors == ["decode-error"]


@pytest.mark.parametrize(
    ("kind", "entry", "found"),
    [
        ("url_context_result", {"url": "https://a.example", "status": "success"}, "https://a.example"),
        ("url_context_result", {"url": "https://a.example", "status": "error"}, None),
        (
            "google_maps_result",
            {"places": [{"url": "https://m.example", "name": "M"}, 5]},
            "https://m.example",
        ),
        ("file_search_result", {"document_uri": "https://d.example", "title": "D"}, "https://d.example"),
        ("file_search_result", {"file_name": "tides.pdf"}, "tides.pdf"),
        ("google_search_result", {}, None),
        ("google_search_result", "text", None),
    ],
)
def test_sources_of_results(wire, kind, entry, found):
    answer = wire.steps(wire.step(0, kind, call_id="x", result=[entry]))
    assert [source.url or source.filename for source in answer.of(Source)] == ([found] if found else [])


def test_sources_of_annotations_come_once(wire):
    notes = [
        {"type": "url_citation", "url": "https://a.example", "title": "A"},
        {"type": "url_citation", "url": "https://a.example"},
        {"type": "place_citation", "url": "https://p.example", "name": "P"},
        {"type": "file_citation", "document_uri": "gs://b/c.pdf", "file_name": "c.pdf"},
        {"type": "url_citation"},
        {"type": "new_citation"},
    ]
    cite = {"type": "text_annotation_delta", "annotations": notes}
    answer = wire.steps(wire.step(0, "model_output", {"type": "text", "text": "a"}, cite, cite))
    assert [(s.source_type, s.url or s.filename, s.title) for s in answer.of(Source)] == [
        ("url", "https://a.example", "A"),
        ("url", "https://p.example", "P"),
        ("document", "c.pdf", "c.pdf"),
    ]


PLACE = {
    "type": "place_citation",
    "place_id": "p1",
    "url": "https://p.example",
    "name": "P",
    "review_snippets": [{"review_id": "r1"}],
    "start_index": 0,
    "end_index": 1,
}
PAPER = {"type": "file_citation", "document_uri": "gs://b/c.pdf", "file_name": "c.pdf", "page_number": 3}
WORD = {"type": "word_info", "text": "a", "speaker": "spk_1", "start_offset": "0s", "end_offset": "0.2s"}
SPEECH = {"type": "speech_metadata", "speaker": "Ann", "style": "calm"}


def test_annotation_is_the_source_metadata(wire):
    notes = [PLACE, PAPER, {**PLACE, "start_index": 4}]
    cite = {"type": "text_annotation_delta", "annotations": notes}
    answer = wire.steps(wire.step(0, "model_output", {"type": "text", "text": "a"}, cite))
    told = [source.provider_metadata for source in answer.of(Source)]
    assert told == [{"google": PLACE}, {"google": PAPER}]
    assert answer.of(TextEnd) == [TextEnd("0", provider_metadata={"google": {"annotations": notes}})]


def test_transcript_comes_at_the_text_end(wire):
    content = [{"type": "text", "text": "a", "annotations": [SPEECH]}]
    cite = {"type": "text_annotation_delta", "annotations": [WORD]}
    answer = wire.steps(wire.step(0, "model_output", cite, content=content))
    told = {"google": {"annotations": [SPEECH, WORD]}}
    assert answer.of(TextStart, TextEnd) == [TextStart("0"), TextEnd("0", provider_metadata=told)]
    assert answer.of(Source) == []


def test_words_without_a_text_are_not_lost(wire):
    cite = {"type": "text_annotation_delta", "annotations": [WORD]}
    answer = wire.steps(wire.step(0, "model_output", cite), wire.text("a", 1))
    told = {"google": {"annotations": [WORD]}}
    assert answer.of(TextEnd) == [TextEnd("0", provider_metadata=told), TextEnd("1")]
    assert answer.text == "a"


def test_textless_citation_opens_no_block(wire):
    cite = {"type": "text_annotation_delta", "annotations": [PLACE]}
    answer = wire.steps(wire.step(0, "model_output", cite))
    assert [*answer.of(TextStart), *answer.of(Source)] == [
        Source("url", "source", "https://p.example", "P", provider_metadata={"google": PLACE})
    ]


def test_thought_grounding_comes_at_its_end(wire):
    inner = {"type": "text", "text": "Hm", "annotations": [PLACE]}
    signed = {"type": "thought_signature", "signature": "c2ln"}
    answer = wire.steps(wire.step(0, "thought", {"type": "thought_summary", "content": inner}, signed))
    told = {"google": {"signature": "c2ln", "annotations": [PLACE]}}
    assert answer.of(ReasoningEnd) == [ReasoningEnd("0", provider_metadata=told)]
    assert len(answer.of(Source)) == 1


# files


def test_what_else_is_said_of_a_file_is_kept(wire):
    both = {"type": "image", "mime_type": "image/png", "data": "aGk=", "uri": "gs://b/c", "resolution": "low"}
    named = {"type": "video", "mime_type": "video/mp4", "uri": "gs://b/v", "name": "v"}
    draft = {"type": "audio", "mime_type": "audio/l16", "data": "aGk=", "sample_rate": 16000}
    answer = wire.steps(
        wire.step(0, "thought", {"type": "thought_summary", "content": draft}),
        wire.step(1, "model_output", both, named),
    )
    assert answer.of(ReasoningFile, File) == [
        ReasoningFile("audio/l16;rate=16000", b"hi"),
        File("image/png", b"hi", {"google": {"uri": "gs://b/c", "resolution": "low"}}),
        File("video/mp4", "gs://b/v", {"google": {"name": "v"}}),
    ]


@pytest.mark.parametrize(
    ("fields", "media_type", "told"),
    [
        (
            {"mime_type": "audio/l16", "sample_rate": 24000, "channels": 1},
            "audio/l16;rate=24000;channels=1",
            {},
        ),
        ({"mime_type": "audio/l16", "rate": 24000}, "audio/l16;rate=24000", {}),
        (
            {"mime_type": "audio/l16", "rate": 1, "sample_rate": 8000, "uri": "gs://b/c"},
            "audio/l16;rate=8000",
            {"rate": 1, "uri": "gs://b/c"},
        ),
        (
            {"mime_type": "audio/l16;rate=16000", "sample_rate": 16000},
            "audio/l16;rate=16000",
            {"sample_rate": 16000},
        ),
        (
            {"mime_type": "audio/mulaw", "sample_rate": 8000, "channels": 2},
            "audio/mulaw;rate=8000;channels=2",
            {},
        ),
        ({"mime_type": "audio/mp3", "sample_rate": 44100}, "audio/mp3", {"sample_rate": 44100}),
        ({"sample_rate": 24000}, "audio/pcm;rate=24000", {}),
    ],
)
def test_bare_samples_say_their_rate(wire, fields, media_type, told):
    """google-genai 3.4.0: what a recording of `audio/l16` is played with stands beside its type."""
    pieces = [{"type": "audio", "data": "aGk=", **fields}, {"type": "audio", "data": "aG8="}]
    file = File(media_type, b"hiho", {"google": told} if told else None)
    assert wire.steps(wire.step(0, "model_output", *pieces)).of(File) == [file]


def test_late_sample_rate_is_the_recordings(wire):
    pieces = [
        {"type": "audio", "mime_type": "audio/l16", "data": "aGk="},
        {"type": "audio", "mime_type": "audio/l16", "data": "aG8=", "sample_rate": 24000},
    ]
    answer = wire.steps(wire.step(0, "model_output", *pieces))
    assert answer.of(File) == [File("audio/l16;rate=24000", b"hiho")]


def test_a_recording_at_an_address(wire):
    piece = {"type": "audio", "mime_type": "audio/l16", "uri": "gs://b/c", "sample_rate": 8000}
    assert wire.steps(wire.step(0, "model_output", piece)).of(File) == [
        File("audio/l16;rate=8000", "gs://b/c")
    ]


def test_contents_nobody_knows_are_kept(wire):
    answer = wire.steps(wire.step(0, "model_output", {"type": "table", "rows": [1]}))
    assert answer.of(Custom) == [Custom("google.content.table", {"google": {"rows": [1]}})]


def test_files_and_drafts(wire):
    image = {"type": "image", "mime_type": "image/png", "data": "aGk="}
    answer = wire.steps(
        wire.step(0, "thought", {"type": "thought_summary", "content": image}),
        wire.step(
            1, "model_output", image, {"type": "video", "uri": "https://v.example", "mime_type": "video/mp4"}
        ),
        wire.step(2, "model_output", {"type": "image", "data": "!"}, {"type": "image"}),
    )
    assert answer.of(ReasoningFile, File) == [
        ReasoningFile("image/png", b"hi"),
        File("image/png", b"hi"),
        File("video/mp4", "https://v.example"),
    ]
    assert answer.errors == ["decode-error"]


def test_a_recording_is_whole_with_its_step(wire):
    pieces = [{"type": "audio", "mime_type": "audio/l16", "data": "aGk="}, {"type": "audio", "data": "aG8="}]
    assert wire.steps(wire.step(0, "model_output", *pieces)).of(File) == [File("audio/l16", b"hiho")]


# what has no place


def test_steps_nobody_knows_are_kept(wire):
    answer = wire.steps(
        wire.step(0, "sparkle", {"type": "sparkle", "glow": 2}, tone="low"), wire.step(1, "user_input")
    )
    assert answer.of(Custom) == [Custom("google.sparkle", {"google": {"tone": "low", "glow": 2}})]


def test_deltas_without_a_step_are_an_error(wire):
    """Their text is not lost."""
    answer = wire.steps(
        wire.delta(0, "text", text="a"),
        wire.delta(0, "text", text="b"),
        wire.delta(1, "arguments_delta"),
        wire.stop(7),
    )
    assert answer.text == "ab"
    assert answer.errors == ["decode-error", "decode-error"]


@pytest.mark.parametrize(
    "event", [{"event_type": "step.start", "index": 0}, {"event_type": "step.start", "step": {}}]
)
def test_a_start_without_a_step_is_an_error(wire, event):
    assert wire.steps(event).errors == ["decode-error"]


def test_a_delta_that_says_nothing(wire):
    assert wire.steps({"event_type": "step.delta", "index": 0}).errors == []


def test_step_opened_twice_is_closed_first(wire):
    answer = wire.steps(wire.start(0, "model_output"), wire.delta(0, "text", text="a"), wire.text("b"))
    assert len(answer.of(TextStart)) == 2


@pytest.mark.parametrize("kind", [{}, [], 7, True, ["image"]])
def test_output_without_type_name_is_skipped(wire, kind):
    odd = {"event_type": "step.delta", "index": 0, "delta": {"type": kind, "data": "aQ=="}}
    answer = wire.steps(wire.start(0, "model_output"), odd, wire.stop(0), wire.text("a", 1))
    assert (answer.text, answer.of(File), answer.errors) == ("a", [], [])


@pytest.mark.parametrize("given", ["", {}, None])
def test_vendor_call_without_arguments(wire, given):
    answer = wire.steps(wire.step(0, "google_search_call", id="c", arguments=given))
    assert [call.input for call in answer.of(ToolCall)] == ["{}"]
