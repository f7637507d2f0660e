"""Two wires, spoken by hand, and a way to ask a server that misbehaves."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

import pytest

import llmstream as ls
from llmstream.grammar import check
from llmstream.testing import FaultServer, no_leaks

KEY = "sk-canary-0123456789abcdef"
QUICK = ls.Deadlines(connect_s=2.0, first_event_s=0.4, idle_s=0.4, step_s=4.0, total_s=4.0)
ONCE = ls.Retry(max_retries=0)


def sse(value: object, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(value).encode() + b"\n\n"


@dataclasses.dataclass(frozen=True)
class Wire:
    """What one vendor would say."""

    provider: str
    opening: bytes
    closing: bytes
    error: bytes

    def text(self, text: str) -> bytes:
        if self.provider == "openai":
            return sse({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]})
        delta = {"type": "text_delta", "text": text}
        return sse({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")

    def tool(self, arguments: str, *, index: int = 1, call_id: str = "t1", stop: bool = True) -> bytes:
        if self.provider == "openai":
            call = {"index": index, "id": call_id, "function": {"name": "look", "arguments": arguments}}
            return sse({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
        block = {"type": "tool_use", "id": call_id, "name": "look", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": arguments}
        parts = [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
        ]
        parts += [{"type": "content_block_stop", "index": index}] if stop else []
        return b"".join(sse(part) for part in parts)

    def ending(self, reason: str) -> bytes:
        if self.provider == "openai":
            return (
                sse({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}) + b"data: [DONE]\n\n"
            )
        name = {"tool_calls": "tool_use", "length": "max_tokens"}.get(reason, "end_turn")
        last = sse({"type": "message_delta", "delta": {"stop_reason": name}, "usage": {"output_tokens": 2}})
        return last + sse({"type": "message_stop"})

    @property
    def half(self) -> bytes:
        """The beginning of an answer: "Hel"."""
        return self.opening + self.text("Hel")

    @property
    def rest(self) -> bytes:
        """What makes it whole: "lo"."""
        return self.text("lo") + self.closing

    @property
    def whole(self) -> bytes:
        return self.half + self.rest


_START = {"type": "message_start", "message": {"id": "m1", "model": "m", "usage": {"input_tokens": 3}}}
_BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
_BAD = {"error": {"type": "overloaded_error", "code": "overloaded_error", "message": "Overloaded"}}
OPENAI = Wire("openai", b"", b"", sse(_BAD))
OPENAI = dataclasses.replace(OPENAI, closing=OPENAI.ending("stop"))
ANTHROPIC = Wire("anthropic", sse(_START) + sse(_BLOCK), b"", sse({"type": "error", **_BAD}, "error"))
ANTHROPIC = dataclasses.replace(
    ANTHROPIC, closing=sse({"type": "content_block_stop", "index": 0}) + ANTHROPIC.ending("stop")
)


@pytest.fixture(params=[OPENAI, ANTHROPIC], ids=lambda wire: wire.provider)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@dataclasses.dataclass
class Outcome:
    """What came of asking."""

    text: str
    error: ls.LLMStreamError | None
    seconds: float
    events: list[Any]
    server: FaultServer
    message: ls.Message


class Asker:
    key = KEY
    quick = QUICK

    def model(self, wire: Wire, server: FaultServer | str, **options: Any) -> ls.Model:
        url = server if isinstance(server, str) else server.url
        options = {"api_key": KEY, "deadlines": QUICK, "retry": ONCE, **options}
        return ls.Model(f"{wire.provider}:m", base_url=url, **options)

    async def __call__(self, wire: Wire, *scripts: Any, prompt: str = "Hi", **options: Any) -> Outcome:
        """Asks a server that plays the scripts; checks the sentence, `.partial` and that nothing leaks."""
        error = None
        events: list[Any] = []
        async with FaultServer(*scripts) as server, no_leaks():
            begun = time.monotonic()
            async with self.model(wire, server, **options).stream(prompt) as stream:
                try:
                    async for event in stream:
                        events.append(event)
                except ls.LLMStreamError as caught:
                    error = caught
            seconds = time.monotonic() - begun
            await server.left()
        assert check(events) == []
        if error is not None:
            assert error.partial is not None
            assert error.partial.text_content == stream.text
        return Outcome(stream.text, error, seconds, events, server, stream.message)


@pytest.fixture
def ask() -> Asker:
    return Asker()
