"""The chunks around the parts: names, counts, reasons, errors."""

from __future__ import annotations

import datetime

import pytest

from llmstream import errors
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.gemini.wire import FINISH_REASONS
from llmstream.events import Finish, Raw, ResponseMetadata, Source, Usage

NAMES = {"modelVersion": "gemini-2.5-flash", "responseId": "r1", "createTime": "2026-03-12T18:06:04Z"}


def test_the_response_is_named_once(wire):
    answer = wire.answer({**wire.chunk("a"), **NAMES}, {**wire.chunk("b", finish="STOP"), **NAMES})
    when = datetime.datetime(2026, 3, 12, 18, 6, 4, tzinfo=datetime.UTC)
    assert answer.of(ResponseMetadata) == [ResponseMetadata("gemini-2.5-flash", "r1", when)]


def test_a_time_that_is_none_is_left_out(wire):
    answer = wire.answer({**wire.chunk("a", finish="STOP"), "responseId": "r1", "createTime": "soon"})
    assert answer.of(ResponseMetadata) == [ResponseMetadata(None, "r1")]


@pytest.mark.parametrize(("raw", "ours"), FINISH_REASONS.items())
def test_each_reason_has_its_word(wire, raw, ours):
    answer = wire.parts("a", finish=raw)
    assert (answer.finish.finish_reason, answer.finish.raw_finish_reason) == (ours, raw)
    assert answer.errors == (["server-error"] if ours == "error" else [])


@pytest.mark.parametrize(("raw", "ours"), [("OTHER", "other"), ("NEW_ONE", "other"), (9, "other")])
def test_a_reason_nobody_knows_is_other(wire, raw, ours):
    answer = wire.parts("a", finish=raw)
    assert (answer.finish.finish_reason, answer.finish.raw_finish_reason) == (ours, str(raw))


def test_an_unspecified_reason_is_unknown(wire):
    assert wire.parts("a", finish="FINISH_REASON_UNSPECIFIED").finish.finish_reason == "unknown"


def test_unusable_response_error_keeps_text(wire):
    answer = wire.answer(wire.chunk(finish="MALFORMED_FUNCTION_CALL", finishMessage="Malformed: print("))
    assert isinstance(answer.error, errors.ServerError)
    assert answer.error.retryable
    assert "Malformed: print(" in answer.error.message
    assert answer.error.reason == "MALFORMED_FUNCTION_CALL"


@pytest.mark.parametrize(
    ("raw", "ours"),
    [("ESCALATION", "content-filter"), ("PUP_LIMITED_DISABLED", "content-filter"), ("IMAGE_OTHER", "error")],
)
def test_reasons_of_late_2026(wire, raw, ours):
    """Which google-genai 3.4.0 knows."""
    assert wire.parts("a", finish=raw).finish.finish_reason == ours


STATUS = {"modelStage": "LEGACY", "message": "Retires soon.", "retirementTime": "2026-12-01T00:00:00Z"}


def test_model_status_comes_with_its_name(wire):
    named = {"modelVersion": "m", "responseId": "r1", "modelStatus": STATUS}
    answer = wire.answer({**wire.chunk("a"), **named}, {**wire.chunk("b", finish="STOP"), **named})
    told = {"google": {"model_status": STATUS}}
    assert answer.of(ResponseMetadata) == [ResponseMetadata("m", "r1", provider_metadata=told)]
    assert answer.finish.provider_metadata is None


def test_late_model_status_comes_at_the_end(wire):
    first = {**wire.chunk("a"), "modelVersion": "m"}
    answer = wire.answer(first, {**wire.chunk("b", finish="STOP"), "modelStatus": STATUS})
    assert answer.of(ResponseMetadata) == [ResponseMetadata("m")]
    assert answer.finish.provider_metadata == {"google": {"model_status": STATUS}}


def test_all_chunks_logprobs_are_stored(wire):
    def said(token, finish=None):
        result = {"chosenCandidates": [{"token": token}], "logProbabilitySum": -1}
        return wire.chunk(token, finish=finish, logprobsResult=result)

    told = wire.answer(said("a"), said("b"), said("c", "STOP")).finish.provider_metadata
    result = {"chosenCandidates": [{"token": t} for t in "abc"], "logProbabilitySum": -1}
    assert told == {"google": {"logprobs_result": result}}


