"""An answer that comes in several interactions, as Gemini 4 cuts it after 65,536 tokens."""

from __future__ import annotations

import json

import pytest

from llmstream import grammar
from llmstream.chats.message import Message
from llmstream.dialects.base import Place
from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.errors import BadRequest, Overloaded
from llmstream.events import (
    ErrorEvent,
    File,
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
    ToolResult,
    Usage,
)
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from tests.dialects.reading import read_bodies

TOKEN = "AbC+/=="
DIALECT = GeminiInteractions()


def usage(given, made):
    return {"total_input_tokens": given, "total_output_tokens": made, "total_tokens": given + made}


def created(name="v1"):
    return {"event_type": "interaction.created", "interaction": {"id": name, "model": "m"}}


def cut(wire, name="v1", token=TOKEN, **fields):
    return wire.completed("requires_continuation", id=name, continuation_token=token, **fields)


def text(wire, words, index=0):
    return wire.delta(index, "text", text=words)


def sentence():
    return GuardedDecoder(DIALECT.decoder(provider="google"), provider="google")


def read(*bodies, cuts=()):
    return read_bodies(sentence(), bodies, cuts)


@pytest.fixture
def two(wire):
    """Two interactions of one text, cut inside a word."""
    first = wire.body(created(), wire.text("It rains h"), cut(wire, usage=usage(9, 4)), b"data: [DONE]\n\n")
    again = wire.step(0, "user_input", content=[{"type": "text", "text": "Weather?"}])
    last = wire.completed(id="v2", usage=usage(9, 3))
    return first, wire.body(created("v2"), again, wire.text("eavily.", 1), last)


def test_text_goes_on_in_its_block(two) -> None:
    assert read(*two) == [
        StreamStart(),
        ResponseMetadata("m", "v1"),
        TextStart("0"),
        TextDelta("It rains h", "0"),
        TextDelta("eavily.", "0"),
        TextEnd("0"),
        Finish(
            "stop",
            Usage(18, 7, 25, raw=[usage(9, 4), usage(9, 3)]),
            "completed",
            {"google": {"interaction_id": "v2", "continuations": 1}},
        ),
    ]


def test_any_cut_of_the_bodies_is_invisible(two) -> None:
    whole = read(*two)
    assert read(*two, cuts=range(1, max(map(len, two)))) == whole
    for place in range(1, max(map(len, two))):
        assert read(*two, cuts=[place]) == whole


def test_cut_inside_any_text_is_invisible(wire, recording) -> None:
    """Each step that is open is closed, and opened again by the next interaction."""
    frames = [frame for frame in recording.read_bytes().split(b"\n\n") if b"data: {" in frame]
    told = [json.loads(frame.partition(b"data: ")[2]) for frame in frames]
    *expected, finish = read(recording.read_bytes())
    opened: dict[int, str] = {}
    for count, event in enumerate(told, 1):
        match event:
            case {"event_type": "step.start", "index": index, "step": {"type": kind}}:
                opened[index] = kind
            case {"event_type": "step.stop", "index": index}:
                del opened[index]
            case {"event_type": "interaction.completed" | "error"}:
                break
        if {*opened.values()} - {"model_output"}:
            continue
        ends = [wire.stop(index) for index in opened]
        again = [wire.start(index, kind) for index, kind in opened.items()]
        *events, last = read(
            wire.body(*told[:count], ends, cut(wire)), wire.body(created("v2"), again, *told[count:])
        )
        assert (events, last.finish_reason) == (expected, finish.finish_reason)


def test_uncontinued_response_has_its_token(two) -> None:
    finish = read(two[0])[-1]
    assert (finish.finish_reason, finish.raw_finish_reason) == ("length", "requires_continuation")
    assert finish.provider_metadata == {"google": {"interaction_id": "v1", "continuation_token": TOKEN}}


def test_without_a_token_it_ends_at_once(wire) -> None:
    made = sentence()
    events = made.feed(wire.body(wire.text("a"), cut(wire, token=None)))
    assert events[-1].finish_reason == "length"


def test_a_status_says_it_as_well(wire) -> None:
    told = {"event_type": "interaction.status_update", "status": "requires_continuation"}
    told |= {"interaction_id": "v7", "continuation_token": TOKEN}
    made = sentence()
    made.feed(wire.body(created(), wire.text("a"), told))
    assert made.complete
    assert made.decoder.next_place == Place(TOKEN, "v7")


def place(token=TOKEN):
    told = {"event_type": "interaction.status_update", "status": "in_progress", "interaction_id": "v1"}
    return {**told, "continuation_token": token}


def test_position_holds_until_content_comes(wire) -> None:
    made = sentence()
    made.feed(wire.body(created(), wire.start(0, "model_output"), text(wire, "a"), place()))
    assert made.decoder.next_place == Place(TOKEN, "v1")
    assert not made.complete
    made.feed(wire.body(text(wire, "b")))
    assert made.decoder.next_place is None
    assert made.decoder.unfinished == {"google": {"interaction_id": "v1", "continuation_token": TOKEN}}
    made.feed(wire.body(wire.stop(0), wire.completed(id="v1")))
    assert made.decoder.unfinished is None


