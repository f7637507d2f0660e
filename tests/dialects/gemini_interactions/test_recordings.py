"""The recordings, truncated between frames, and written again."""

from __future__ import annotations

from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.events import ErrorEvent, Finish
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from tests.dialects.recordings import expected, frames_of


def is_last_word(frame):
    return frame.startswith((b"event: interaction.completed", b"event: error"))


def test_frame_truncation_gives_one_error(recording, wire):
    """One error and one finish, at every frame."""
    frames = frames_of(recording.read_bytes())
    told = [event.error.code for event in expected(recording) if isinstance(event, ErrorEvent)]
    for count in range(len(frames)):
        answer = wire.read(b"".join(frames[:count]))
        complete = any(is_last_word(frame) for frame in frames[:count])
        assert answer.errors == (told if complete else ["incomplete-stream"]), count
        assert isinstance(answer.finish, Finish)


def test_rewritten_recording_reads_the_same(recording, wire):
    wanted = expected(recording)
    encoder = server_side(GeminiInteractions()).event_encoder(Request(model="m"))
    body = b"".join(encoder.feed(event) for event in wanted) + encoder.close()
    got = wire.read(body).events
    if recording.stem == "failed":  # the status of an error in a stream is told by its words alone
        assert [type(event) for event in got] == [type(event) for event in wanted]
    else:
        assert got == wanted
