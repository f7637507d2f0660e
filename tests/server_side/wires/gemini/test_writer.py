"""Events written as a body, and read again."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstream import grammar
from llmstream.dialects.gemini import VERTEX, Gemini
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
    File,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
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
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from tests.dialects.reading import read_answer

NAMED = ResponseMetadata("m", "r1")
SIGNED = {"google": {"thought_signature": "c2ln"}}


def written(*events, dialect=Gemini()):
    encoder = server_side(dialect).event_encoder(Request(model="m"))
    return b"".join(encoder.feed(event) for event in events) + encoder.close()


def chunks(*events, dialect=Gemini()):
    body = written(*events, dialect=dialect)
    return [json.loads(frame[6:]) for frame in body.split(b"\r\n\r\n") if frame]


def parts(*events, dialect=Gemini()):
    return [
        part
        for chunk in chunks(*events, dialect=dialect)
        for part in chunk["candidates"][0]["content"]["parts"]
    ]


def read(body, cuts=(), dialect=Gemini()):
    places = sorted(cut % (len(body) + 1) for cut in cuts)
    return read_answer(dialect.decoder(provider="google"), body, places, provider="google").events


def test_a_chunk_looks_like_the_vendors():
    assert chunks(NAMED, TextStart("0"), TextDelta("Hi", "0")) == [
        {
            "candidates": [{"content": {"parts": [{"text": "Hi"}], "role": "model"}, "index": 0}],
            "modelVersion": "m",
            "responseId": "r1",
        }
    ]


def test_no_chunk_is_without_parts():
    """The vendor's own client takes an answer with such a chunk for invalid, and forgets it."""
    for chunk in chunks(Source("url", "s", "https://a.example"), Finish("stop")):
        assert chunk["candidates"][0]["content"] == {"parts": [{"text": ""}], "role": "model"}


def test_last_chunk_has_reason_and_counts():
    usage = Usage(10, 7, 17, 3, 2)
    (chunk,) = chunks(NAMED, Finish("length", usage))
    assert chunk["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert chunk["usageMetadata"] == {
        "promptTokenCount": 10,
        "cachedContentTokenCount": 2,
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 3,
        "totalTokenCount": 17,
    }


@pytest.mark.parametrize(
    ("finish", "raw"),
    [
        (Finish("stop"), "STOP"),
        (Finish("tool-calls"), "STOP"),
        (Finish("content-filter"), "SAFETY"),
        (Finish("content-filter", raw_finish_reason="SPII"), "SPII"),
        (Finish("other"), "OTHER"),
        (Finish("other", raw_finish_reason="pause_turn"), "OTHER"),
        (Finish("stop", raw_finish_reason="end_turn"), "STOP"),
        (Finish("unknown"), "FINISH_REASON_UNSPECIFIED"),
        (Finish("error", raw_finish_reason="NO_IMAGE"), "NO_IMAGE"),
    ],
)
def test_reasons_in_the_vendors_words(finish, raw):
    assert chunks(finish)[-1]["candidates"][0]["finishReason"] == raw


def test_early_signature_comes_with_the_text():
    events = (TextStart("0", SIGNED), TextDelta("a", "0"), TextDelta("b", "0"), TextEnd("0", False, SIGNED))
    assert parts(*events) == [{"text": "ab", "thoughtSignature": "c2ln"}]


