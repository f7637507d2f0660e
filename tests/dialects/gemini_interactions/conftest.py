"""Bodies of this wire, written event by event, and the events they give."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from llmstream import grammar
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.gemini_interactions import GeminiInteractions
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
        """The whole sentence, which has to be one."""
        numbers = itertools.count(1)
        dialect = GeminiInteractions(lambda: f"made-{next(numbers)}")
        decoder = dialect.decoder(provider="google", limits=limits, include_raw=include_raw)
        sentence = GuardedDecoder(decoder, provider="google")
        events = sentence.start()
        for start, end in itertools.pairwise([0, *cuts, len(body)]):
            events = events + sentence.feed(body[start:end])
        events = events + sentence.close()
        assert grammar.check(events) == []
        return Answer(events, sentence.error)

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
