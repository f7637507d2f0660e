"""The recordings, decoded whole and in pieces."""

from __future__ import annotations

import pytest

from llmstream import events as ev
from llmstream.dialects.cohere import Cohere
from llmstream.events import ErrorEvent, Finish
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from llmstream.testing import assert_dialect_conforms


def expected(recording):
    return [ev.decode(line) for line in recording.with_suffix(".jsonl").read_bytes().splitlines()]


def frames_of(body):
    return [frame + b"\n\n" for frame in body.split(b"\n\n") if frame]


def test_recording_matches_expected_events(recording, decode):
    assert decode(recording.read_bytes()) == expected(recording)


def test_byte_by_byte_it_means_the_same(recording, decode):
    body = recording.read_bytes()
    assert decode(*[body[i : i + 1] for i in range(len(body))]) == expected(recording)


@pytest.mark.slow
def test_every_two_way_cut_means_the_same(recording, decode):
    body = recording.read_bytes()
    wanted = expected(recording)
    for cut in range(len(body)):
        assert decode(body[:cut], body[cut:]) == wanted, cut


def test_other_line_ends_mean_the_same(recording, decode):
    body = recording.read_bytes()
    for line_end in (b"\r", b"\r\n"):
        assert decode(body.replace(b"\n", line_end)) == expected(recording)


def test_frame_truncation_gives_one_error(recording, decode):
    """One error and one finish, at every frame."""
    frames = frames_of(recording.read_bytes())
    for count in range(len(frames) - 1):
        events = decode(*frames[:count])
        complete = any(IS_LAST in frame for frame in frames[:count])
        errors = [event.error.code for event in events if isinstance(event, ErrorEvent)]
        assert complete or errors == ["incomplete-stream"], count
        assert [isinstance(event, Finish) for event in events].count(True) == 1


IS_LAST = b'"message-end"'


def test_missing_done_mark_changes_nothing(recording, decode):
    body = b"".join(frames_of(recording.read_bytes())[:-1])
    assert decode(body) == expected(recording)


@pytest.mark.slow
def test_byte_truncation_keeps_the_grammar(recording, decode):
    body = recording.read_bytes()
    for cut in range(len(body)):
        assert isinstance(decode(body[:cut])[-1], Finish)


def test_written_again_it_reads_the_same(recording, decode):
    if recording.stem == "cut_input":
        return  # an input that was cut is not written
    encoder = server_side(Cohere()).event_encoder(Request(model="m"))
    wanted = expected(recording)
    assert decode(b"".join(encoder.feed(event) for event in wanted) + encoder.close()) == wanted


def test_the_dialect_conforms(recording):
    assert_dialect_conforms(Cohere(), [recording.read_bytes()], provider="cohere", max_cuts=200)