def test_late_signature_is_on_an_empty_part():
    events = (ReasoningStart("0"), ReasoningDelta("a", "0"), ReasoningEnd("0", False, SIGNED))
    assert parts(*events) == [
        {"text": "a", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": "c2ln"},
    ]


def test_calls_come_whole():
    events = (
        ToolInputStart("f", "x"),
        ToolInputDelta('{"a":', "x"),
        ToolInputDelta("1}", "x"),
        ToolInputEnd("x"),
    )
    call = ToolCall("f", '{"a":1}', "x", provider_metadata=SIGNED)
    assert parts(*events) == []
    assert parts(*events, call) == [
        {"functionCall": {"id": "x", "name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    ]
    assert parts(call, dialect=VERTEX)[0]["functionCall"] == {"name": "f", "args": {"a": 1}}


def test_tools_that_the_vendor_runs():
    run = ToolCall("code_execution", '{"code":"1"}', "x", provider_executed=True)
    gave = ToolResult("1\n", "x", "code_execution", provider_executed=True)
    search = ToolCall("google_search", "{}", "y", provider_executed=True)
    found = ToolResult([1], "y", "google_search", provider_executed=True)
    assert parts(run, gave, search, found) == [
        {"executableCode": {"language": "PYTHON", "code": "1", "id": "x"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n", "id": "x"}},
        {"toolCall": {"toolType": "GOOGLE_SEARCH", "id": "y", "args": {}}},
        {"toolResponse": {"toolType": "GOOGLE_SEARCH", "id": "y", "response": [1]}},
    ]


def test_unsupported_events_write_nothing():
    assert written(StreamStart(), Custom("openai.x"), ToolResult("a", "x", "f")) == b""


def test_files_and_sources():
    events = (File("image/png", b"hi"), ReasoningFile("image/png", b"hi"), File("video/mp4", "gs://b/c"))
    assert parts(*events) == [
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thought": True},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/c"}},
    ]
    (chunk,) = chunks(Source("url", "s", "https://a.example", "A"))
    assert chunk["candidates"][0]["groundingMetadata"] == {
        "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}]
    }


def test_an_error_ends_the_stream():
    info = ErrorInfo("rate-limited", "slow down", True, retry_after_s=3.0)
    assert chunks(ErrorEvent(info), TextDelta("a", "0"), Finish("error")) == [
        {
            "error": {
                "code": 429,
                "message": "slow down",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}],
            }
        }
    ]
    assert chunks(Finish("error"))[0]["error"]["code"] == 500


FAST = settings(max_examples=60, deadline=None, derandomize=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
JSON = st.dictionaries(TEXTS, st.integers() | TEXTS | st.lists(st.booleans()), max_size=3)
DATA = st.binary(min_size=1, max_size=8)


@st.composite
def sentences(draw):
    """What a decoder of this wire could have said: runs of one kind are one block."""
    events = [StreamStart(), NAMED]
    last = None
    called = False
    used = 0
    kinds = draw(
        st.lists(st.sampled_from(["text", "reasoning", "signed", "call", "code", "file"]), max_size=6)
    )
    for number, kind in enumerate(kinds):
        if kind == last and kind in ("text", "reasoning"):
            continue
        block = str(used)
        if kind in ("text", "reasoning", "signed"):
            used += 1
            start, delta, end = (
                (ReasoningStart, ReasoningDelta, ReasoningEnd)
                if kind == "reasoning"
                else (TextStart, TextDelta, TextEnd)
            )
            signed = SIGNED if kind == "signed" else None
            deltas = draw(st.lists(TEXTS, max_size=1) if signed else st.lists(TEXTS, min_size=1, max_size=3))
            events += [start(block, signed), *(delta(d, block) for d in deltas), end(block, False, signed)]
        elif kind == "call":
            called = True
            text, name = msgspec.json.encode(draw(JSON)).decode(), f"call-{number}"
            meta = draw(st.sampled_from([None, SIGNED]))
            events += [
                ToolInputStart("f", name, provider_metadata=meta),
                ToolInputDelta(text, name),
                ToolInputEnd(name),
            ]
            events.append(ToolCall("f", text, name, provider_metadata=meta))
        elif kind == "code":
            name, given = f"run-{number}", {"language": "PYTHON", "code": draw(TEXTS)}
            text, tool = msgspec.json.encode(given).decode(), "code_execution"
            events += [ToolInputStart(tool, name, True), ToolInputDelta(text, name), ToolInputEnd(name)]
            result = {"outcome": "OUTCOME_OK", "output": draw(TEXTS)}
            events += [
                ToolCall(tool, text, name, True),
                ToolResult(result, name, tool, provider_executed=True),
            ]
        elif kind == "file":
            events.append(draw(st.sampled_from([File, ReasoningFile]))("image/png", draw(DATA)))
        last = kind
    usage = Usage(draw(st.integers(0, 99)), 8, 107, 3, None)
    reason = draw(st.sampled_from(["stop", "length", "content-filter", "other"]))
    raw = {"stop": "STOP", "length": "MAX_TOKENS", "content-filter": "SAFETY", "other": "OTHER"}[reason]
    told = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 3,
        "totalTokenCount": 107,
    }
    final = "tool-calls" if called and reason in ("stop", "other") else reason
    return [*events, Finish(final, msgspec.structs.replace(usage, raw=told), raw)]


@FAST
@given(sentences(), st.lists(st.integers(0, 10_000), max_size=4))
def test_every_generated_stream_reads_back(sentence, cuts):
    assert grammar.check(sentence) == []
    assert read(written(*sentence), cuts) == sentence


@FAST
@given(sentences(), st.integers(0, 10_000))
def test_what_is_cut_off_stays_a_sentence(sentence, cut):
    body = written(*sentence)
    read(body[: cut % len(body)])


def test_fields_beside_a_part_write_back():
    speech = {"google": {"speech_metadata": {"speaker": "Ann"}}}
    heard = {"google": {"audio_transcription": {"speakerLabel": "spk_1"}}}
    rest = {"google": {"part_metadata": {"x": 1}}}
    response = Custom("google.function_response", {"google": {"name": "f", "response": {}}})
    named = File("image/png", b"abc", {"google": {"display_name": "cat.png"}})
    events = [
        *(TextStart("0"), TextDelta("a", "0", speech), TextEnd("0")),
        *(TextStart("1"), TextDelta("b", "1", heard), TextEnd("1")),
        *(ReasoningStart("2"), ReasoningDelta("c", "2", rest), ReasoningEnd("2")),
        *(TextStart("3", rest), TextEnd("3", provider_metadata=rest)),
        Custom("google.audio_transcription", {"google": {"text": "b"}}),
        response,
        named,
    ]
    assert parts(*events) == [
        {"text": "a", "speechMetadata": {"speaker": "Ann"}},
        {"text": "b", "audioTranscription": {"speakerLabel": "spk_1"}},
        {"text": "c", "thought": True, "partMetadata": {"x": 1}},
        {"text": "", "partMetadata": {"x": 1}},
        {"audioTranscription": {"text": "b"}},
        {"functionResponse": {"name": "f", "response": {}}},
        {"inlineData": {"mimeType": "image/png", "data": "YWJj", "displayName": "cat.png"}},
    ]
    again = read(written(NAMED, *events, Finish("stop", raw_finish_reason="STOP")))
    told = [e for e in again if e in events]
    assert told[-3:] == events[-3:]
    assert [e for e in again if isinstance(e, (TextDelta, ReasoningDelta))] == [
        e for e in events if isinstance(e, (TextDelta, ReasoningDelta))
    ]


def test_model_status_is_written_in_place():
    status = {"google": {"model_status": {"modelStage": "LEGACY"}}}
    named = ResponseMetadata("m", "r1", provider_metadata=status)
    first = [StreamStart(), named, *TEXT, Finish("stop", raw_finish_reason="STOP")]
    assert read(written(*first)) == first
    last = [StreamStart(), NAMED, *TEXT, Finish("stop", Usage(), "STOP", status)]
    assert read(written(*last)) == last


TEXT = (TextStart("0"), TextDelta("Hi", "0"), TextEnd("0"))
