"""Parts as events: grouping, signatures, calls, files, tools of the vendor's own."""

from __future__ import annotations

import pytest

from llmstream.accumulate import Accumulator
from llmstream.dialects.base import StreamLimits
from llmstream.events import (
    Custom,
    File,
    ReasoningEnd,
    ReasoningFile,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputEnd,
    ToolResult,
)

SIGNED = {"google": {"thought_signature": "c2ln"}}


def folded(answer):
    accumulator = Accumulator()
    accumulator.feed_many(answer.events)
    return accumulator.message


def call(name="f", **fields):
    return {"functionCall": {"name": name, **fields}}


def piece(*args, **fields):
    return {"functionCall": {"partialArgs": list(args), **fields}}


def value(path, **fields):
    return {"jsonPath": path, **fields}


# text and reasoning


def test_runs_of_one_kind_are_one_block(wire):
    answer = wire.answer(
        wire.chunk({"text": "a", "thought": True}),
        wire.chunk({"text": "b", "thought": True}, "c"),
        wire.chunk("d", {"text": "e", "thought": True}, finish="STOP"),
    )
    assert (answer.reasoning, answer.text) == ("abe", "cd")
    assert answer.kinds.count("reasoning-start") == 2
    assert answer.kinds.count("text-start") == 1


def test_a_signed_part_is_never_merged(wire):
    answer = wire.parts("a", {"text": "b", "thoughtSignature": "c2ln"}, "c")
    assert [end.provider_metadata for end in answer.of(TextEnd)] == [None, SIGNED, None]
    assert answer.text == "abc"


def test_empty_last_part_signature_is_stored(wire):
    answer = wire.answer("a", wire.chunk({"text": "", "thoughtSignature": "c2ln"}, finish="STOP"))
    assert answer.of(TextEnd)[-1].provider_metadata == SIGNED
    accumulator = Accumulator()
    for event in answer.events:
        accumulator.feed(event)
    assert [(part.text, part.metadata) for part in accumulator.message.parts] == [("a", None), ("", SIGNED)]


def test_signature_without_content_is_stored(wire):
    answer = wire.parts({"thoughtSignature": "c2ln"})
    assert answer.of(TextEnd)[0].provider_metadata == SIGNED


def test_a_signed_thought(wire):
    answer = wire.parts({"text": "a", "thought": True, "thoughtSignature": "c2ln"}, "b")
    assert answer.of(ReasoningEnd)[0].provider_metadata == SIGNED


def test_empty_parts_say_nothing(wire):
    answer = wire.answer(
        wire.chunk("", {"text": "", "thought": True}), wire.chunk({}, "a", None, finish="STOP")
    )
    assert answer.kinds == ["stream-start", "text-start", "text-delta", "text-end", "finish"]


# calls that come whole


def test_a_whole_call(wire):
    answer = wire.parts("a", {**call(id="x1", args={"q": "ø", "n": 1.0}), "thoughtSignature": "c2ln"})
    assert answer.of(ToolCall) == [ToolCall("f", '{"q":"ø","n":1.0}', "x1", provider_metadata=SIGNED)]
    assert answer.finish.finish_reason == "tool-calls"
    assert answer.kinds[1:4] == ["text-start", "text-delta", "text-end"]


def test_only_first_parallel_call_is_signed(wire):
    answer = wire.parts({**call("f", args={}), "thoughtSignature": "c2ln"}, call("g", args={}))
    assert [c.provider_metadata for c in answer.of(ToolCall)] == [SIGNED, None]


@pytest.mark.parametrize("fields", [{}, {"args": None}, {"args": {}}, {"willContinue": False}])
def test_a_call_without_arguments(wire, fields):
    assert wire.parts(call(**fields)).calls == [("f", "{}")]


def test_ids_are_minted_where_missing(wire):
    answer = wire.parts(call(args={}), call(args={}), call(id="", args={}))
    assert [c.tool_call_id for c in answer.of(ToolCall)] == ["made-1", "made-2", "made-3"]


