"""The recordings, truncated between frames, in AWS frames, and written again."""

from __future__ import annotations

from llmstream.dialects.anthropic import BEDROCK_INVOKE
from llmstream.dialects.anthropic.wire import invoke_frame
from llmstream.events import ErrorEvent, Finish
from llmstream.server_side.wires import server_side
from tests.dialects.recordings import expected, frames_of


def is_stop_reason(frame):
    return b'"stop_reason":"' in frame


def test_frame_truncation_gives_one_error(recording, decode):
    """One error and one finish, at every frame."""
    frames = frames_of(recording.read_bytes())
    for count in range(len(frames)):
        events = decode(*frames[:count])
        complete = any(is_stop_reason(frame) for frame in frames[:count])
        errors = [event.error.code for event in events if isinstance(event, ErrorEvent)]
        assert errors == ([] if complete else ["incomplete-stream"]), count
        assert [isinstance(event, Finish) for event in events].count(True) == 1


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
