"""Bodies of this wire, written chunk by chunk, and the events they give."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from tests.dialects.reading import Answer, made_ids, read_answer

DONE = b"data: [DONE]\n\n"


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
        """The answer that a body is. Calls without an id are called made-1 and so on."""
        dialect = OpenAIChat(quirks, new_call_id=made_ids())
        decoder = dialect.decoder(provider=provider, limits=limits, include_raw=include_raw)
        return read_answer(decoder, body, cuts, provider=provider)

    def answer(self, *chunks: Any, done: bool = True, quirks: Quirks = Quirks(), **options: Any) -> Answer:
        return self.read(self.body(*chunks, done=done), quirks, **options)


@pytest.fixture(scope="session")
def wire() -> Wire:
    return Wire()


@pytest.fixture(scope="session")
def recordings() -> dict[str, bytes]:
    folder = Path(__file__).parent / "recordings"
    return {path.stem: path.read_bytes() for path in sorted(folder.glob("*.sse"))}
