"""Bodies of this wire, written event by event, and the events they give."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.gemini_interactions import GeminiInteractions
from tests.dialects.reading import Answer, made_ids, read_answer

RECORDINGS = Path(__file__).parent / "recordings"


class Wire:
    """Writes bodies and reads them. Calls without an id are called made-1 and so on."""

    def start(self, index: int, kind: str, **fields: Any) -> dict[str, Any]:
        return {"event_type": "step.start", "index": index, "step": {"type": kind, **fields}}

    def delta(self, index: int, kind: str, **fields: Any) -> dict[str, Any]:
        return {"event_type": "step.delta", "index": index, "delta": {"type": kind, **fields}}

    def stop(self, index: int) -> dict[str, Any]:
        return {"event_type": "step.stop", "index": index}

    def step(self, index: int, kind: str, *deltas: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
        """A whole step; a delta is given with its type."""
        grown = [{"event_type": "step.delta", "index": index, "delta": delta} for delta in deltas]
        return [self.start(index, kind, **fields), *grown, self.stop(index)]

    def completed(self, status: str = "completed", **fields: Any) -> dict[str, Any]:
        return {"event_type": "interaction.completed", "interaction": {"status": status, **fields}}

    def text(self, words: str, index: int = 0) -> list[dict[str, Any]]:
        return self.step(index, "model_output", {"type": "text", "text": words})

    def body(self, *events: Any) -> bytes:
        """Events as SSE; lists are several, bytes go as they are."""
        out = []
        for one in events:
            for event in one if isinstance(one, list) else [one]:
                data = event if isinstance(event, bytes) else json.dumps(event).encode()
                out.append(event if isinstance(event, bytes) else b"event: x\ndata: %b\n\n" % data)
        return b"".join(out)

    def read(
        self,
        body: bytes,
        *,
        cuts: Iterable[int] = (),
        limits: StreamLimits = StreamLimits(),
        include_raw: bool = False,
    ) -> Answer:
        """The answer that a body is."""
        dialect = GeminiInteractions(made_ids())
        decoder = dialect.decoder(provider="google", limits=limits, include_raw=include_raw)
        return read_answer(decoder, body, cuts, provider="google")

    def answer(self, *events: Any, **options: Any) -> Answer:
        return self.read(self.body(*events), **options)

    def steps(self, *events: Any, status: str = "completed") -> Answer:
        """The answer of these steps."""
        return self.answer(*events, self.completed(status))


@pytest.fixture(scope="session")
def wire() -> Wire:
    return Wire()


@pytest.fixture(scope="session", params=sorted(p.stem for p in RECORDINGS.glob("*.sse")))
def recording(request: pytest.FixtureRequest) -> Path:
    """A body made by hand in the vendor's format; beside it, what it means, one event a line."""
    return RECORDINGS / f"{request.param}.sse"