def test_ids_are_never_shared(wire):
    answer = wire.parts("a", call(id="0", args={}), call(id="0", args={}), call(id=7, args={}))
    assert [c.tool_call_id for c in answer.of(ToolCall)] == ["0.2", "0.3", "7"]


def test_arguments_given_as_text(wire):
    answer = wire.parts(call(args='{"a": 1}'), call(args="not json"))
    assert answer.calls == [("f", '{"a": 1}'), ("f", "not json")]
    assert [c.invalid for c in answer.of(ToolCall)] == [False, True]


def test_call_is_complete_in_a_cut_response(wire):
    answer = wire.parts(call(args={"a": 1}), finish="MAX_TOKENS")
    assert answer.calls == [("f", '{"a":1}')]
    assert answer.finish.finish_reason == "length"


# calls that stream


def test_a_call_streams_value_by_value(wire):
    answer = wire.answer(
        wire.chunk({**call(willContinue=True), "thoughtSignature": "c2ln"}),
        wire.chunk(piece(value("$.a", stringValue="x", willContinue=True), willContinue=True)),
        wire.chunk(piece(value("$.a", stringValue="y"), willContinue=True)),
        wire.chunk({"functionCall": {}}),
        wire.chunk(call("g", willContinue=True)),
        wire.chunk(piece(value("$.b", numberValue=2), willContinue=True)),
        wire.chunk({"functionCall": {}}, finish="STOP"),
    )
    assert answer.calls == [("f", '{"a":"xy"}'), ("g", '{"b":2}')]
    assert [c.provider_metadata for c in answer.of(ToolCall)] == [SIGNED, None]


def test_streamed_call_needs_no_terminal(wire):
    answer = wire.answer(
        wire.chunk(call(willContinue=True)),
        wire.chunk(piece(value("$.a[0]", numberValue=0.5))),
        wire.chunk("", finish="STOP"),
    )
    assert answer.calls == [("f", '{"a":[0.5]}')]


def test_streamed_call_ends_at_the_next_call(wire):
    """Or at the end of the response."""
    answer = wire.answer(
        wire.chunk(call(willContinue=True)),
        wire.chunk(piece(value("$.a", numberValue=1), willContinue=True)),
        wire.chunk(call("g", willContinue=True)),
        wire.chunk(piece(value("$.b", boolValue=True), willContinue=True), finish="STOP"),
    )
    assert answer.calls == [("f", '{"a":1}'), ("g", '{"b":true}')]


def test_streamed_call_cut_by_limit_is_none(wire):
    answer = wire.answer(
        wire.chunk(call(willContinue=True)),
        wire.chunk(piece(value("$.a", stringValue="x", willContinue=True), willContinue=True)),
        wire.chunk(finish="MAX_TOKENS"),
    )
    assert answer.calls == []
    assert answer.of(ToolInputEnd)[0].incomplete
    assert answer.errors == []


def test_truncated_streamed_call_is_no_call(wire):
    answer = wire.answer(
        wire.chunk(call(willContinue=True)),
        wire.chunk(piece(value("$.a", stringValue="x", willContinue=True), willContinue=True)),
    )
    assert answer.calls == []
    assert answer.errors == ["incomplete-stream"]


def test_streamed_calls_are_separate_by_id(wire):
    answer = wire.answer(
        wire.chunk(call("f", id="x", willContinue=True), call("g", id="y", willContinue=True)),
        wire.chunk(piece(value("$.a", numberValue=1), id="x", willContinue=True)),
        wire.chunk(piece(value("$.b", numberValue=2), id="y", willContinue=True)),
        wire.chunk({"functionCall": {"id": "x"}}, {"functionCall": {"id": "y"}}, finish="STOP"),
    )
    assert answer.calls == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_first_values_may_come_with_the_name(wire):
    answer = wire.answer(
        wire.chunk(call(partialArgs=[value("$.a", numberValue=1)], willContinue=True)),
        wire.chunk({"functionCall": {}}, finish="STOP"),
    )
    assert answer.calls == [("f", '{"a":1}')]