def test_unclosed_step_continues_too(wire) -> None:
    first = wire.body(created(), wire.start(0, "model_output"), text(wire, "It ra"), place())
    events = read(first, wire.body(wire.text("ins."), wire.completed()))
    assert [e.delta for e in events if isinstance(e, TextDelta)] == ["It ra", "ins."]
    assert len([e for e in events if isinstance(e, TextStart)]) == 1


def thought(wire, words, *more):
    summary = {"type": "thought_summary", "content": {"type": "text", "text": words}}
    return wire.step(0, "thought", summary, *more)


def test_thought_continues_until_signed(wire) -> None:
    signed = {"type": "thought_signature", "signature": "s1"}
    first = wire.body(created(), thought(wire, "Hm "), cut(wire))
    second = wire.body(thought(wire, "hm.", signed), cut(wire, token="t2"))
    third = wire.body(thought(wire, "New."), wire.text("Yes.", 1), wire.completed())
    assert read(first, second, third)[2:-1] == [
        ReasoningStart("0"),
        ReasoningDelta("Hm ", "0"),
        ReasoningDelta("hm.", "0"),
        ReasoningEnd("0", provider_metadata={"google": {"signature": "s1"}}),
        ReasoningStart("1"),
        ReasoningDelta("New.", "1"),
        ReasoningEnd("1"),
        TextStart("2"),
        TextDelta("Yes.", "2"),
        TextEnd("2"),
    ]


def test_other_step_kind_ends_the_cut_step(wire) -> None:
    first = wire.body(created(), wire.text("Let me see."), cut(wire))
    call = wire.step(0, "function_call", {"type": "arguments_delta", "arguments": "{}"}, id="c1", name="f")
    events = read(first, wire.body(call, wire.completed("requires_action")))
    assert [type(e) for e in events[2:5]] == [TextStart, TextDelta, TextEnd]
    assert events[-1].finish_reason == "tool-calls"


def test_repeated_call_is_read_once(wire) -> None:
    calls = [
        wire.step(n, "function_call", {"type": "arguments_delta", "arguments": "{}"}, id=f"c{n}", name="f")
        for n in (1, 2)
    ]
    searched = [
        wire.step(3, "google_search_call", id="s1", arguments={"queries": ["rain"]}),
        wire.step(4, "google_search_result", call_id="s1", result=[]),
    ]
    first = wire.body(calls[0], *searched, cut(wire))
    events = read(first, wire.body(calls[0], *searched, calls[1], wire.completed("requires_action")))
    assert [e.tool_call_id for e in events if isinstance(e, ToolCall)] == ["c1", "s1", "c2"]
    assert len([e for e in events if isinstance(e, ToolResult)]) == 1
    assert not [e for e in events if isinstance(e, ErrorEvent)]


def opened_call(wire, index=0, call_id="c1"):
    pieces = [wire.delta(index, "arguments_delta", arguments='{"city":"Os')]
    return [wire.start(index, "function_call", id=call_id, name="f", arguments={}), *pieces]


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("opened", [False, True])
def test_a_call_goes_on_with_its_arguments(wire, closed, opened) -> None:
    """How Google cuts inside a call is not known, so every way is read."""
    more = {"type": "arguments_delta", "arguments": 'lo"}'}
    rest = wire.step(0, "function_call", more, id="c1", name="f", arguments={})[0 if opened else 1 :]
    first = [*opened_call(wire), wire.stop(0)] if closed else opened_call(wire)
    events = read(wire.body(first, cut(wire)), wire.body(rest, wire.completed("requires_action")))
    assert [e.input for e in events if isinstance(e, ToolCall)] == ['{"city":"Oslo"}']
    assert not [e for e in events if isinstance(e, ErrorEvent)]


def test_text_goes_on_without_another_start(wire) -> None:
    first = wire.body(created(), wire.text("It ra"), cut(wire))
    rest = [text(wire, "ins."), wire.stop(0), wire.start(1, "thought")]
    events = read(first, wire.body(rest, wire.completed()))
    assert [e.delta for e in events if isinstance(e, TextDelta)] == ["It ra", "ins."]
    assert not [e for e in events if isinstance(e, ErrorEvent)]


def test_call_left_open_is_incomplete(wire) -> None:
    """Whether nobody continues it, or what continues is another call."""
    first = wire.body(opened_call(wire), cut(wire))
    assert ToolInputEnd("c1", incomplete=True) in read(first)
    given = {"type": "arguments_delta", "arguments": "{}"}
    another = wire.step(0, "function_call", given, id="c2", name="f", arguments={})
    made = sentence()
    events = made.start() + made.feed(first)
    made.decoder.next_body()
    events = events + made.feed(wire.body(another, wire.completed("requires_action"))) + made.close()
    assert ToolInputEnd("c1", incomplete=True) in events
    assert [e.tool_call_id for e in events if isinstance(e, ToolCall)] == ["c2"]


