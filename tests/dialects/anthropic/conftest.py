"""Ways to drive the anthropic dialect that its tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmstream.dialects.anthropic import Anthropic
from llmstream.dialects.base import StreamLimits
from llmstream.events import Event
from tests.dialects.reading import read_chunks

RECORDINGS = Path(__file__).parent / "recordings"

Decode = Callable[..., list[Event]]
Stream = Callable[..., bytes]


@pytest.fixture(scope="session")
def decode() -> Decode:
    """Chunks of a body to a whole sentence, which is checked against the grammar."""

    def run(
        *chunks: bytes,
        dialect: Anthropic = Anthropic(),
        limits: StreamLimits = StreamLimits(),
        include_raw: bool = False,
    ) -> list[Event]:
        decoder = dialect.decoder(provider="anthropic", limits=limits, include_raw=include_raw)
        return read_chunks(decoder, chunks, provider="anthropic").events

    return run


@pytest.fixture(scope="session")
def stream() -> Stream:
    """Events of the wire as an SSE body; `begin=False` leaves out message_start."""

    def write(*events: dict[str, Any], begin: bool = True) -> bytes:
        start = {
            "type": "message_start",
            "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 3}},
        }
        all_events = ([start] if begin else []) + list(events)
        return b"".join(b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n" for event in all_events)

    return write


@pytest.fixture(scope="session", params=sorted(p.stem for p in RECORDINGS.glob("*.sse")))
def recording(request: pytest.FixtureRequest) -> Path:
    """A body made by hand in the vendor's format; beside it, what it means, one event a line."""
    return RECORDINGS / f"{request.param}.sse"