def test_out_of_order_values_are_invalid(wire):
    answer = wire.answer(
        wire.chunk(call(willContinue=True)),
        wire.chunk(piece(value("$.a", numberValue=1), value("$.b", numberValue=2), willContinue=True)),
        wire.chunk(piece(value("$.a", numberValue=3), willContinue=True)),
        wire.chunk(piece(value("$.c", numberValue=4), willContinue=True)),
        wire.chunk({"functionCall": {}}, finish="STOP"),
    )
    assert answer.errors == ["decode-error"]
    assert answer.of(ToolCall) == [ToolCall("f", '{"a":1,"b":2}', "made-1", invalid=True)]


def test_values_without_a_call_are_an_error(wire):
    """An end without a call is not."""
    assert wire.parts(piece(value("$.a", numberValue=1))).errors == ["decode-error"]
    assert wire.parts("a", {"functionCall": {}}).errors == []


def test_oversized_input_ends_the_stream(wire):
    limits = StreamLimits(max_tool_input_bytes=50)
    answer = wire.answer(wire.chunk(call(args={"a": "x" * 100}), finish="STOP"), limits=limits)
    assert answer.errors == ["limit-exceeded"]
    assert answer.calls == []


# what stands beside the content


def test_fields_beside_text_are_stored(wire):
    """The part is a block of its own, so that each keeps what is said of it."""
    ann, bob = ({"speechMetadata": {"speaker": name, "style": "calm"}} for name in ("Ann", "Bob"))
    answer = wire.parts("a", {"text": "b", **ann}, {"text": "c", **bob}, "d")
    told = [{"google": {"speech_metadata": part["speechMetadata"]}} for part in (ann, bob)]
    assert [delta.provider_metadata for delta in answer.of(TextDelta)] == [None, *told, None]
    assert [part.metadata for part in folded(answer).parts] == [None, *told, None]
    assert answer.text == "abcd"


def test_signed_thought_keeps_extra_fields(wire):
    part = {"text": "a", "thought": True, "thoughtSignature": "c2ln", "partMetadata": {"x": 1}}
    told = {"google": {"thought_signature": "c2ln", "part_metadata": {"x": 1}}}
    answer = wire.parts(part, "b")
    assert [end.provider_metadata for end in answer.of(ReasoningEnd)] == [told]
    assert folded(answer).parts[0].metadata == told


def test_what_stands_beside_nothing_is_kept(wire):
    answer = wire.parts("a", {"text": "", "partMetadata": {"x": 1}}, {"mediaResolution": {"level": "LOW"}})
    told = [{"google": {"part_metadata": {"x": 1}}}, {"google": {"media_resolution": {"level": "LOW"}}}]
    assert [end.provider_metadata for end in answer.of(TextEnd)] == [None, *told]
    assert answer.text == "a"


@pytest.mark.parametrize(
    "part",
    [
        {"functionCall": {"name": "f", "args": {}}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"executableCode": {"code": "1"}},
        {"toolCall": {"toolType": "GOOGLE_SEARCH", "id": "s1"}},
        {"functionResponse": {"name": "f", "response": {}}},
    ],
)
def test_what_stands_beside_any_part_is_kept(wire, part):
    answer = wire.parts({**part, "partMetadata": {"x": 1}, "thoughtSignature": "c2ln"})
    told = answer.of(ToolCall, File, Custom)[0].provider_metadata["google"]
    assert (told["part_metadata"], told["thought_signature"]) == ({"x": 1}, "c2ln")


def test_streamed_call_keeps_piece_metadata(wire):
    first = piece(name="f", willContinue=True) | {"thoughtSignature": "c2ln"}
    last = piece() | {"partMetadata": {"x": 1}, "thoughtSignature": "late"}
    told = {"google": {"thought_signature": "c2ln", "part_metadata": {"x": 1}}}
    assert wire.parts(first, last).of(ToolCall)[0].provider_metadata == told