def test_a_recording_goes_on(wire) -> None:
    def sound(data, index=0):
        return wire.step(index, "model_output", {"type": "audio", "mime_type": "audio/wav", "data": data})

    events = read(wire.body(sound("AAAA"), cut(wire)), wire.body(sound("AQEB"), wire.completed()))
    assert [e.data for e in events if isinstance(e, File)] == [b"\0\0\0\1\1\1"]


def test_immediate_failure_may_be_retried(wire, two) -> None:
    made = sentence()
    made.start()
    made.feed(two[0])
    made.decoder.next_body()
    failed = {"event_type": "error", "error": {"message": "busy", "code": "service_unavailable"}}
    assert made.feed(wire.body(created("v2"), failed)) == []
    assert isinstance(made.decoder.gap, Overloaded)
    assert made.decoder.next_place == Place(TOKEN, "v1")  # v2 gave no token
    made.decoder.next_body()
    made.feed(two[1])
    assert made.decoder.done
    assert made.decoder.usage.total_tokens == 25


def test_failure_after_content_is_the_end(wire, two) -> None:
    made = sentence()
    events = made.start() + made.feed(two[0])
    made.decoder.next_body()
    failed = {"event_type": "error", "error": {"message": "busy", "code": "service_unavailable"}}
    events = events + made.feed(
        wire.body(created("v2"), wire.start(0, "model_output"), text(wire, "e"), failed)
    )
    assert grammar.check(events) == []
    assert isinstance(made.error, Overloaded)
    assert events[-1].provider_metadata == {
        "google": {"interaction_id": "v1", "continuations": 1, "continuation_token": TOKEN}
    }


def test_text_end_comes_before_what_follows(wire) -> None:
    made = sentence()
    made.start()
    events = made.feed(wire.body(wire.text("a")))
    assert [type(e) for e in events] == [TextStart, TextDelta]
    assert made.feed(wire.body(wire.start(1, "thought"))) == [TextEnd("0"), ReasoningStart("1")]


# requests


def asking(**options):
    return Request(model="m", messages=(Message.user("Hi"),), provider_options={"google": options})


def encoded(request, provider="google"):
    return DIALECT.encode(request, provider=provider).http.json()


def test_next_request_names_the_stored_one() -> None:
    before = asking(previous_interaction_id="v0")
    after = DIALECT.continuation.continued(before, Place(TOKEN, "v1"), provider="google")
    body = {**encoded(before), "continuation_token": TOKEN, "previous_interaction_id": "v1"}
    del body["input"]
    assert encoded(after) == body


def test_what_is_not_stored_is_sent_again() -> None:
    before = asking(store=False)
    after = DIALECT.continuation.continued(before, Place(TOKEN, "v1"), provider="google")
    assert encoded(after) == {**encoded(before), "continuation_token": TOKEN}


@pytest.mark.parametrize(
    ("options", "yes"),
    [
        ({}, True),
        ({"automatic_continuation": True}, True),
        ({"automatic_continuation": False}, False),
        ({"background": True}, False),
        ({"agent": "deep-research"}, False),
    ],
)
def test_google_continues_in_the_background(options, yes) -> None:
    assert DIALECT.continuation.continues(asking(**options), provider="google") is yes
    assert "automatic_continuation" not in encoded(asking(**options))


def test_server_reads_tokens_and_writes_cuts() -> None:
    asked = DIALECT.continuation.continued(asking(), Place(TOKEN, "v1"), provider="google")
    http = DIALECT.encode(asked, provider="google").http
    request = server_side(DIALECT).decode_request(http)
    assert (DIALECT.continuation.place_of(request), request.messages) == (Place(TOKEN, "v1"), ())
    assert DIALECT.continuation.place_of(asking()) is None
    encoder = server_side(DIALECT).event_encoder(asking())
    events = [
        TextStart("0"),
        TextDelta("a", "0"),
        TextEnd("0"),
        DIALECT.continuation.cut_off(Place(TOKEN), Usage(1, 1)),
    ]
    body = b"".join(encoder.feed(event) for event in events) + encoder.close()
    finish = read(body)[-1]
    assert finish.raw_finish_reason == "requires_continuation"
    assert finish.provider_metadata["google"]["continuation_token"] == TOKEN


def test_token_alone_does_not_replace_input() -> None:
    http = DIALECT.encode(asking(continuation_token=TOKEN), provider="google").http
    assert http.json()["input"]
    with pytest.raises(BadRequest):
        server_side(DIALECT).decode_request(type(http)(http.url, b'{"model":"m","continuation_token":"t"}'))
