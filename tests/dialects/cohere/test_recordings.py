"""The recordings, truncated between frames, and written again."""

from __future__ import annotations

from llmstream.dialects.cohere import Cohere
from llmstream.events import ErrorEvent, Finish
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from llmstream.testing import assert_dialect_conforms
from tests.dialects.recordings import expected, frames_of


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


def test_written_again_it_reads_the_same(recording, decode):
    if recording.stem == "cut_input":
        return  # an input that was cut is not written
    encoder = server_side(Cohere()).event_encoder(Request(model="m"))
    wanted = expected(recording)
    assert decode(b"".join(encoder.feed(event) for event in wanted) + encoder.close()) == wanted


def test_the_dialect_conforms(recording):
    assert_dialect_conforms(Cohere(), [recording.read_bytes()], provider="cohere", max_cuts=200)
