"""aimock, a mock server of many vendors' APIs that runs on Node.js, is understood."""

from __future__ import annotations

import json

import pytest

import llmstream as ls
from llmstream import grammar

TEXT = "Hello  there — 你好!\nHow can I help? 🙂"
ONCE = ls.Retry(max_retries=0)
PATHS = {"openai": "/v1", "anthropic": "", "ollama": ""}


def weather(city: str, unit: str = "°C") -> str:
    """Weather of a city."""
    return f"7 degrees {unit} in {city}"


@pytest.fixture(params=sorted(PATHS))
def model(request: pytest.FixtureRequest, aimock: str) -> ls.Model:
    return at(aimock, request.param)


def at(aimock: str, provider: str, name: str = "some-model") -> ls.Model:
    return ls.Model(f"{provider}:{name}", base_url=aimock + PATHS[provider], api_key="not-used", retry=ONCE)


async def test_text_is_what_it_says(model, read) -> None:
    answer = await read(model, "greet me")
    assert answer.error is None
    assert answer.text == TEXT
    assert len(answer.all(ls.TextDelta)) > 4
    assert len(answer.all(ls.TextStart)) == len(answer.all(ls.TextEnd)) == 1
    assert answer.events[-1].finish_reason == "stop"
    assert answer.all(ls.ResponseMetadata)[0].model_id == "some-model"


async def test_calls_come_with_their_input(model, read) -> None:
    answer = await read(model, "two cities", tools=[weather])
    assert answer.error is None
    calls = answer.all(ls.ToolCall)
    assert [(c.tool_name, json.loads(c.input)) for c in calls] == [
        ("weather", {"city": "Oslo", "unit": "°C"}),
        ("weather", {"city": "Rome"}),
    ]
    assert len({c.tool_call_id for c in calls}) == 2
    assert answer.events[-1].finish_reason == "tool-calls"


async def test_a_conversation_goes_on_after_its_tool(model) -> None:
    async with model.stream("how warm is it?", tools=[weather]) as stream:
        first = [event async for event in stream]
        statuses = await stream.call_tools()
        second = [event async for event in stream]
        assert await stream.call_tools() == []
    assert [status.result.content for status in statuses] == ["7 degrees °C in Oslo"]
    assert stream.text == "It is 7 degrees in Oslo."
    assert grammar.check(first) == grammar.check(second) == []


@pytest.mark.parametrize(
    ("provider", "counts"), [("openai", (11, 7, 18)), ("anthropic", (11, 7, 18)), ("ollama", (0, 0, 0))]
)
async def test_usage_is_what_the_wire_says(aimock, read, provider, counts) -> None:
    usage = (await read(at(aimock, provider), "greet me")).events[-1].usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == counts


async def test_reasoning_comes_before_text(aimock, read) -> None:
    answer = await read(at(aimock, "anthropic"), "think first")
    assert "".join(e.delta for e in answer.all(ls.ReasoningDelta)) == "Two and two, hm."
    assert answer.text == "Four."
    signatures = [e.provider_metadata for e in answer.all(ls.ReasoningEnd)]
    assert signatures == [{"anthropic": {"signature": "aimock-placeholder-signature"}}]


async def test_a_refusal_is_a_typed_error(model, read) -> None:
    answer = await read(model, "slow down")
    assert isinstance(answer.error, ls.RateLimited)
    assert answer.error.status == 429
    assert answer.error.retryable
    assert answer.error.retry_after_s == 1
    assert answer.error.request_id
    assert "Too many requests for this key" in answer.error.message
    assert [type(e) for e in answer.events] == [ls.StreamStart, ls.Error, ls.Finish]


async def test_an_answer_that_breaks_off_is_no_quiet_finish(model, read) -> None:
    answer = await read(model, "break off")
    assert isinstance(answer.error, ls.ConnectionLost | ls.IncompleteStream)
    assert answer.text
    assert "This answer never comes to the end".startswith(answer.text)
    assert answer.all(ls.TextEnd)[0].incomplete
    assert answer.events[-1].finish_reason == "error"


async def test_what_no_fixture_answers_is_an_error(model, read) -> None:
    answer = await read(model, "something else")
    assert isinstance(answer.error, ls.Overloaded)
    assert "no fixture matched" in answer.error.message