def test_no_reason_at_all_is_incomplete(wire):
    answer = wire.answer("Hel", "lo")
    assert answer.text == "Hello"
    assert answer.errors == ["incomplete-stream"]


def test_the_last_of_several_reasons_counts(wire):
    answer = wire.answer(wire.chunk("a", finish="STOP"), wire.chunk("b", finish="MAX_TOKENS"))
    assert answer.finish.raw_finish_reason == "MAX_TOKENS"
    assert answer.text == "ab"


def test_parts_after_a_reason_take_it_back(wire):
    answer = wire.answer(wire.chunk("a", finish="STOP"), "b")
    assert answer.errors == ["incomplete-stream"]
    assert answer.finish.finish_reason == "error"


@pytest.mark.parametrize("tail", [[], [""], [{}], [None]])
def test_empty_chunk_after_reason_keeps_it(wire, tail):
    answer = wire.answer(wire.chunk("a", finish="STOP"), wire.chunk(*tail), {"candidates": []})
    assert answer.finish.finish_reason == "stop"


def test_metadata_after_a_reason_keeps_it(wire):
    answer = wire.answer(wire.chunk("a", finish="STOP"), wire.chunk({"text": "", "partMetadata": {"x": 1}}))
    assert (answer.errors, answer.finish.finish_reason) == ([], "stop")


def test_finish_waits_for_the_body_end(wire):
    decoder = wire.dialect().decoder(provider="google")
    events = decoder.feed(wire.body(wire.chunk("a", finish="STOP")))
    assert decoder.complete
    assert not decoder.done
    assert not any(isinstance(event, Finish) for event in events)
    assert isinstance(decoder.close()[-1], Finish)
    assert decoder.done


@pytest.mark.parametrize(
    "chunk",
    [{}, {"candidates": []}, {"candidates": None}, {"candidates": [{}]}, {"candidates": [None]}],
)
def test_a_chunk_without_content_is_legal(wire, chunk):
    answer = wire.answer("a", chunk, wire.chunk(finish="STOP", content={"role": "model"}))
    assert (answer.text, answer.errors) == ("a", [])


def test_only_the_first_candidate_is_read(wire):
    both = {
        "candidates": [
            wire.chunk("one", finish="STOP")["candidates"][0],
            {"index": 1, "content": {"parts": [{"text": "two"}]}},
        ]
    }
    assert wire.answer(both).text == "one"


def test_a_refused_prompt_is_content_filter(wire):
    answer = wire.answer(
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    )
    assert answer.finish.finish_reason == "content-filter"
    assert answer.finish.raw_finish_reason == "SAFETY"
    assert answer.finish.usage.input_tokens == 4
    assert answer.errors == []


