"""Anthropic's own Python clients for Claude on Bedrock and on Vertex AI are content with the simulator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmstream.dialects.anthropic import BEDROCK_INVOKE, VERTEX, Anthropic
from llmstream.events import Usage
from llmstream.simulator import Break, Call, Refuse, Script, Simulator, Turn

anthropic = pytest.importorskip("anthropic", reason="Anthropic's own client is not installed")
pytest.importorskip("boto3", reason="boto3 is not installed (extra: peers)")
pytest.importorskip("google.auth", reason="google-auth is not installed (extra: peers)")

MODEL = "anthropic.claude-sim-v1:0"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {"name": "weather", "description": "Weather of a city", "input_schema": SCHEMA}
ASKED: list[Any] = [{"role": "user", "content": "How warm is it?"}]


def on_bedrock(url: str) -> Any:
    return anthropic.AsyncAnthropicBedrock(
        aws_access_key="sim-key",
        aws_secret_key="not-used",
        aws_region="eu-north-1",
        base_url=url,
        max_retries=0,
    )


def on_vertex(url: str) -> Any:
    return anthropic.AsyncAnthropicVertex(
        access_token="sim-key",
        project_id="some-project",
        region="global",
        base_url=f"{url}/v1",
        max_retries=0,
    )


def on_mantle(url: str) -> Any:
    return anthropic.AsyncAnthropicBedrockMantle(
        api_key="sim-key", aws_region="eu-north-1", base_url=f"{url}/anthropic", max_retries=0
    )


def on_aws(url: str) -> Any:
    return anthropic.AsyncAnthropicAWS(
        aws_access_key="sim-key",
        aws_secret_key="not-used",
        aws_region="eu-north-1",
        workspace_id="some-workspace",
        base_url=url,
        max_retries=0,
    )


def on_foundry(url: str) -> Any:
    return anthropic.AsyncAnthropicFoundry(api_key="sim-key", base_url=f"{url}/anthropic", max_retries=0)


async def token() -> str:
    return "sim-key"


def on_google_cloud(url: str) -> Any:
    return anthropic.AsyncAnthropicGoogleCloud(
        project="some-project",
        location="global",
        workspace_id="some-workspace",
        token_provider=token,
        base_url=url,
        max_retries=0,
    )


CLOUDS: Any = {
    "bedrock": (BEDROCK_INVOKE, on_bedrock),
    "vertex": (VERTEX, on_vertex),
    "mantle": (Anthropic(), on_mantle),
    "aws": (Anthropic(), on_aws),
    "foundry": (Anthropic(), on_foundry),
    "google-cloud": (Anthropic(), on_google_cloud),
}
NEWEST = {"bedrock": "eu.anthropic.claude-opus-5-5", "mantle": "anthropic.claude-opus-5-5"}


@asynccontextmanager
async def connected(cloud: str, *turns: Turn) -> AsyncIterator[Any]:
    dialect, client_at = CLOUDS[cloud]
    script = Script(turns) if turns else None
    async with (
        Simulator(script, dialects=[dialect], api_keys={"sim-key"}) as simulator,
        client_at(simulator.url) as client,
    ):
        yield client


async def final(client: Any, **options: Any) -> Any:
    options = {"model": MODEL, "max_tokens": 256, "messages": ASKED, **options}
    async with client.messages.stream(**options) as stream:
        return await stream.get_final_message()


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_it_reads_blocks_reason_and_usage(cloud: str) -> None:
    turn = Turn(
        reasoning="Hm hm.",
        text="Привет, мир",
        calls=(Call("weather", {"city": "Łódź"}), Call("clock")),
        usage=Usage(11, 22, 33, cached_input_tokens=3),
    )
    async with connected(cloud, turn) as client:
        message = await final(client, tools=[TOOL])
    thinking, text, first, second = message.content
    assert (thinking.thinking, text.text) == ("Hm hm.", "Привет, мир")
    assert (first.name, first.input) == ("weather", {"city": "Łódź"})
    assert (second.name, second.input) == ("clock", {})
    assert (message.stop_reason, message.model) == ("tool_use", MODEL)
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (8, 3, 22)


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_second_turn_with_results_works(cloud: str) -> None:
    async with connected(cloud) as client:
        first = await final(client, tools=[TOOL])
        call = first.content[-1]
        assert (call.name, call.input) == ("weather", {"city": "Paris"})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "7 degrees"}
        history = [
            *ASKED,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result]},
        ]
        second = await final(client, messages=history, tools=[TOOL])
    assert "7 degrees" in second.content[-1].text
    assert second.stop_reason == "end_turn"


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (429, "RateLimitError"),
        (503, "ServiceUnavailableError"),
        (529, "OverloadedError"),
    ],
)
async def test_refusals_are_its_typed_errors(cloud: str, status: int, kind: str) -> None:
    async with connected(cloud, Turn(fault=Refuse(status=status, message="not today"))) as client:
        with pytest.raises(getattr(anthropic, kind), match="not today"):
            await final(client)


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_in_stream_error_raises_its_error(cloud: str) -> None:
    async with connected(cloud, Turn(text="a b", fault=Break(after_events=3, message="it broke"))) as client:
        with pytest.raises(anthropic.APIStatusError, match="it broke"):
            await final(client)


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_runner_of_tools_runs_to_the_end(cloud: str) -> None:
    @anthropic.beta_async_tool
    async def weather(city: str) -> str:
        """Weather of a city."""
        return f"7 degrees in {city}"

    async with connected(cloud) as client:
        runner = client.beta.messages.tool_runner(
            model=NEWEST.get(cloud, "claude-opus-5-5"),
            max_tokens=256,
            messages=[{"role": "user", "content": "How warm is it in Oslo?"}],
            tools=[weather],
            thinking={"type": "adaptive", "display": "summarized"},
            stream=True,
        )
        messages = [await stream.get_final_message() async for stream in runner]
    assert [m.stop_reason for m in messages] == ["tool_use", "end_turn"]
    assert [block.type for block in messages[0].content] == ["thinking", "text", "tool_use"]
    assert messages[0].content[0].signature
    assert "weather says: 7 degrees in Oslo" in messages[1].content[-1].text


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_refusal_of_model_is_a_bad_request(cloud: str) -> None:
    model = NEWEST.get(cloud, "claude-opus-5-5")
    async with connected(cloud, Turn(text="Hello.")) as client:
        with pytest.raises(anthropic.BadRequestError, match=r"disabled.* is not supported"):
            await final(client, model=model, thinking={"type": "disabled"})
        with pytest.raises(anthropic.BadRequestError, match="forced tool use"):
            await final(client, model=model, tools=[TOOL], tool_choice={"type": "any"})
        with pytest.raises(anthropic.BadRequestError, match="temperature: Extra inputs are not permitted"):
            await final(client, extra_body={"temperature": 0.5})  # it asks for the version of 2026-10-21


async def test_one_simulator_serves_all_clouds() -> None:
    async with Simulator(Script((Turn(text="Hello."),))) as simulator:
        for _, client_at in CLOUDS.values():
            async with client_at(simulator.url) as client:
                assert (await final(client)).content[-1].text == "Hello."
