"""A setting that a model refuses: asked for once more without it, and remembered; over real HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.events import UnsupportedSetting
from llmstream.streams import attempts
from tests.streams.sse_server import HELLO, answer

TEMPERATURE = "Unsupported parameter: 'temperature' is not supported with this model."


@pytest.fixture(autouse=True)
def forgotten():
    attempts.forget()
    yield
    attempts.forget()


@contextlib.asynccontextmanager
async def strict_server(refusals: dict[str, str]) -> AsyncIterator[tuple[str, list[dict]]]:
    """A server that refuses fields by name, in these words, and what it was asked."""
    asked: list[dict] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        asked.append(body)
        for name, words in refusals.items():
            if name in body:
                error = {"message": words, "param": name, "type": "invalid_request_error", "code": None}
                return web.json_response({"error": error}, status=400)
        return await answer(request, HELLO)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1", asked
    finally:
        await runner.cleanup()


async def test_refused_setting_is_dropped_for_good():
    """The request is sent once more without it."""
    async with strict_server({"temperature": TEMPERATURE}) as (url, asked):
        model = ls.Model("openai:m1", base_url=url, api_key="k")
        stream = model.stream("Hi", temperature=0.5, max_output_tokens=9, retry=ls.Retry(max_retries=0))
        first = [event async for event in stream]
        assert (stream.text, ls.grammar.check(first)) == ("Hello", [])
        assert [w.setting for w in first[0].warnings] == ["temperature"]
        assert TEMPERATURE in first[0].warnings[0].details
        assert ["temperature" in body for body in asked] == [True, False]
        assert all(body["max_completion_tokens"] == 9 for body in asked)
        second = [
            event
            async for event in ls.Model("openai:m1", base_url=url, api_key="k").stream("Hi", temperature=1)
        ]
        assert ["temperature" in body for body in asked] == [True, False, False]
        assert isinstance(second[0].warnings[0], UnsupportedSetting)
        other = ls.Model("openai:m2", base_url=url, api_key="k")
        await other.stream("Hi", temperature=1).collect()
        assert len(asked) == 5  # another model may take it


async def test_several_settings_dropped_in_turn():
    words = {"temperature": TEMPERATURE, "reasoning_effort": "Unknown parameter: 'reasoning_effort'."}
    async with strict_server(words) as (url, asked):
        model = ls.Model("openai:m1", base_url=url, api_key="k")
        events = [e async for e in model.stream("Hi", temperature=0.5, reasoning="high")]
    assert len(asked) == 3
    assert [w.setting for w in events[0].warnings] == ["temperature", "reasoning.effort"]


async def test_nothing_adapts_when_switched_off():
    async with strict_server({"temperature": TEMPERATURE}) as (url, asked):
        model = ls.Model("openai:m1", base_url=url, api_key="k")
        with pytest.raises(ls.BadRequest, match="temperature"):
            await model.stream("Hi", temperature=0.5, adapt=False).collect()
        assert len(asked) == 1


@pytest.mark.parametrize("name", ["messages", "tools", "max_completion_tokens", "response_format", "stop"])
async def test_what_is_no_hint_is_never_left_out(name):
    async with strict_server({name: f"Unsupported parameter: '{name}' is not supported."}) as (url, asked):
        model = ls.Model("openai:m1", base_url=url, api_key="k")
        with pytest.raises(ls.BadRequest):
            await model.stream(
                "Hi",
                tools=[ls.ToolSpec("t", "T.", {"type": "object"})],
                stop=["x"],
                max_output_tokens=9,
                output="json",
                adapt=True,
            ).collect()
        assert len(asked) == 1


async def test_persistent_refusal_is_not_cached():
    """Without the setting the request is refused for another reason: the setting was not to blame."""
    words = {"temperature": TEMPERATURE, "messages": "The conversation is not allowed."}
    async with strict_server(words) as (url, asked):
        model = ls.Model("openai:m1", base_url=url, api_key="k")
        with pytest.raises(ls.BadRequest, match="conversation"):
            await model.stream("Hi", temperature=0.5).collect()
        with pytest.raises(ls.BadRequest, match="conversation"):
            await model.stream("Hi", temperature=0.5).collect()
    assert ["temperature" in body for body in asked] == [True, False, True, False]
