"""Bedrock's frames: exceptions, damage and what is skipped."""

from __future__ import annotations

import base64
import json

import pytest

from llmstream.dialects.anthropic import BEDROCK_INVOKE
from llmstream.dialects.anthropic.wire import invoke_frame
from llmstream.events import ErrorEvent, TextDelta
from llmstream.framing.aws_event_stream import encode_message
from llmstream.server_side.wires.errors import exception_frame

START = {"type": "message_start", "message": {"id": "msg_1", "model": "m"}}
TEXT = (
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
)
END = ({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"})


def frames(*events):
    return b"".join(invoke_frame(json.dumps(event).encode()) for event in events)


def codes(events):
    return [event.error.code for event in events if isinstance(event, ErrorEvent)]


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        ("throttlingException", "rate-limited", 429),
        ("serviceUnavailableException", "overloaded", 503),
        ("internalServerException", "server-error", 500),
        ("modelTimeoutException", "server-error", 408),
        ("validationException", "bad-request", 400),
        ("modelStreamErrorException", "server-error", 424),
    ],
)
def test_exception_is_a_typed_error(kind, code, status, decode):
    """Events before it are read."""
    events = decode(frames(START, *TEXT[:2]) + exception_frame(kind, "words"), dialect=BEDROCK_INVOKE)
    assert [e.delta for e in events if isinstance(e, TextDelta)] == ["Hi"]
    (error,) = [e.error for e in events if isinstance(e, ErrorEvent)]
    assert (error.code, error.status, error.message) == (code, status, "words")


def test_non_json_exception_keeps_message(decode):
    body = encode_message({":message-type": "error", ":error-code": "500", ":error-message": "gone"}, b"")
    (error,) = [e.error for e in decode(body, dialect=BEDROCK_INVOKE) if isinstance(e, ErrorEvent)]
    assert error.message == "gone"


def test_metrics_without_a_type_are_skipped(decode):
    metrics = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 1}}
    body = frames(START, *TEXT, *END[:1]) + frames(metrics) + encode_message({}, json.dumps(metrics).encode())
    events = decode(body, dialect=BEDROCK_INVOKE)
    assert codes(events) == []
    assert events[-1].finish_reason == "stop"


def test_padding_beside_the_bytes_is_ignored(decode):
    payload = {"bytes": base64.b64encode(json.dumps(START).encode()).decode(), "p": "abcdef"}
    body = encode_message({":message-type": "event"}, json.dumps(payload).encode()) + frames(*TEXT, *END)
    assert codes(decode(body, dialect=BEDROCK_INVOKE)) == []


def test_damaged_frame_ends_the_stream(decode):
    """Events before it are read."""
    body = bytearray(frames(START, *TEXT))
    body[-1] ^= 1
    events = decode(bytes(body), dialect=BEDROCK_INVOKE)
    assert codes(events) == ["protocol-error"]
    assert [e.delta for e in events if isinstance(e, TextDelta)] == ["Hi"]


@pytest.mark.parametrize("payload", [b'{"bytes":"***"}', b"\xff", b'{"bytes":5}'])
def test_unreadable_payload_is_a_defect(payload, decode):
    body = frames(START) + encode_message({":message-type": "event"}, payload) + frames(*TEXT, *END)
    events = decode(body, dialect=BEDROCK_INVOKE)
    assert len(codes(events)) <= 1
    assert events[-1].finish_reason == "stop"


def test_content_types():
    assert BEDROCK_INVOKE.content_type == "application/vnd.amazon.eventstream"
