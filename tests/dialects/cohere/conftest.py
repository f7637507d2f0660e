"""Ways to drive the cohere dialect that its tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.cohere import Cohere
from llmstream.events import Event
from tests.dialects.reading import made_ids, read_chunks

RECORDINGS = Path(__file__).parent / "recordings"

Decode = Callable[..., list[Event]]
Stream = Callable[..., bytes]


@pytest.fixture(scope="session")
def decode() -> Decode:
    """Chunks of a body to a whole sentence, which is checked against the grammar."""

    def run(*chunks: bytes, limits: StreamLimits = StreamLimits(), include_raw: bool = False) -> list[Event]:
        dialect = Cohere(new_call_id=made_ids())
        decoder = dialect.decoder(provider="cohere", limits=limits, include_raw=include_raw)
        return read_chunks(decoder, chunks, provider="cohere").events

    return run


@pytest.fixture(scope="session")
def stream() -> Stream:
    """Events of the wire as a body; `end` is the reason of a message-end that is added, None adds none."""

    def write(*events: dict[str, Any], end: str | None = "COMPLETE", done: bool = True) -> bytes:
        start = {"type": "message-start", "id": "m-1", "delta": {"message": {"role": "assistant"}}}
        last = {"type": "message-end", "delta": {"finish_reason": end}}
        all_events = [start, *events, *([last] if end is not None else [])]
        body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in all_events)
        return body + (b"data: [DONE]\n\n" if done else b"")

    return write


@pytest.fixture(scope="session", params=sorted(p.stem for p in RECORDINGS.glob("*.sse")))
def recording(request: pytest.FixtureRequest) -> Path:
    """A body made by hand in the vendor's format; beside it, what it means, one event a line."""
    return RECORDINGS / f"{request.param}.sse"
