"""Token counts: what is believed of them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from aiohttp import web

import llmstream as ls
from llmstream.transport.limiter import RateLimiter
from llmstream.transport.pacing import Pacer
from llmstream.usage import MOST_TOKENS, Usage

COUNTS = [name for name in Usage.__struct_fields__ if name != "raw"]


@pytest.mark.parametrize("count", [-1, -(10**9), 2**53 + 1, 10**400, float("nan"), float("inf")])
@pytest.mark.parametrize("name", COUNTS)
def test_a_count_that_cannot_be_is_none(name: str, count: Any) -> None:
    usage = Usage(**{**dict.fromkeys(COUNTS, 3), name: count, "raw": {"n": count}})
    assert getattr(usage, name) is None
    assert [getattr(usage, other) for other in COUNTS if other != name] == [3] * 5
    assert usage.raw == {"n": count}


@pytest.mark.parametrize("count", [0, 1, MOST_TOKENS])
def test_every_other_count_stays(count: int) -> None:
    assert Usage(input_tokens=count).input_tokens == count


def test_sum_is_capped_at_largest_count() -> None:
    assert (Usage(MOST_TOKENS) + Usage(MOST_TOKENS)).input_tokens == MOST_TOKENS


def test_impossible_saved_count_is_none() -> None:
    assert msgspec.json.decode(b'{"inputTokens":-5,"outputTokens":7}', type=Usage) == Usage(None, 7)


CHUNK = {"id": "1", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
BODIES = {
    "openai": lambda n: sse(
        {**CHUNK, "usage": {"prompt_tokens": n, "completion_tokens": n, "total_tokens": n}}
    ),
    "anthropic": lambda n: sse(
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": n, "output_tokens": n}}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": n}},
        {"type": "message_stop"},
    ),
    "google": lambda n: sse(
        {
            "candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": n, "candidatesTokenCount": n, "totalTokenCount": n},
        }
    ),
    "mistral": lambda n: sse({**CHUNK, "usage": {"prompt_tokens": n, "completion_tokens": n}}),
    "openai-responses": lambda n: sse(
        {
            "type": "response.completed",
            "response": {
                "id": "r",
                "status": "completed",
                "output": [],
                "usage": {"input_tokens": n, "output_tokens": n, "total_tokens": n},
            },
        }
    ),
    "cohere": lambda n: sse(
        {"type": "message-start", "id": "1"},
        {
            "type": "message-end",
            "delta": {
                "finish_reason": "COMPLETE",
                "usage": {"tokens": {"input_tokens": n, "output_tokens": n}},
            },
        },
    ),
    "ollama": lambda n: (
        json.dumps(
            {
                "model": "m",
                "message": {"role": "assistant", "content": "hi"},
                "done": True,
                "done_reason": "stop",
                "prompt_eval_count": n,
                "eval_count": n,
            }
        ).encode()
        + b"\n"
    ),
}


def sse(*payloads: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads)


async def model(serve: Any, provider: str, body: bytes, **options: Any) -> ls.Model:
    kind = "application/x-ndjson" if provider == "ollama" else "text/event-stream"

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind)

    return ls.Model(f"{provider}:m", base_url=await serve(answer), api_key="a-key", **options)


@pytest.mark.parametrize("count", [-(10**9), 10**18, 10**400])
@pytest.mark.parametrize("provider", BODIES)
async def test_no_wire_passes_impossible_count(serve: Any, provider: str, count: int) -> None:
    asked = await model(serve, provider, BODIES[provider](count))
    async with asked.stream("hi", errors="events") as stream:
        events = [event async for event in stream]
    assert ls.grammar.check(events) == []
    assert [getattr(stream.usage, name) for name in COUNTS if getattr(stream.usage, name) is not None] == []


async def test_one_wrong_count_stops_no_limiter(serve: Any) -> None:
    limiter = RateLimiter(tokens_per_minute=1_000_000)
    asked = await model(serve, "openai", BODIES["openai"](10**12), limiter=limiter)
    async with asked.stream("hi", settings=ls.Settings(max_output_tokens=5)) as stream:
        async for _ in stream:
            pass
    assert isinstance(limiter._pacer, Pacer)
    assert -1_000_000 <= limiter._pacer.levels[1] < 1_000_000  # a minute pays the debt
