"""Ways to drive the mistral dialect that its tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.mistral import Mistral
from llmstream.events import Event
from tests.dialects.reading import made_ids, read_chunks

RECORDINGS = Path(__file__).parent / "recordings"

Decode = Callable[..., list[Event]]
Stream = Callable[..., bytes]


@pytest.fixture(scope="session")
def decode() -> Decode:
    """Chunks of a body to a whole sentence, which is checked against the grammar."""

    def run(*chunks: bytes, limits: StreamLimits = StreamLimits(), include_raw: bool = False) -> list[Event]:
        dialect = Mistral(new_call_id=made_ids())
        decoder = dialect.decoder(provider="mistral", limits=limits, include_raw=include_raw)
        return read_chunks(decoder, chunks, provider="mistral").events

    return run


@pytest.fixture(scope="session")
def stream() -> Stream:
    """Deltas as a body; a string is its content. `end` is the reason of the last chunk, None adds none."""

    def write(*deltas: Any, end: str | None = "stop", done: bool = True, **last: Any) -> bytes:
        frame = {"id": "c-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
        chunks: list[dict[str, Any]] = []
        for delta in deltas:
            delta = {"content": delta} if isinstance(delta, (str, list)) else delta
            whole = "choices" in delta or "object" in delta
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            chunks.append(delta if whole else {**frame, "choices": [choice]})
        if end is not None:
            choice = {"index": 0, "delta": {"content": ""}, "finish_reason": end}
            chunks.append({**frame, "choices": [choice], **last})
        body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
        return body + (b"data: [DONE]\n\n" if done else b"")

    return write


@pytest.fixture(scope="session", params=sorted(p.stem for p in RECORDINGS.glob("*.sse")))
def recording(request: pytest.FixtureRequest) -> Path:
    """A body made by hand in the vendor's format; beside it, what it means, one event a line."""
    return RECORDINGS / f"{request.param}.sse"
