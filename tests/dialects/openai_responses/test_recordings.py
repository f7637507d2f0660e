"""The recordings, truncated, without their deltas, and written again."""

from __future__ import annotations

import json

import pytest

from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.events import ErrorEvent, Finish, ToolCall, ToolInputEnd
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from tests.dialects.recordings import expected, frames_of


def test_frame_truncation_gives_one_error(recording, wire):
    """One error and one finish, at every frame."""
    frames = frames_of(recording.read_bytes())
    for count in range(len(frames)):
        answer = wire.read(b"".join(frames[:count]))
        assert answer.errors == ["incomplete-stream"], count
        assert answer.finish.finish_reason == "error"
        assert len(answer.of(Finish)) == len(answer.of(ErrorEvent)) == 1


@pytest.mark.slow
def test_truncation_makes_no_partial_call(recording, wire):
    body = recording.read_bytes()
    whole = {(call.tool_call_id, call.input) for call in expected(recording) if isinstance(call, ToolCall)}
    for cut in range(0, len(body), 3):
        answer = wire.read(body[:cut])
        broken = {end.id for end in answer.of(ToolInputEnd) if end.incomplete}
        assert {(call.tool_call_id, call.input) for call in answer.of(ToolCall)} <= whole
        assert broken.isdisjoint(answer.ids)


def test_written_again_it_means_the_same(recording, wire):
    wanted = expected(recording)
    writer = server_side(OpenAIResponses()).event_encoder(Request(model="m"))
    body = b"".join(writer.feed(event) for event in wanted) + writer.close()
    assert wire.merged(wire.read(body).events) == wire.merged(wanted)


def test_last_event_brings_unstreamed_items(recording, wire):
    """Some gateways send only `response.completed`."""
    frames = frames_of(recording.read_bytes())
    items = [
        json.loads(frame.split(b"data: ")[1])["item"] for frame in frames if b"output_item.done" in frame
    ]
    last = json.loads(frames[-1].split(b"data: ")[1])
    last["response"]["output"] = items
    answer = wire.read(b"data: " + json.dumps(last).encode() + b"\n\n")
    streamed = wire.read(recording.read_bytes())
    assert (answer.texts, answer.reasonings, answer.calls) == (
        streamed.texts,
        streamed.reasonings,
        streamed.calls,
    )
    assert answer.finish == streamed.finish