def test_feedback_without_a_block_is_ignored(wire):
    feedback = {"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}
    assert wire.answer(feedback, wire.chunk("a", finish="STOP")).finish.finish_reason == "stop"


# counts


def usage(wire, *counts):
    chunks = [{**wire.chunk("a"), "usageMetadata": count} for count in counts]
    found = wire.answer(*chunks, wire.chunk("a", finish="STOP")).finish.usage
    # Beside a finish reason they are read in another way.
    ended = [{**wire.chunk("a", finish="STOP"), "usageMetadata": count} for count in counts]
    assert wire.answer(*ended).finish.usage == found
    return found


def test_thoughts_and_tool_prompts_are_added(wire):
    raw = {
        "promptTokenCount": 30,
        "candidatesTokenCount": 18,
        "thoughtsTokenCount": 15,
        "toolUsePromptTokenCount": 120,
    }
    raw |= {"totalTokenCount": 183, "cachedContentTokenCount": 7}
    assert usage(wire, raw) == Usage(150, 33, 183, 15, 7, None, raw)


def test_counts_that_vanish_are_kept(wire):
    told = usage(
        wire,
        {"promptTokenCount": 9, "thoughtsTokenCount": 5},
        {"promptTokenCount": 10, "candidatesTokenCount": 3},
    )
    assert (told.input_tokens, told.output_tokens, told.reasoning_tokens) == (10, 8, 5)


def test_null_is_no_count_wherever_it_comes(wire):
    told = usage(
        wire,
        {"promptTokenCount": 9, "totalTokenCount": None},
        {"promptTokenCount": None, "candidatesTokenCount": 3},
        *[{"candidatesTokenCount": number} for number in range(200)],
        {"candidatesTokenCount": None},
    )
    assert (told.input_tokens, told.output_tokens) == (9, 199)
    assert told.raw == {"promptTokenCount": 9, "totalTokenCount": None, "candidatesTokenCount": 199}


def test_names_with_digits_are_all_kept(wire):
    told = usage(wire, *[{"promptTokenCount": 9, f"tokens{number}": number} for number in range(3)])
    assert told.raw == {"promptTokenCount": 9, "tokens0": 0, "tokens1": 1, "tokens2": 2}


def test_what_nobody_counted_is_unknown(wire):
    told = usage(wire, {"trafficType": "ON_DEMAND"})
    assert (told.input_tokens, told.output_tokens, told.total_tokens) == (None, None, None)
    assert usage(wire, None) == Usage()


@pytest.mark.parametrize(
    ("value", "count"), [("12", 12), (12.0, 12), (1.5, None), (True, None), ("x", None), ([], None)]
)
def test_counts_are_read_leniently(wire, value, count):
    assert usage(wire, {"promptTokenCount": value}).input_tokens == count


# what goes wrong


def test_an_error_inside_the_stream(wire):
    told = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
    answer = wire.answer("a", {"error": told}, "b")
    assert answer.text == "a"
    assert isinstance(answer.error, errors.Overloaded)
    assert (answer.error.status, answer.error.retryable, answer.error.reason) == (503, True, "UNAVAILABLE")


def test_a_quota_error_says_how_long_to_wait(wire):
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}]
    told = {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED", "details": details}
    answer = wire.answer({"error": told})
    assert isinstance(answer.error, errors.RateLimited)
    assert answer.error.retry_after_s == 37


def test_an_error_in_an_array(wire):
    answer = wire.read(b'[{"error": {"code": 404, "message": "no such model", "status": "NOT_FOUND"}}]')
    assert isinstance(answer.error, errors.NotFound)


def test_non_json_chunk_is_one_error(wire):
    """Reading continues."""
    answer = wire.answer("a", b"data: {nope\r\n\r\n", wire.chunk("b", finish="STOP"))
    assert answer.text == "ab"
    assert answer.errors == ["decode-error"]


@pytest.mark.parametrize("tail", [b"data: [DONE]\n\n", b"data: null\n\n", b": ping\n\n", b"data:\n\n"])
def test_gateway_pings_and_marks_are_ignored(wire, tail):
    assert wire.answer(wire.chunk("a", finish="STOP"), tail).errors == []


def test_raw_events_when_asked_for(wire):
    answer = wire.read(wire.body(wire.chunk("a", finish="STOP")), include_raw=True)
    assert answer.of(Raw) == [Raw(wire.chunk("a", finish="STOP"))]


def test_oversized_event_ends_the_stream(wire):
    answer = wire.answer("x" * 500, limits=StreamLimits(max_event_bytes=200))
    assert answer.errors == ["limit-exceeded"]


def test_too_many_blocks_end_the_stream(wire):
    parts = [{"text": str(n), "thought": n % 2 == 0} for n in range(30)]
    assert wire.answer(wire.chunk(*parts, finish="STOP"), limits=StreamLimits(max_blocks=10)).errors == [
        "limit-exceeded"
    ]


def test_halves_of_characters_meet_again(wire):
    body = wire.body(
        b'data: {"candidates":[{"content":{"parts":[{"text":"a\\ud83d"}]}}]}\n\n',
        b'data: {"candidates":[{"content":{"parts":[{"text":"\\ude00"},{"text":"\\ud83d"}]}}]}\n\n',
        wire.chunk(finish="STOP"),
    )
    assert wire.read(body).text == "a😀\ufffd"


def test_surrogates_beside_text_are_repaired(wire):
    call = '{"functionCall":{"name":"f\\ud83d","args":{"q":"\\ud83d"}}}'
    grounding = '{"groundingChunks":[{"web":{"uri":"https://a.example","title":"\\ud83d"}}]}'
    candidate = f'{{"content":{{"parts":[{call}]}},"groundingMetadata":{grounding},"finishReason":"STOP"}}'
    frame = f'data: {{"candidates":[{candidate}]}}\n\n'
    answer = wire.read(frame.encode())
    assert answer.calls == [("f\ufffd", '{"q":"\ufffd"}')]
    assert answer.of(Source)[0].title == "\ufffd"


# grounding


def grounded(wire, **metadata):
    return [
        (s.source_type, s.url, s.title, s.filename)
        for s in wire.answer(wire.chunk("a", finish="STOP", **metadata)).of(Source)
    ]


def test_grounding_of_every_kind(wire):
    chunks = [
        {"web": {"uri": "https://a.example", "title": "A"}},
        {"image": {"sourceUri": "https://b.example", "imageUri": "https://b.example/i.png"}},
        {"maps": {"uri": "https://c.example", "title": "C"}},
        {"retrievedContext": {"uri": "https://d.example"}},
        {"retrievedContext": {"uri": "gs://x/tides.txt", "title": "Tides"}},
        {"retrievedContext": {"fileSearchStore": "fileSearchStores/s1", "text": "..."}},
        {"retrievedContext": {"text": "nameless"}},
        {"maps": {}},
        {"web": None},
        None,
    ]
    assert grounded(wire, groundingMetadata={"groundingChunks": chunks}) == [
        ("url", "https://a.example", "A", None),
        ("url", "https://b.example", None, None),
        ("url", "https://c.example", "C", None),
        ("url", "https://d.example", None, None),
        ("document", None, "Tides", "tides.txt"),
        ("document", None, None, "s1"),
    ]


def test_fetched_and_recited_are_sources(wire):
    urls = [
        {"retrievedUrl": "https://a.example", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"},
        {"retrievedUrl": "https://b.example", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"},
    ]
    recited = {"citationSources": [{"uri": "https://c.example"}, {"startIndex": 1}]}
    found = grounded(wire, urlContextMetadata={"urlMetadata": urls}, citationMetadata=recited)
    assert [url for _, url, _, _ in found] == ["https://a.example", "https://c.example"]


def test_repeated_source_comes_once(wire):
    grounding = {"groundingChunks": [{"web": {"uri": "https://a.example"}}]}
    answer = wire.answer(
        wire.chunk("a", groundingMetadata=grounding),
        wire.chunk("b", finish="STOP", groundingMetadata=grounding),
    )
    assert len(answer.of(Source)) == 1
    assert answer.finish.provider_metadata == {"google": {"grounding_metadata": grounding}}


# chunks of nothing but text, which are read another way


@pytest.mark.parametrize(
    "parts",
    [
        [{"text": "a"}, {"text": "b"}],
        [{"text": "so", "thought": True}, {"text": "a", "thought": False}],
        [{"text": ""}, {"text": "a", "thought": None}],
        [],
    ],
)
@pytest.mark.parametrize("reason", [None, "STOP"])
def test_unknown_field_changes_no_chunk(wire, parts, reason):
    first = wire.chunk("Hi", finish=reason)
    plain = {"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}], **NAMES}
    last = wire.chunk(finish="STOP")
    assert wire.answer(first, plain, last).events == wire.answer(first, {**plain, "new": 1}, last).events


def test_text_after_a_reason_is_incomplete(wire):
    answer = wire.answer(wire.chunk("a", finish="STOP"), wire.chunk("b"))
    assert isinstance(answer.error, errors.IncompleteStream)


def test_other_candidate_chunk_is_left_out(wire):
    other = {"content": {"parts": [{"text": "no"}]}, "index": 1}
    answer = wire.answer({"candidates": [other]}, wire.chunk("yes", finish="STOP"))
    assert answer.text == "yes"
