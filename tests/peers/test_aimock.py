"""aimock, a mock server of many vendors' APIs that runs on Node.js, is understood."""

from __future__ import annotations

import json

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.endpoint_check import check_endpoint

TEXT = "Hello  there — 你好!\nHow can I help? 🙂"
ONCE = ls.Retry(max_retries=0)
TRUNCATED = "This answer never comes to the end that it was meant to have."
GOOGLE_CLOUD = "/v1/projects/some-project/locations/global/publishers/google"
PATHS = {
    "anthropic": "",
    "azure": "/openai/deployments/some-model",
    "azure-responses": "/openai/v1",
    "bedrock": "",
    "bedrock-invoke": "",
    "cohere": "",
    "google": "/v1beta",
    "google-interactions": "/v1beta",
    "mistral": "",
    "ollama": "",
    "openai": "/v1",
    "openai-responses": "/v1",
    "vertex": GOOGLE_CLOUD,
}
"""The address of each provider behind the server's; Mistral's path is that of Chat Completions."""

NAMELESS = {"bedrock", "cohere", "google", "google-interactions", "vertex"}
"""Providers whose wire, as the server speaks it, does not say which model answers."""

SILENT = {"cohere", "google-interactions", "ollama"}
"""Providers for whom the server says reasoning as text, under a name of its own, or not at all."""

TOLD = {"bedrock-invoke": (11, 0, 11), "mistral": (None, None, None), "ollama": (0, 0, 0)}
"""What the server says of tokens where it is not what stands in its script."""


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
    names = {metadata.model_id for metadata in answer.all(ls.ResponseMetadata)} - {None}
    assert names == (set() if model.provider.name in NAMELESS else {"some-model"})


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


async def test_conversation_continues_after_tool(model) -> None:
    async with model.stream("how warm is it?", tools=[weather]) as stream:
        first = [event async for event in stream]
        statuses = await stream.call_tools()
        second = [event async for event in stream]
        assert await stream.call_tools() == []
    assert [status.result.content for status in statuses] == ["7 degrees °C in Oslo"]
    assert stream.text == "It is 7 degrees in Oslo."
    assert grammar.check(first) == grammar.check(second) == []


async def test_usage_is_what_the_wire_says(model, read) -> None:
    usage = (await read(model, "greet me")).events[-1].usage
    counts = TOLD.get(model.provider.name, (11, 7, 18))
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == counts


@pytest.mark.parametrize("provider", sorted(set(PATHS) - SILENT))
async def test_reasoning_comes_before_text(aimock, read, provider) -> None:
    answer = await read(at(aimock, provider), "think first")
    assert answer.error is None
    assert "".join(e.delta for e in answer.all(ls.ReasoningDelta)) == "Two and two, hm."
    assert answer.text == "Four."
    kinds = [type(e) for e in answer.events]
    assert kinds.index(ls.ReasoningEnd) < kinds.index(ls.TextStart)


async def test_reasoning_metadata_is_preserved(aimock, read) -> None:
    answer = await read(at(aimock, "openai-responses"), "think first")
    (end,) = answer.all(ls.ReasoningEnd)
    assert end.provider_metadata["openai"]["encrypted_content"]
    answer = await read(at(aimock, "anthropic"), "think first")
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
    assert [type(e) for e in answer.events] == [ls.StreamStart, ls.ErrorEvent, ls.Finish]


async def test_broken_response_is_no_quiet_finish(model, read) -> None:
    answer = await read(model, "break off")
    assert isinstance(answer.error, ls.ConnectionLost | ls.IncompleteStream)
    assert answer.text
    assert TRUNCATED.startswith(answer.text)
    assert answer.text != TRUNCATED
    assert answer.all(ls.TextEnd)[0].incomplete
    assert answer.events[-1].finish_reason == "error"


async def test_what_no_fixture_answers_is_an_error(model, read) -> None:
    answer = await read(model, "something else")
    assert isinstance(answer.error, ls.Overloaded)
    assert "no fixture matched" in answer.error.message


async def test_check_names_what_it_ignores(model) -> None:
    """It plays what its script says, whatever a request asks for."""
    provider = model.provider.name
    report = await check_endpoint(model, only=["text", "end", "streaming", "stop", "length"])
    statuses = {finding.probe: finding.status for finding in report.findings}
    assert statuses["text"] == statuses["end"] == statuses["streaming"] == "ok", report.findings
    assert statuses["stop"] == ("unsupported" if "responses" in provider else "broken")
    assert statuses["length"] == "broken"