# recordings that were heard


HEARD = {"text": "Hi.", "speakerLabel": "spk_1", "words": [{"word": "Hi.", "startOffset": "0.1s"}]}
SAID = {"google": {"audio_transcription": {key: HEARD[key] for key in ("speakerLabel", "words")}}}


def test_transcription_is_its_parts_text(wire):
    other = {"text": "Ho.", "speakerLabel": "spk_2"}
    answer = wire.parts({"audioTranscription": HEARD}, {"audioTranscription": other})
    assert answer.text == "Hi.Ho."
    told = [SAID, {"google": {"audio_transcription": {"speakerLabel": "spk_2"}}}]
    assert [delta.provider_metadata for delta in answer.of(TextDelta)] == told
    assert [part.metadata for part in folded(answer).parts] == told


def test_plain_transcriptions_are_joined(wire):
    answer = wire.answer(
        wire.chunk({"audioTranscription": {"text": "Hi. "}}),
        wire.chunk({"audioTranscription": {"text": "Ho."}}, finish="STOP"),
    )
    assert (answer.text, len(answer.of(TextStart))) == ("Hi. Ho.", 1)


def test_text_beside_a_transcription_is_once(wire):
    answer = wire.parts({"text": "Hi.", "audioTranscription": HEARD})
    assert answer.text == "Hi."
    assert answer.of(TextDelta)[0].provider_metadata == {"google": {"audio_transcription": HEARD}}


def test_text_before_a_transcription_is_once(wire):
    """As parts of their own, in one chunk or in two."""
    heard = Custom("google.audio_transcription", {"google": HEARD})
    for answer in (
        wire.parts("Hi.", {"audioTranscription": HEARD}),
        wire.answer("Hi.", wire.chunk({"audioTranscription": HEARD}, finish="STOP")),
    ):
        assert answer.text == "Hi."
        assert answer.of(Custom) == [heard]


def test_empty_transcription_is_custom(wire):
    end = {"finished": True}
    answer = wire.parts({"audioTranscription": {"text": "Hi."}}, {"audioTranscription": end})
    assert answer.of(Custom) == [Custom("google.audio_transcription", {"google": end})]
    assert wire.parts({"audioTranscription": "Hi."}).of(Custom)[0].provider_metadata == {
        "google": {"value": "Hi."}
    }


# parts that nobody expects


def test_a_part_of_several_things_loses_none(wire):
    image = {"mimeType": "image/png", "data": "AAAA"}
    part = {"text": "a", "functionCall": {"name": "f"}, "inlineData": image, "executableCode": {"code": "1"}}
    answer = wire.parts(part)
    assert (answer.text, [name for name, _ in answer.calls]) == ("a", ["f", "code_execution"])
    assert len(answer.of(File)) == 1


def test_the_response_of_a_function_is_kept(wire):
    response = {"id": "c1", "name": "f", "response": {"output": 3}}
    answer = wire.parts({"functionResponse": response}, "a")
    assert answer.of(Custom) == [Custom("google.function_response", {"google": response})]


def test_parts_of_unknown_kinds_are_kept(wire):
    answer = wire.answer(
        wire.chunk("a", {"newThing": {"x": [1]}}, {"another": "b"}, {}, {"gone": None}),
        wire.chunk("c", finish="STOP"),
    )
    kept = [("google.new_thing", {"google": {"x": [1]}}), ("google.another", {"google": {"value": "b"}})]
    assert answer.of(Custom) == [Custom(*one) for one in kept]
    assert answer.text == "ac"


def test_half_a_character_in_an_unknown_part(wire):
    broken = rb'data: {"candidates":[{"content":{"parts":[{"newThing":{"x":"\ud83d"}}]}}]}'
    answer = wire.answer(broken + b"\r\n\r\n", wire.chunk("a", finish="STOP"))
    assert answer.of(Custom) == [Custom("google.new_thing", {"google": {"x": "\ufffd"}})]


