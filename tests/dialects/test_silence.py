"""Bytes that hold no event are no progress: a flood of them ends the answer, whatever the deadlines."""

from __future__ import annotations

import pytest

from llmstream.dialects.anthropic import Anthropic
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.cohere import Cohere
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.ollama import Ollama
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.errors import LimitExceeded
from llmstream.grammar import check

SSE = [OpenAIChat(), OpenAIResponses(), Anthropic(), Cohere()]
LIMITS = StreamLimits(max_event_bytes=100_000)
FLOODS = [
    *[
        (dialect, flood)
        for dialect in SSE
        for flood in (b": ping\n\n", b":\n", b"data:\n\n", b"data:    \n\n", b"\n", b"event: x\n\n")
    ],
    (Ollama(), b"\n"),
    (Ollama(), b" \r\n"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("dialect", "flood"), FLOODS)
def test_flood_without_events_ends_stream(dialect, flood) -> None:
    sentence = GuardedDecoder(dialect.decoder(provider="p", limits=LIMITS), provider="p")
    events, fed = sentence.start(), 0
    piece = flood * (32_768 // len(flood))
    while not sentence.done and fed < 10_000_000:
        events += sentence.feed(piece)
        fed += len(piece)
    assert isinstance(sentence.error, LimitExceeded)
    assert fed < 2_000_000
    assert check(events) == []


def test_events_reset_the_count_of_pings() -> None:
    sentence = GuardedDecoder(OpenAIChat().decoder(provider="p", limits=LIMITS), provider="p")
    chunk = b'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n'
    sentence.start()
    for _ in range(50):
        sentence.feed(b": ping\n\n" * 16_000)
        sentence.feed(chunk)
    assert sentence.error is None


def test_event_as_long_as_the_limit_is_read() -> None:
    sentence = GuardedDecoder(
        OpenAIChat().decoder(provider="p", limits=StreamLimits(max_event_bytes=4_000_000)), provider="p"
    )
    chunk = b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % (b"a" * 3_900_000)
    sentence.start()
    events = [
        event for at in range(0, len(chunk), 32_768) for event in sentence.feed(chunk[at : at + 32_768])
    ]
    assert sentence.error is None
    assert sum(len(getattr(event, "delta", "")) for event in events) == 3_900_000
