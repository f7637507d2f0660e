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
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)

DONE = b"data: [DONE]\n\n"


class Answer:
    """The events of one body, and what they say."""

    def __init__(self, events: list[Event], error: Exception | None) -> None:
        self.events = events
        self.error = error

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if type(event) is kind]

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
    def ids(self) -> list[str]:
        return [call.tool_call_id for call in self.of(ToolCall)]

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
    """Writes bodies and reads them."""

    def data(self, *values: Any) -> bytes:
        return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)

    def chunk(self, delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish}
        frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
        return {**frame, "choices": [choice], **more}

    def call(self, *fragments: Any, finish: str | None = None) -> dict[str, Any]:
        return self.chunk({"tool_calls": list(fragments)}, finish)

    def body(self, *chunks: Any, done: bool = True) -> bytes:
        """Chunks as a body; a string is a text delta, bytes go as they are."""
        out = []
        for one in chunks:
            if isinstance(one, str):
                one = self.chunk({"content": one})
            out.append(one if isinstance(one, bytes) else self.data(one))
        return b"".join(out) + (DONE if done else b"")

    def read(
        self,
        body: bytes,
        quirks: Quirks = Quirks(),
        *,
        cuts: Iterable[int] = (),
        provider: str = "acme",
        limits: StreamLimits = StreamLimits(),
        include_raw: bool = False,
    ) -> Answer:
        """The whole sentence, which has to be one. Calls without an id are called made-1 and so on."""
        numbers = itertools.count(1)
        dialect = OpenAIChat(quirks, new_call_id=lambda: f"made-{next(numbers)}")
        decoder = dialect.decoder(provider=provider, limits=limits, include_raw=include_raw)
        sentence = GuardedDecoder(decoder, provider=provider)
        events = sentence.start()
        edges = [0, *cuts, len(body)]
        for start, end in itertools.pairwise(edges):
            events += sentence.feed(body[start:end])
        events += sentence.close()
        assert grammar.check(events) == []
        return Answer(events, sentence.error)

    def answer(self, *chunks: Any, done: bool = True, quirks: Quirks = Quirks(), **options: Any) -> Answer:
        return self.read(self.body(*chunks, done=done), quirks, **options)


@pytest.fixture(scope="session")
def wire() -> Wire:
    return Wire()


@pytest.fixture(scope="session")
def recordings() -> dict[str, bytes]:
    folder = Path(__file__).parent / "recordings"
    return {path.stem: path.read_bytes() for path in sorted(folder.glob("*.sse"))}
