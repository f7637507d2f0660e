"""The recordings, decoded whole, in pieces and damaged."""

from __future__ import annotations

import random

import pytest

from llmstream import events as ev
from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.events import ErrorEvent, Finish, Source
from llmstream.request import Request
from llmstream.server_side.wires import server_side


def expected(recording):
    return [ev.decode(line) for line in recording.expected.read_bytes().splitlines()]


def without_sources(events):
    """A source that waits for its text is given early where the stream breaks."""
    return [event for event in events if not isinstance(event, Source)]


def test_recording_matches_expected_events(recording, decode):
    assert decode(recording.body) == expected(recording)


def test_byte_by_byte_it_means_the_same(recording, decode):
    body = recording.body
    assert decode(*[body[i : i + 1] for i in range(len(body))]) == expected(recording)


@pytest.mark.slow
def test_every_two_way_cut_means_the_same(recording, decode):
    wanted = expected(recording)
    for cut in range(len(recording.body)):
        assert decode(recording.body[:cut], recording.body[cut:]) == wanted, cut


def test_frame_truncation_gives_one_error(recording, decode):
    """One error and one finish, at every frame."""
    for count in range(len(recording.frames)):
        events = decode(*recording.frames[:count])
        complete = any("messageStop" in event for event in recording.wire[:count])
        errors = [event.error.code for event in events if isinstance(event, ErrorEvent)]
        assert errors == ([] if complete else ["incomplete-stream"]), count
        assert [isinstance(event, Finish) for event in events].count(True) == 1


def test_truncation_in_a_frame_is_incomplete(recording, decode):
    place = random.Random(4)
    stop = next(i for i, event in enumerate(recording.wire) if "messageStop" in event)
    for count in range(stop + 1):
        frame = recording.frames[count]
        events = decode(*recording.frames[:count], frame[: place.randrange(1, len(frame))])
        assert [e.error.code for e in events if isinstance(e, ErrorEvent)] == ["incomplete-stream"], count


@pytest.mark.slow
def test_byte_truncation_keeps_the_grammar(recording, decode):
    for cut in range(len(recording.body)):
        assert isinstance(decode(recording.body[:cut])[-1], Finish)


def test_flipped_bit_is_never_silent(recording, decode):
    wanted = expected(recording)
    place = random.Random(5)
    for _ in range(300):
        at, bit = place.randrange(len(recording.body)), 1 << place.randrange(8)
        damaged = bytearray(recording.body)
        damaged[at] ^= bit
        events = decode(bytes(damaged))
        assert any(isinstance(event, ErrorEvent) for event in events), (at, bit)
        kept = events[: next(i for i, event in enumerate(events) if isinstance(event, ErrorEvent))]
        closed = without_sources(event for event in kept if not getattr(event, "incomplete", False))
        assert closed == without_sources(wanted)[: len(closed)]


def test_rewritten_recording_reads_the_same(recording, decode):
    encoder = server_side(BedrockConverse()).event_encoder(Request(model="m"))
    wanted = expected(recording)
    assert decode(b"".join(encoder.feed(event) for event in wanted) + encoder.close()) == wanted
