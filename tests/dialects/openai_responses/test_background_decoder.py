"""One answer over several bodies: nothing twice, nothing lost, and no gap unseen."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from llmstream import grammar
from llmstream.dialects.base import Position, ResumableDecoder
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.errors import ProtocolError
from llmstream.events import (
    ErrorEvent,
    Finish,
    Raw,
    ReasoningDelta,
    ResponseMetadata,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
    ToolResult,
)

ONCE = (ToolCall, ToolResult, Source, ResponseMetadata, Finish)


def frames_of(recording):
    return [frame + b"\n\n" for frame in recording.read_bytes().split(b"\n\n") if frame.strip()]


def following(after=None, **options):
    return OpenAIResponses().background.following_decoder(provider="openai", after=after, **options)


def drained(sentence, chunk):
    """Everything that a slice says, as a reader would get it, one event of the wire after the other."""
    yield sentence.feed(chunk)
    while sentence.decoder.held:
        yield sentence.feed(b"")


def events_of(decoder, *bodies):
    sentence = GuardedDecoder(decoder, provider="openai")
    events = sentence.start()
    for place, body in enumerate(bodies):
        if place:
            decoder.reconnect()
        events += [event for batch in drained(sentence, body) for event in batch]
    return events + sentence.close()


def uncut(recording):
    return events_of(following(), b"".join(frames_of(recording)))


def test_only_following_decoder_can_resume():
    assert isinstance(following(), ResumableDecoder)
    assert not isinstance(OpenAIResponses().decoder(provider="openai"), ResumableDecoder)


def test_one_read_matches_the_usual_decoder(recording):
    plain = OpenAIResponses().decoder(provider="openai")
    sentence = GuardedDecoder(plain, provider="openai")
    expected = sentence.start() + sentence.feed(recording.read_bytes()) + sentence.close()
    assert uncut(recording) == expected


def test_break_at_every_event_is_invisible(recording):
    frames = frames_of(recording)
    expected = uncut(recording)
    for count in range(1, len(frames)):
        bodies = b"".join(frames[:count]), b"".join(frames[count:])
        assert events_of(following(), *bodies) == expected


@pytest.mark.slow
def test_break_inside_any_event_is_invisible(recording):
    frames, expected = frames_of(recording), uncut(recording)
    body = b"".join(frames)
    for cut in range(len(frames[0]), len(body), 7):
        decoder = following()
        sentence = GuardedDecoder(decoder, provider="openai")
        events = sentence.start() + [e for batch in drained(sentence, body[:cut]) for e in batch]
        decoder.reconnect()
        rest = b"".join(frames[decoder.position.sequence_number + 1 :])
        events += [e for batch in drained(sentence, rest) for e in batch] + sentence.close()
        assert events == expected


def test_what_comes_again_is_passed_over(recording):
    frames = frames_of(recording)
    body = b"".join(frames)
    for count in range(1, len(frames)):
        assert events_of(following(), b"".join(frames[:count]), body) == uncut(recording)


def test_raw_events_come_once(recording):
    frames = frames_of(recording)
    events = events_of(following(include_raw=True), b"".join(frames[:3]), b"".join(frames))
    assert len([e for e in events if type(e) is Raw]) == len(frames)


def test_missing_event_stops_the_reading(recording):
    frames = frames_of(recording)
    for missing in range(1, len(frames) - 1):
        decoder = following()
        sentence = GuardedDecoder(decoder, provider="openai")
        for batch in drained(sentence, b"".join(frames[:missing] + frames[missing + 1 :])):
            assert not any(type(event) is Finish for event in batch)
        assert isinstance(decoder.gap, ProtocolError)
        assert (decoder.gap.reason, decoder.gap.retryable) == ("sequence-gap", True)
        assert decoder.position.sequence_number == missing - 1


def test_unresumed_gap_is_an_error(recording):
    frames = frames_of(recording)
    events = events_of(following(), b"".join(frames[:2] + frames[3:]))
    assert grammar.check(events) == []
    (error,) = [event.error for event in events if type(event) is ErrorEvent]
    assert (error.code, error.reason) == ("protocol-error", "sequence-gap")


def test_resumption_fills_the_gap(recording):
    frames = frames_of(recording)
    for missing in range(1, len(frames) - 1):
        gappy = b"".join(frames[:missing] + frames[missing + 1 :])
        assert events_of(following(), gappy, b"".join(frames[missing:])) == uncut(recording)


def test_unreadable_event_leaves_no_gap(wire):
    said = [b'data: {"type":"response.in_progress","sequence_number":1,"response":[]}\n\n']
    said.append(b'data: {"type":"response.completed","sequence_number":2,"response":{}}\n\n')
    first = b'data: {"type":"response.created","sequence_number":0,"response":{"id":"r"}}\n\n'
    decoder = following()
    events = events_of(decoder, first + b"".join(said))
    assert decoder.gap is None
    assert [type(e) for e in events][-2:] == [ErrorEvent, Finish]


def test_an_error_counts_whatever_its_number():
    said = b'data: {"type":"response.created","sequence_number":0,"response":{"id":"r"}}\n\n'
    said += b'data: {"type":"error","sequence_number":99,"code":"server_error","message":"gone"}\n\n'
    events = events_of(following(), said)
    assert [e.error.message for e in events if type(e) is ErrorEvent] == ["gone"]


def test_every_batch_is_one_wire_event(recording):
    """So that a place in the answer always fits what the reader has been given."""
    decoder = following()
    sentence = GuardedDecoder(decoder, provider="openai")
    seen = []
    for batch in drained(sentence, b"".join(frames_of(recording))):
        if batch:
            assert len(batch) < 6
            seen.append(decoder.position.sequence_number)
    assert seen == sorted(set(seen))


def whole_of(frames):
    """The response in one piece, as its events say it."""
    events = [json.loads(frame.partition(b"data: ")[2]) for frame in frames]
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    return json.dumps({**events[-1]["response"], "output": items}).encode()


def test_full_body_continues_at_the_position(recording):
    """From behind any event: every block with just its text, every call and source once."""
    frames, whole = frames_of(recording), uncut(recording)
    body = whole_of(frames)
    for count in range(1, len(frames)):
        decoder = following()
        sentence = GuardedDecoder(decoder, provider="openai")
        events = sentence.start() + [e for b in drained(sentence, b"".join(frames[:count])) for e in b]
        position = decoder.position
        decoder.catch_up(body)
        events += [event for batch in drained(sentence, b"") for event in batch] + sentence.close()
        assert grammar.check(events) == []
        assert texts(events) == texts(whole)
        for kind in (ToolCall, Source, Finish):
            assert [e for e in events if type(e) is kind] == [e for e in whole if type(e) is kind]
        assert decoder.position == position  # what came so has no numbers


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null"])
def test_non_response_body_is_an_error(body):
    decoder = following()
    decoder.catch_up(body)
    assert decoder.failure.code == "decode-error"


@pytest.mark.parametrize("said", [b'"background":false', b'"background":true', b'"x":1'])
def test_what_is_not_kept_has_no_position(said):
    frame = b'data: {"type":"response.created","sequence_number":0,"response":{"id":"r",' + said + b"}}\n\n"
    decoder = following()
    decoder.feed(frame)
    assert decoder.position == (None if b"false" in said else Position("r", 0))


def texts(events):
    out = Counter()
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta):
            out[event.id] = (out[event.id] or "") + event.delta
    return dict(out)


def test_rest_begins_at_the_readers_position(recording):
    """What was given before, and the rest, are the whole: for a place behind every event."""
    frames = frames_of(recording)
    body, whole = b"".join(frames), uncut(recording)
    for number in range(len(frames)):
        before = events_of(following(), b"".join(frames[: number + 1]))
        rest = events_of(following(Position("r", number)), body)
        assert grammar.check(rest) == []
        both = texts(before)
        for block, text in texts(rest).items():
            both[block] = both.get(block, "") + text
        assert both == texts(whole)
        for kind in (ToolCall, ToolResult, Source):
            old = [e for e in before if type(e) is kind]
            assert old + [e for e in rest if type(e) is kind] == [e for e in whole if type(e) is kind]
        assert rest[-1] == whole[-1]
        assert [e for e in rest if type(e) is ResponseMetadata] == [
            e for e in whole if type(e) is ResponseMetadata
        ] or len(rest) <= 3


def test_open_inputs_come_complete(recording):
    frames = frames_of(recording)
    body = b"".join(frames)
    for number in range(len(frames)):
        rest = events_of(following(Position("r", number)), body)
        inputs = {e.id: "" for e in rest if type(e) is ToolInputStart}
        for event in rest:
            if type(event) is ToolInputDelta:
                inputs[event.id] += event.delta
        for call in rest:
            if type(call) is ToolCall:
                assert (inputs[call.tool_call_id] or "{}") == call.input


def test_continued_block_keeps_metadata(wire):
    body = wire.body(*wire.message(0, "Hel", "lo"))
    numbered = []
    for number, frame in enumerate(body.split(b"\n\n")[:-1]):
        numbered.append({**json.loads(frame.removeprefix(b"data: ")), "sequence_number": number})
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in numbered)
    rest = events_of(following(Position("resp_1", 2)), data)
    start = next(e for e in rest if type(e) is TextStart)
    assert start.provider_metadata == {"openai": {"provider": "openai", "item_id": "msg_1"}}
    assert [e for e in rest if type(e) in (TextDelta, TextEnd)] == [
        TextDelta("lo", "msg_1"),
        TextEnd("msg_1"),
    ]
