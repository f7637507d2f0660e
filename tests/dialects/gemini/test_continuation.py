"""An answer that comes in several responses, as Gemini 4 cuts it after 65,536 tokens."""

from __future__ import annotations

import itertools

import pytest

from llmstream import grammar
from llmstream.chats.message import Message
from llmstream.dialects.base import Place
from llmstream.dialects.gemini import VERTEX, Gemini
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.errors import Overloaded
from llmstream.events import (
    ErrorEvent,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputEnd,
    Usage,
)
from llmstream.exchange import HttpRequest
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from tests.dialects.reading import read_bodies

NAMES = {"modelVersion": "gemini-4-argon", "responseId": "r1"}
TOKEN = "AbC+/=="


def usage(given, made):
    return {"promptTokenCount": given, "candidatesTokenCount": made, "totalTokenCount": given + made}


def cut(wire, *parts, token=TOKEN, **fields):
    """The last chunk of a response that is cut."""
    return {**wire.chunk(*parts, finish="CONTINUATION", continuationToken=token), **fields}


def sentence():
    numbers = itertools.count(1)
    dialect = Gemini(new_call_id=lambda: f"made-{next(numbers)}")
    return GuardedDecoder(dialect.decoder(provider="google"), provider="google")


def read(*bodies, cuts=()):
    return read_bodies(sentence(), bodies, cuts)


@pytest.fixture
def two(wire):
    """Two responses of one text, cut inside a word."""
    first = wire.body({**wire.chunk("It ra"), **NAMES}, {**cut(wire, "ins h"), "usageMetadata": usage(9, 4)})
    last = wire.chunk("eavily.", finish="STOP")
    second = wire.body({**last, "modelVersion": "x", "responseId": "r2", "usageMetadata": usage(9, 3)})
    return first, second


def test_text_goes_on_in_its_block(two) -> None:
    assert read(*two) == [
        StreamStart(),
        ResponseMetadata("gemini-4-argon", "r1"),
        TextStart("0"),
        TextDelta("It ra", "0"),
        TextDelta("ins h", "0"),
        TextDelta("eavily.", "0"),
        TextEnd("0"),
        Finish(
            "stop",
            Usage(18, 7, 25, raw=[usage(9, 4), usage(9, 3)]),
            "STOP",
            {"google": {"continuations": 1}},
        ),
    ]


def test_any_cut_of_the_bodies_is_invisible(two) -> None:
    whole = read(*two)
    assert read(*two, cuts=range(1, max(map(len, two)))) == whole
    for place in range(1, max(map(len, two))):
        assert read(*two, cuts=[place]) == whole


def test_cut_after_any_chunk_is_invisible(wire, recording) -> None:
    body = recording.read_bytes()
    chunks = [chunk + b"\n\n" for chunk in body.replace(b"\r", b"").split(b"\n\n") if chunk.strip()]
    *expected, finish = read(body)
    for count in range(1, len(chunks)):
        first = b"".join(chunks[:count]) + wire.body(cut(wire))
        *events, last = read(first, b"".join(chunks[count:]))
        assert (events, last.finish_reason) == (expected, finish.finish_reason)


def test_uncontinued_response_has_its_token(two) -> None:
    finish = read(two[0])[-1]
    assert (finish.finish_reason, finish.raw_finish_reason) == ("length", "CONTINUATION")
    assert finish.provider_metadata == {"google": {"continuation_token": TOKEN}}
    assert finish.usage == Usage(9, 4, 13, raw=usage(9, 4))


def test_request_length_limit_is_no_cut(wire) -> None:
    """MAX_TOKENS may bring a token too; whether to go on is up to the caller then."""
    made = sentence()
    made.feed(wire.body(wire.chunk("a", finish="MAX_TOKENS", continuationToken=TOKEN)))
    assert made.decoder.next_place is None
    (*_, finish) = made.close()
    assert (finish.finish_reason, finish.raw_finish_reason) == ("length", "MAX_TOKENS")
    assert finish.provider_metadata == {"google": {"continuation_token": TOKEN}}


