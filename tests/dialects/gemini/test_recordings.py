"""The recordings, as a JSON array, truncated between frames, and written again."""

from __future__ import annotations

import itertools
import json

from llmstream.dialects.gemini import Gemini
from llmstream.events import Finish, ToolInputDelta
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from tests.dialects.recordings import expected, frames_of


def is_complete(frames):
    """Whether the last frame that says anything says why the answer ended."""
    complete = False
    for frame in frames:
        chunk = json.loads(frame[6:])
        (candidate,) = chunk.get("candidates") or [{}]
        if candidate.get("finishReason") or "blockReason" in chunk.get("promptFeedback", {}):
            complete = True
        elif candidate.get("content", {}).get("parts"):
            complete = False
    return complete


def test_as_a_json_array_it_means_the_same(recording, wire):
    frames = frames_of(recording.read_bytes(), b"\r\n\r\n")
    pretty = [json.dumps(json.loads(frame[6:]), indent=2).encode() for frame in frames]
    body = b"[" + b"\n,\r\n".join(pretty) + b"\n]\n"
    assert wire.read(body).events == expected(recording)
    assert wire.read(body, cuts=range(1, len(body))).events == expected(recording)


def test_frame_truncation_gives_one_error(recording, wire):
    """One error and one finish, at every frame."""
    frames = frames_of(recording.read_bytes(), b"\r\n\r\n")
    for count in range(len(frames)):
        answer = wire.read(b"".join(frames[:count]))
        assert answer.errors == ([] if is_complete(frames[:count]) else ["incomplete-stream"]), count
        assert isinstance(answer.finish, Finish)


def whole(events):
    """The same events with the input of each call in one delta, as it is written."""
    out = []
    for key, group in itertools.groupby(
        events, lambda e: getattr(e, "id", None) if type(e) is ToolInputDelta else e
    ):
        run = list(group)
        joined = type(run[0]) is ToolInputDelta
        out.append(ToolInputDelta("".join(e.delta for e in run), key) if joined else run[0])
    return out


def test_rewritten_recording_reads_the_same(recording, wire):
    if recording.stem == "cut_call":
        return  # an input that broke off cannot be written: inputs are written whole
    wanted = expected(recording)
    encoder = server_side(Gemini()).event_encoder(Request(model="m"))
    body = b"".join(encoder.feed(event) for event in wanted) + encoder.close()
    assert wire.read(body).events == whole(wanted)
