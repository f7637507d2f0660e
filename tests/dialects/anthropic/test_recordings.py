"""The recordings, decoded whole and in pieces."""

from __future__ import annotations

import pytest

from llmstream import events as ev
from llmstream.dialects.anthropic import BEDROCK_INVOKE
from llmstream.dialects.anthropic.wire import invoke_frame
from llmstream.events import ErrorEvent, Finish
from llmstream.server_side.wires import server_side


def expected(recording):
    return [ev.decode(line) for line in recording.with_suffix(".jsonl").read_bytes().splitlines()]


def frames_of(body):
    return [frame + b"\n\n" for frame in body.split(b"\n\n") if frame]


def is_stop_reason(frame):
    return b'"stop_reason":"' in frame


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
    for count in range(len(frames)):
        events = decode(*frames[:count])
        complete = any(is_stop_reason(frame) for frame in frames[:count])
        errors = [event.error.code for event in events if isinstance(event, ErrorEvent)]
        assert errors == ([] if complete else ["incomplete-stream"]), count
        assert [isinstance(event, Finish) for event in events].count(True) == 1


@pytest.mark.slow
def test_byte_truncation_keeps_the_grammar(recording, decode):
    body = recording.read_bytes()
    for cut in range(len(body)):
        events = decode(body[:cut])
        assert isinstance(events[-1], Finish)


def test_inside_aws_frames_it_means_the_same(recording, decode):
    payloads = [frame.split(b"data: ", 1)[1].strip() for frame in frames_of(recording.read_bytes())]
    body = b"".join(invoke_frame(payload) for payload in payloads)
    wanted = expected(recording)
    assert decode(body, dialect=BEDROCK_INVOKE) == wanted
    assert decode(*[body[i : i + 7] for i in range(0, len(body), 7)], dialect=BEDROCK_INVOKE) == wanted


def test_rewritten_recording_reads_the_same(recording, decode):
    from llmstream.dialects.anthropic import Anthropic
    from llmstream.request import Request

    for dialect in (Anthropic(), BEDROCK_INVOKE):
        encoder = server_side(dialect).event_encoder(Request(model="m"))
        wanted = expected(recording)
        body = b"".join(encoder.feed(event) for event in wanted) + encoder.close()
        assert decode(body, dialect=dialect) == wanted
