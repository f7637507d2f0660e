"""The recordings, decoded whole and in pieces, and written again."""

from __future__ import annotations

import pytest

from llmstream import events as ev
from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.events import ErrorEvent, Finish
from llmstream.request import Request
from llmstream.server_side.wires import server_side


def expected(recording):
    return [ev.decode(line) for line in recording.with_suffix(".jsonl").read_bytes().splitlines()]


def frames_of(body):
    return [frame + b"\n\n" for frame in body.split(b"\n\n") if frame]


def is_last_word(frame):
    return frame.startswith((b"event: interaction.completed", b"event: error"))


def test_recording_matches_expected_events(recording, wire):
    assert wire.read(recording.read_bytes()).events == expected(recording)


def test_byte_by_byte_it_means_the_same(recording, wire):
    body = recording.read_bytes()
    assert wire.read(body, cuts=range(1, len(body))).events == expected(recording)


@pytest.mark.slow
def test_every_two_way_cut_means_the_same(recording, wire):
    body = recording.read_bytes()
    wanted = expected(recording)
    for cut in range(1, len(body)):
        assert wire.read(body, cuts=[cut]).events == wanted, cut


def test_other_line_ends_mean_the_same(recording, wire):
    body = recording.read_bytes()
    for line_end in (b"\r", b"\r\n"):
        assert wire.read(body.replace(b"\n", line_end)).events == expected(recording)


def test_frame_truncation_gives_one_error(recording, wire):
    """One error and one finish, at every frame."""
    frames = frames_of(recording.read_bytes())
    told = [event.error.code for event in expected(recording) if isinstance(event, ErrorEvent)]
    for count in range(len(frames)):
        answer = wire.read(b"".join(frames[:count]))
        complete = any(is_last_word(frame) for frame in frames[:count])
        assert answer.errors == (told if complete else ["incomplete-stream"]), count
        assert isinstance(answer.finish, Finish)


@pytest.mark.slow
def test_byte_truncation_keeps_the_grammar(recording, wire):
    body = recording.read_bytes()
    for cut in range(len(body)):
        assert isinstance(wire.read(body[:cut]).events[-1], Finish)


def test_rewritten_recording_reads_the_same(recording, wire):
    wanted = expected(recording)
    encoder = server_side(GeminiInteractions()).event_encoder(Request(model="m"))
    body = b"".join(encoder.feed(event) for event in wanted) + encoder.close()
    got = wire.read(body).events
    if recording.stem == "failed":  # the status of an error in a stream is told by its words alone
        assert [type(event) for event in got] == [type(event) for event in wanted]
    else:
        assert got == wanted
