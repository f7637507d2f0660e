"""Bodies of this wire, written chunk by chunk, and the events they give."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from llmstream import grammar
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.gemini import Gemini
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)

RECORDINGS = Path(__file__).parent / "recordings"


class Answer:
    """The events of one body, and what they say."""

    def __init__(self, events: list[Event], error: Exception | None) -> None:
        self.events = events
        self.error = error

    def of(self, *kinds: type[Any]) -> list[Any]:
        return [event for event in self.events if type(event) in kinds]

    @property
    def text(self) -> str:
        return "".join(event.delta for event in self.of(TextDelta))

    @property
    def reasoning(self) -> str:
        return "".join(event.delta for event in self.of(ReasoningDelta))

    @property
    def calls(self) -> list[tuple[str, str]]:
        return [(call.tool_name, call.input) for call in self.of(ToolCall)]

    @property
    def finish(self) -> Finish:
        (finish,) = self.of(Finish)
        return finish

    @property
    def errors(self) -> list[str]:
        return [event.error.code for event in self.of(ErrorEvent)]

    @property
    def kinds(self) -> list[str]:
        return [event.__struct_config__.tag for event in self.events]


class Wire:
    """Writes bodies and reads them. Calls without an id are called made-1 and so on."""

    def dialect(self, **options: Any) -> Gemini:
        numbers = itertools.count(1)
        return Gemini(new_call_id=lambda: f"made-{next(numbers)}", **options)

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
        """The whole sentence, which has to be one."""
        decoder = self.dialect().decoder(provider="google", limits=limits, include_raw=include_raw)
        sentence = GuardedDecoder(decoder, provider="google")
        events = sentence.start()
        for start, end in itertools.pairwise([0, *cuts, len(body)]):
            events = events + sentence.feed(body[start:end])
        events = events + sentence.close()
        assert grammar.check(events) == []
        return Answer(events, sentence.error)

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
