"""Bodies of the Responses wire, written event by event, and the events they give."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.events import (
    Event,
    ToolInputDelta,
)
from tests.dialects.reading import Answer, read_answer

RECORDINGS = Path(__file__).parent / "recordings"


class Wire:
    """Writes bodies and reads them."""

    def body(self, *events: Any, end: str | None = "completed", **response: Any) -> bytes:
        """Events as a body; a string is the delta of an open text, bytes go as they are."""
        out = [{"type": "response.created", "response": {"id": "resp_1", "model": "m"}}, *events]
        if end is not None:
            out.append({"type": f"response.{end}", "response": {"status": end, **response}})
        pieces = []
        for event in out:
            if isinstance(event, str):
                event = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0} | {
                    "delta": event
                }
            pieces.append(
                event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode() + b"\n\n"
            )
        return b"".join(pieces)

    def added(self, place: int, **item: Any) -> dict[str, Any]:
        return {"type": "response.output_item.added", "output_index": place, "item": item}

    def done(self, place: int, **item: Any) -> dict[str, Any]:
        return {"type": "response.output_item.done", "output_index": place, "item": item}

    def on(self, place: int, kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}", "output_index": place, **fields}

    def message(self, place: int, *deltas: str, item_id: str = "msg_1") -> list[dict[str, Any]]:
        item = {"id": item_id, "type": "message", "role": "assistant"}
        text = [{"type": "output_text", "text": "".join(deltas), "annotations": []}]
        return [
            self.added(place, **item, content=[]),
            *(self.on(place, "output_text.delta", content_index=0, delta=delta) for delta in deltas),
            self.done(place, **item, content=text),
        ]

    def function(self, place: int, *deltas: str, name: str = "look", n: int = 1) -> list[dict[str, Any]]:
        item = {"id": f"fc_{n}", "type": "function_call", "call_id": f"call_{n}", "name": name}
        return [
            self.added(place, **item, arguments=""),
            *(self.on(place, "function_call_arguments.delta", delta=delta) for delta in deltas),
            self.done(place, **item, arguments="".join(deltas), status="completed"),
        ]

    def read(
        self,
        body: bytes,
        *,
        cuts: Iterable[int] = (),
        provider: str = "openai",
        limits: StreamLimits = StreamLimits(),
        include_raw: bool = False,
    ) -> Answer:
        """The answer that a body is."""
        decoder = OpenAIResponses().decoder(provider=provider, limits=limits, include_raw=include_raw)
        return read_answer(decoder, body, cuts, provider=provider)

    def answer(self, *events: Any, end: str | None = "completed", **options: Any) -> Answer:
        named = {k: options.pop(k) for k in ("provider", "limits", "include_raw") if k in options}
        return self.read(self.body(*events, end=end, **options), **named)

    def merged(self, events: list[Event]) -> list[Event]:
        """The same events with neighbouring fragments of one input joined."""
        out: list[Event] = []
        for event in events:
            last = out[-1] if out else None
            if type(event) is ToolInputDelta and type(last) is ToolInputDelta and last.id == event.id:
                out[-1] = ToolInputDelta(last.delta + event.delta, event.id)
            else:
                out.append(event)
        return out


@pytest.fixture(scope="session")
def wire() -> Wire:
    return Wire()


@pytest.fixture(scope="session", params=sorted(path.stem for path in RECORDINGS.glob("*.sse")))
def recording(request: pytest.FixtureRequest) -> Path:
    """A body made by hand in the vendor's format; beside it, what it means, one event a line."""
    return RECORDINGS / f"{request.param}.sse"
