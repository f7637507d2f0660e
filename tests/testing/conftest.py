"""A body to take apart, and a dialect whose decoder can be spoiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.errors import LLMStreamError
from llmstream.events import Event, Usage
from llmstream.server_side.wires import server_side

BODY = b"""\
data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}

data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"l\xc3\xb6 "}}]}

data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"you"}}]}

data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"c1","model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}

data: [DONE]

"""


class SpoiltDecoder:
    """The decoder of openai-chat with one of its steps replaced; the subclasses of tests say which."""

    def __init__(self, provider: str) -> None:
        self.inner = OpenAIChat().decoder(provider=provider)

    @property
    def usage(self) -> Usage:
        return self.inner.usage

    @property
    def complete(self) -> bool:
        return self.inner.complete

    @property
    def done(self) -> bool:
        return self.inner.done

    @property
    def failure(self) -> LLMStreamError | None:
        return self.inner.failure

    def feed(self, chunk: bytes) -> list[Event]:
        return self.inner.feed(chunk)

    def close(self) -> list[Event]:
        return self.inner.close()


class Spoilt:
    """The dialect openai-chat with another decoder or encoder."""

    name = "spoilt"
    content_type = "text/event-stream"

    def __init__(self, decoder: Callable[[str], Any] = SpoiltDecoder, encoder: Any = None) -> None:
        self._decoder = decoder
        self.event_encoder = encoder or server_side(OpenAIChat()).event_encoder

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> Any:
        return self._decoder(provider)


@pytest.fixture(scope="session")
def body() -> bytes:
    """One answer of openai-chat: "Hellö you"."""
    return BODY


@pytest.fixture(scope="session")
def spoilt() -> type[Spoilt]:
    return Spoilt


@pytest.fixture(scope="session")
def decoder_class() -> type[SpoiltDecoder]:
    return SpoiltDecoder
