"""Bodies of this wire, written chunk by chunk, and the events they give."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.gemini import Gemini
from tests.dialects.reading import Answer, made_ids, read_answer

RECORDINGS = Path(__file__).parent / "recordings"


class Wire:
    """Writes bodies and reads them. Calls without an id are called made-1 and so on."""

    def dialect(self, **options: Any) -> Gemini:
        return Gemini(new_call_id=made_ids(), **options)

    def chunk(self, *parts: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
        """A chunk of parts; a string is text. What else is given stands beside the content."""
        pieces = [{"text": part} if isinstance(part, str) else part for part in parts]
        candidate: dict[str, Any] = {"index": 0, **more}
        if pieces:
            candidate["content"] = {"role": "model", "parts": pieces}
        if finish is not None:
            candidate["finishReason"] = finish
        return {"candidates": [candidate]}

    def body(self, *chunks: Any) -> bytes:
        """Chunks as SSE; a string is a chunk of one text, bytes go as they are."""
        out = []
        for one in chunks:
            if isinstance(one, str):
                one = self.chunk(one)
            out.append(one if isinstance(one, bytes) else b"data: %b\r\n\r\n" % json.dumps(one).encode())
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
        decoder = self.dialect().decoder(provider="google", limits=limits, include_raw=include_raw)
        return read_answer(decoder, body, cuts, provider="google")

    def answer(self, *chunks: Any, **options: Any) -> Answer:
        return self.read(self.body(*chunks), **options)

    def parts(self, *parts: Any, finish: str = "STOP") -> Answer:
        """The answer of one chunk."""
        return self.answer(self.chunk(*parts, finish=finish))


@pytest.fixture(scope="session")
def wire() -> Wire:
    return Wire()


@pytest.fixture(scope="session", params=sorted(p.stem for p in RECORDINGS.glob("*.sse")))
def recording(request: pytest.FixtureRequest) -> Path:
    """A body made by hand in the vendor's format; beside it, what it means, one event a line."""
    return RECORDINGS / f"{request.param}.sse"