# files


def test_the_name_of_a_file_is_kept(wire):
    blob = {"mimeType": "image/png", "data": "AAAA", "displayName": "cat.png"}
    assert wire.parts({"inlineData": blob}).of(File)[0].provider_metadata == {
        "google": {"display_name": "cat.png"}
    }


def test_a_file_that_is_no_address_is_named(wire):
    file = {"mimeType": "image/png", "fileUri": "files/abc"}
    answer = wire.parts({"fileData": file, "partMetadata": {"x": 1}})
    assert "files/abc" in str(answer.error)
    told = {"google": {**file, "part_metadata": {"x": 1}}}
    assert answer.of(Custom) == [Custom("google.file_data", told)]


def test_files_and_drafts(wire):
    blob = {"mimeType": "image/png", "data": "aGk="}
    answer = wire.parts(
        "a", {"inlineData": blob, "thought": True}, {"inlineData": blob, "thoughtSignature": "c2ln"}
    )
    assert answer.of(ReasoningFile, File) == [
        ReasoningFile("image/png", b"hi"),
        File("image/png", b"hi", SIGNED),
    ]


def test_a_file_by_its_address(wire):
    answer = wire.parts({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v.mp4"}})
    assert answer.of(File) == [File("video/mp4", "gs://b/v.mp4")]


@pytest.mark.parametrize("blob", [{"data": "!"}, {}, {"fileUri": "nowhere"}])
def test_a_file_without_content_is_an_error(wire, blob):
    assert wire.parts({"inlineData": blob}).errors == ["decode-error"]


# tools that the vendor runs


def test_code_and_its_result(wire):
    answer = wire.parts(
        {"executableCode": {"language": "PYTHON", "code": "1", "id": "c1"}, "thoughtSignature": "c2ln"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n", "id": "c1"}},
    )
    (made,) = answer.of(ToolCall)
    assert made == ToolCall(
        "code_execution",
        '{"language":"PYTHON","code":"1"}',
        "c1",
        provider_executed=True,
        provider_metadata=SIGNED,
    )
    (result,) = answer.of(ToolResult)
    assert (result.tool_call_id, result.result, result.is_error) == (
        "c1",
        {"outcome": "OUTCOME_OK", "output": "1\n"},
        False,
    )
    assert answer.finish.finish_reason == "stop"


def test_code_without_ids_matches_by_order(wire):
    answer = wire.parts(
        {"executableCode": {"code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
        {"executableCode": {"code": "2"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "Traceback"}},
    )
    assert [(r.tool_call_id, r.is_error) for r in answer.of(ToolResult)] == [
        ("made-1", False),
        ("made-2", True),
    ]


def test_second_result_of_a_call_is_separate(wire):
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    answer = wire.parts({"executableCode": {"code": "1"}}, result, result)
    assert len(answer.of(ToolResult)) == 1
    assert answer.of(Custom) == [
        Custom("google.code_execution_result", {"google": {"outcome": "OUTCOME_OK", "output": "1"}})
    ]


def test_vendor_tool_and_its_response(wire):
    answer = wire.parts(
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "s1", "args": {"queries": ["a"]}}},
        {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "s1", "response": {"n": 1}}},
        "a",
    )
    (made,) = answer.of(ToolCall)
    assert (made.tool_name, made.tool_call_id, made.input) == ("google_search_web", "s1", '{"queries":["a"]}')
    assert made.provider_metadata == {"google": {"tool_type": "GOOGLE_SEARCH_WEB"}}
    assert answer.of(ToolResult)[0].result == {"n": 1}
    assert answer.finish.finish_reason == "stop"


def test_text_after_a_tool_is_a_new_block(wire):
    answer = wire.parts("a", {"executableCode": {"code": "1"}}, "b")
    assert [start.id for start in answer.of(TextStart)] == ["0", "1"]
