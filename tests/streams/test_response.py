"""Who answered, what was dropped on the way, and what it cost: there after any way of reading."""

from __future__ import annotations

import logging

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.events import UnsupportedSetting
from llmstream.middleware import cache, fallback, wrap
from llmstream.streams.observations import forget_logged
from llmstream.testing import ScriptedModel

LIMITS = {
    "x-ratelimit-remaining-requests": "59",
    "retry-after": "1",
    "set-cookie": "no",
    "x-request-id": "req-7",
}
BODY = (
    b'data: {"id":"chat-1","created":1767225600,"model":"gpt-x-2026","choices":[{"index":0,"delta":'
    b'{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
    b"data: [DONE]\n\n"
)


@pytest.fixture(autouse=True)
def nothing_logged() -> None:
    forget_logged()


async def answer(request: web.Request) -> web.Response:
    return web.Response(body=BODY, headers={"content-type": "text/event-stream", **LIMITS})


async def busy(request: web.Request) -> web.Response:
    return web.json_response({"error": {"message": "busy"}}, status=503, headers={"x-request-id": "req-busy"})


async def model(serve, handler=answer, name: str = "openai-chat:gpt-x") -> ls.Model:
    return ls.Model(name, base_url=await serve(handler), api_key="k", retry=ls.Retry(max_retries=0))


async def test_collected_stream_names_its_model(serve) -> None:
    stream = ls.stream(await model(serve), "Hello")
    assert (stream.response.provider, stream.response.model, stream.response.id) == (
        "openai-chat",
        "gpt-x",
        None,
    )
    message = await stream.collect()
    response = stream.response
    assert (response.id, response.model_id, response.request_id) == ("chat-1", "gpt-x-2026", "req-7")
    assert response.timestamp is not None
    assert response.timestamp.year == 2026
    assert response.headers == {"x-ratelimit-remaining-requests": "59", "retry-after": "1"}
    said = {"provider": "openai-chat", "model": "gpt-x", "id": "chat-1", "request_id": "req-7"}
    assert message.metadata == {"llmstream": said}
    assert stream.messages()[-1].metadata == {"llmstream": said}


async def test_failed_stream_names_its_request(serve) -> None:
    stream = ls.stream(await model(serve, busy), "Hello", errors="events")
    await stream.collect()
    assert stream.response.request_id == "req-busy"


async def test_fallback_model_is_named_and_priced(serve) -> None:
    first, second = await model(serve, busy), await model(serve, answer, "groq:llama")
    stream = ls.stream(wrap(first, fallback(second)), "Hello")
    message = await stream.collect()
    assert (stream.response.provider, stream.response.model) == ("groq", "llama")
    assert message.metadata is not None
    assert message.metadata["llmstream"]["provider"] == "groq"
    assert stream.response.request_id == "req-7"
    asked = []
    assert stream.cost(lambda name, usage: asked.append((name, usage.input_tokens)) or 0.5) == 0.5
    assert asked == [("groq:llama", 3)]


async def test_dropped_content_stays_after_collect() -> None:
    """It stays on a run too."""
    dropped = UnsupportedSetting("seed")
    stream = ls.stream("sim-anthropic:demo", "Hello", seed=7)
    await stream.collect()
    assert stream.warnings == [dropped]
    async with ls.Agent("sim-anthropic:demo", seed=7).stream("Hello") as run:
        await run.collect()
    assert run.warnings == [dropped]
    assert run.response is not None
    assert run.response.provider == "sim-anthropic"
    assert run.total_usage.total_tokens == run.usage.total_tokens
    assert run.message.metadata is not None
    assert run.message.metadata["llmstream"]["id"] == run.response.id


async def test_drop_is_logged_once_per_model_place(caplog) -> None:
    for _ in range(3):
        await ls.stream("sim-anthropic:demo", "Hello", seed=7).collect()
    await ls.stream("sim-anthropic:demo", "Hello", seed=7).collect()
    found = [r for r in caplog.records if r.name == "llmstream" and r.levelno == logging.WARNING]
    assert len(found) == 2
    assert found[0].getMessage().startswith("sim-anthropic:demo: the option seed is not supported as given (")
    assert f"{__file__}:" in found[0].getMessage()


async def test_reasoning_is_separate_text() -> None:
    stream = ls.stream("sim:demo", "Hello", reasoning="low")
    seen = ""
    async for event in stream:
        if isinstance(event, ls.ReasoningDelta):
            seen += event.delta
        assert stream.reasoning == seen
    assert seen
    assert stream.message.reasoning == seen


async def test_stream_cost_sums_all_responses() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    async with ls.stream("sim:demo", "Look!", tools=[look]) as stream:
        await stream.collect()
        await stream.call_tools()
        await stream.collect()
    calls = []
    assert stream.cost(lambda name, usage: calls.append(usage.total_tokens) or 1.0) == 2.0
    assert sum(calls) == stream.total_usage.total_tokens
    assert stream.cost(lambda name, usage: None) is None


async def test_run_gives_text_deltas_and_its_cost() -> None:
    async with ls.Agent(ScriptedModel("Hello there")).stream("Hi") as run:
        assert "".join([text async for text in run.text_deltas()]) == "Hello there"
    assert run.cost(lambda name, usage: 2.0) == 2.0


async def test_response_ids_do_not_miss_the_cache(serve) -> None:
    """The ids of earlier responses are no part of the cache key."""
    kept: dict[str, bytes] = {}
    asked = []

    async def counted(request: web.Request) -> web.Response:
        asked.append(request)
        headers = {"content-type": "text/event-stream", "x-request-id": f"req-{len(asked)}"}
        return web.Response(body=BODY, headers=headers)

    plain = await model(serve, counted)
    for _ in range(2):
        first = ls.stream(plain, "Hello")
        await first.collect()
        await ls.stream(wrap(plain, cache(kept)), [*first.messages(), ls.Message.user("And?")]).collect()
    assert len(asked) == 3
