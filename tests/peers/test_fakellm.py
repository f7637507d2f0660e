"""fakellm, a mock server for the APIs of OpenAI and Anthropic, is understood."""

from __future__ import annotations

import json

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.endpoint_check import check_endpoint

TEXT = "Hello  there — 你好!\nHow can I help? 🙂"


def weather(city: str, unit: str = "°C") -> str:
    """Weather of a city."""
    return f"7 degrees {unit} in {city}"


@pytest.fixture(params=["openai", "anthropic"])
def model(request: pytest.FixtureRequest, fakellm: str) -> ls.Model:
    path = {"openai": "/v1", "anthropic": ""}[request.param]
    return at(fakellm + path, request.param, conversation=request.node.name)


def at(base_url: str, provider: str, conversation: str = "none") -> ls.Model:
    """conversation: fakellm remembers tool results by it; else by the first message"""
    headers = {"x-fakellm-conversation-id": conversation}
    return ls.Model(f"{provider}:some-model", base_url=base_url, api_key="not-used", headers=headers)


async def test_text_is_what_it_says(model, read) -> None:
    answer = await read(model, "greet me")
    assert answer.error is None
    assert answer.text == TEXT
    assert len(answer.all(ls.TextStart)) == len(answer.all(ls.TextEnd)) == 1
    assert answer.events[-1].finish_reason == "stop"
    assert answer.all(ls.ResponseMetadata)[0].model_id == "some-model"


async def test_calls_come_with_their_input(model, read) -> None:
    answer = await read(model, "two cities", tools=[weather])
    assert answer.error is None
    calls = answer.all(ls.ToolCall)
    assert [(c.tool_name, json.loads(c.input)) for c in calls] == [
        ("weather", {"city": "Oslo"}),
        ("weather", {"city": "Rome"}),
    ]
    assert len({c.tool_call_id for c in calls}) == 2
    assert len(answer.all(ls.ToolInputDelta)) > 2
    assert answer.events[-1].finish_reason == "tool-calls"


async def test_conversation_continues_after_tool(model) -> None:
    async with model.stream("how warm is it?", tools=[weather]) as stream:
        first = [event async for event in stream]
        statuses = await stream.call_tools()
        second = [event async for event in stream]
        assert await stream.call_tools() == []
    assert [status.result.content for status in statuses] == ["7 degrees °C in Oslo"]
    assert stream.text == "It is 7 degrees in Oslo."
    assert grammar.check(first) == grammar.check(second) == []


async def test_usage_is_what_the_wire_says(fakellm, read) -> None:
    usage = (await read(at(fakellm, "anthropic"), "greet me")).events[-1].usage
    assert (usage.input_tokens, usage.output_tokens) == (1, len(TEXT) // 4)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_unknown_path_is_not_found(fakellm, read, provider) -> None:
    answer = await read(at(f"{fakellm}/elsewhere", provider), "greet me")
    assert isinstance(answer.error, ls.NotFound)
    assert answer.error.status == 404
    assert "Not Found" in answer.error.message
    assert [type(e) for e in answer.events] == [ls.StreamStart, ls.ErrorEvent, ls.Finish]


async def test_check_names_its_defects(fakellm) -> None:
    model = at(fakellm + "/v1", "openai")
    report = await check_endpoint(model, only=["text", "end", "usage", "tool-required", "bad-request"])
    found = {finding.probe: (finding.status, finding.detail) for finding in report.findings}
    assert found["text"][0] == found["end"][0] == "ok"
    assert found["usage"] == ("degraded", "no usage: input_tokens and output_tokens not reported")
    assert found["tool-required"] == ("broken", "tool_choice (required) is ignored")
    assert found["bad-request"][1] == ("a malformed request gets 500 (ServerError), as plain text, not JSON")