def test_a_normal_end_forgets_the_token(wire) -> None:
    made = sentence()
    made.feed(wire.body(wire.chunk("a", continuationToken=TOKEN), wire.chunk("b", finish="STOP")))
    (*_, finish) = made.close()
    assert finish.provider_metadata is None


@pytest.mark.parametrize("token", [None, "", 7, {"a": 1}])
def test_no_continuation_without_a_token(wire, token) -> None:
    made = sentence()
    made.feed(wire.body(cut(wire, "a", token=token)))
    assert made.decoder.next_place is None
    assert made.close()[-1].finish_reason == "length"


def test_position_holds_until_content_comes(wire) -> None:
    made = sentence()
    made.feed(wire.body(wire.chunk("a"), wire.chunk("b", continuationToken=TOKEN)))
    assert made.decoder.next_place == Place(TOKEN)
    made.feed(wire.body({"usageMetadata": usage(1, 1)}))
    assert made.decoder.next_place == Place(TOKEN)
    made.feed(wire.body(wire.chunk("c")))
    assert made.decoder.next_place is None
    assert made.decoder.unfinished == {"google": {"continuation_token": TOKEN}}


def test_content_after_a_position_counts(wire) -> None:
    made = sentence()
    made.feed(wire.body(wire.chunk("b", continuationToken=TOKEN), wire.chunk("c")))
    assert made.decoder.next_place is None


def test_reasoning_continues_into_text(wire) -> None:
    first = wire.body(cut(wire, {"text": "Hm ", "thought": True}))
    second = wire.body(wire.chunk({"text": "hm.", "thought": True}), wire.chunk("Yes.", finish="STOP"))
    assert read(first, second)[1:-1] == [
        ReasoningStart("0"),
        ReasoningDelta("Hm ", "0"),
        ReasoningDelta("hm.", "0"),
        ReasoningEnd("0"),
        TextStart("1"),
        TextDelta("Yes.", "1"),
        TextEnd("1"),
    ]


def call(**fields):
    return {"functionCall": {"name": "f", **fields}}


def test_repeated_call_is_read_once(wire) -> None:
    first = wire.body(cut(wire, "a", call(id="c1", args={"n": 1})))
    again = [call(id="c1", args={"n": 1}), call(id="c2", args={"n": 2})]
    events = read(first, wire.body(wire.chunk(*again, finish="STOP")))
    assert [e.tool_call_id for e in events if isinstance(e, ToolCall)] == ["c1", "c2"]
    assert events[-1].finish_reason == "tool-calls"


@pytest.mark.parametrize("named", [{}, {"name": "f"}])
def test_a_call_goes_on_with_its_arguments(wire, named) -> None:
    piece = {"jsonPath": "$.city", "stringValue": "Os", "willContinue": True}
    first = cut(
        wire, {"functionCall": {"name": "f", "id": "c1", "partialArgs": [piece], "willContinue": True}}
    )
    rest = {"id": "c1", "partialArgs": [{"jsonPath": "$.city", "stringValue": "lo"}], **named}
    events = read(wire.body(first), wire.body(wire.chunk({"functionCall": rest}, finish="STOP")))
    assert [e.input for e in events if isinstance(e, ToolCall)] == ['{"city":"Oslo"}']


def test_call_left_open_is_incomplete(wire) -> None:
    piece = {"jsonPath": "$.city", "stringValue": "Os", "willContinue": True}
    opened = {"functionCall": {"name": "f", "id": "c1", "partialArgs": [piece], "willContinue": True}}
    events = read(wire.body(cut(wire, opened)))
    assert ToolInputEnd("c1", incomplete=True) in events
    assert events[-1].finish_reason == "length"


def test_immediate_failure_may_be_retried(wire, two) -> None:
    made = sentence()
    made.start()
    made.feed(two[0])
    made.decoder.next_body()
    assert made.feed(wire.body({"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}})) == []
    assert isinstance(made.decoder.gap, Overloaded)
    assert made.decoder.next_place == Place(TOKEN)
    made.decoder.next_body()
    assert made.decoder.gap is None
    made.feed(two[1])
    (*_, finish) = made.close()
    assert finish.provider_metadata == {"google": {"continuations": 1}}  # one that failed is none


def test_failure_after_content_is_the_end(wire, two) -> None:
    made = sentence()
    events = made.start() + made.feed(two[0])
    made.decoder.next_body()
    failed = {"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}}
    events = events + made.feed(wire.body(wire.chunk("eav"), failed))
    assert grammar.check(events) == []
    assert isinstance(made.error, Overloaded)
    assert events[-1] == Finish(
        "error",
        Usage(9, 4, 13, raw=[usage(9, 4)]),
        None,
        {"google": {"continuations": 1, "continuation_token": TOKEN}},
    )
    assert [type(e) for e in events[-3:]] == [TextEnd, ErrorEvent, Finish]


def test_permanent_refusal_is_the_end(wire, two) -> None:
    made = sentence()
    made.start()
    made.feed(two[0])
    made.decoder.next_body()
    made.feed(wire.body({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "bad token"}}))
    assert made.done
    assert made.error.status == 400


def test_each_responses_metadata_is_stored(wire) -> None:
    grounding = {"webSearchQueries": ["rain"]}
    chunk = wire.chunk("a", finish="CONTINUATION", continuationToken=TOKEN, groundingMetadata=grounding)
    first = wire.body(chunk)
    second = wire.body(wire.chunk("b", finish="STOP", finishMessage="done"))
    assert read(first, second)[-1].provider_metadata == {
        "google": {
            "finish_message": "done",
            "earlier_responses": [{"grounding_metadata": grounding}],
            "continuations": 1,
        }
    }


# requests


def asking(options=None):
    return Request(model="m", messages=(Message.user("Hi"),), provider_options=options or {})


@pytest.mark.parametrize(("dialect", "provider"), [(Gemini(), "google"), (VERTEX, "vertex")])
def test_next_request_only_adds_the_token(dialect, provider) -> None:
    request = asking({provider: {"labels": {"a": "b"}, "continuationToken": "old"}})
    before = dialect.encode(request, provider=provider).http
    after = dialect.continuation.continued(request, Place(TOKEN), provider=provider)
    again = dialect.encode(after, provider=provider).http
    assert (again.url, again.json()) == (before.url, {**before.json(), "continuationToken": TOKEN})
    assert request.provider_options[provider]["continuationToken"] == "old"


@pytest.mark.parametrize("key", ["google", "vertex"])
def test_the_option_stays_here(key) -> None:
    for wish in (True, False):
        options = {key: {"automatic_continuation": wish, "labels": {}}, "openai": {"a": 1}}
        request = asking(options)
        assert VERTEX.continuation.continues(request, provider="vertex") is wish
        body = VERTEX.encode(request, provider="vertex").http.json()
        assert "labels" in body
        assert "automatic_continuation" not in body


def test_server_reads_tokens_and_writes_cuts() -> None:
    asked = Gemini().continuation.continued(asking(), Place(TOKEN), provider="google")
    http = Gemini().encode(asked, provider="google").http
    assert Gemini().continuation.place_of(server_side(Gemini()).decode_request(http)) == Place(TOKEN)
    assert (
        Gemini().continuation.place_of(
            server_side(Gemini()).decode_request(Gemini().encode(asking(), provider="google").http)
        )
        is None
    )
    snake = HttpRequest(http.url, http.body.replace(b"continuationToken", b"continuation_token"))
    assert Gemini().continuation.place_of(server_side(Gemini()).decode_request(snake)) == Place(TOKEN)
    encoder = server_side(Gemini()).event_encoder(asking())
    events = [
        TextStart("0"),
        TextDelta("a", "0"),
        Gemini().continuation.cut_off(Place(TOKEN), Usage(1, 1, 2)),
    ]
    body = b"".join(encoder.feed(event) for event in events) + encoder.close()
    assert read(body)[-1].provider_metadata == {"google": {"continuation_token": TOKEN}}


def test_continued_response_is_one(two) -> None:
    """What only we count is not on the wire."""
    encoder = server_side(Gemini()).event_encoder(asking())
    body = b"".join(encoder.feed(event) for event in read(*two)) + encoder.close()
    assert b"continuations" not in body
    assert read(body)[-1].usage.total_tokens == 25
