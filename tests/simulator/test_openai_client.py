"""OpenAI's own Python client is content with the simulator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.events import Usage
from llmstream.simulator import Break, Call, Refuse, Script, Simulator, Turn

openai = pytest.importorskip("openai", reason="OpenAI's own client is not installed")

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASKED: list[Any] = [{"role": "user", "content": "How warm is it?"}]


@asynccontextmanager
async def connected(*turns: Turn, key: str = "sim-key") -> AsyncIterator[Any]:
    script = Script(turns) if turns else None
    async with (
        Simulator(script, dialects=[OpenAIChat()], api_keys={"sim-key"}) as simulator,
        openai.AsyncOpenAI(base_url=simulator.url + "/v1", api_key=key, max_retries=0) as client,
    ):
        yield client


async def collect(client: Any, **options: Any) -> list[Any]:
    options = {"model": "sim", "messages": ASKED, **options}
    stream = await client.chat.completions.create(
        stream=True, stream_options={"include_usage": True}, **options
    )
    return [chunk async for chunk in stream]


def text_of(chunks: list[Any]) -> str:
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


async def test_it_reads_text_reason_and_usage() -> None:
    usage = Usage(11, 22, 33, reasoning_tokens=5, cached_input_tokens=3)
    async with connected(Turn(reasoning="Hm hm.", text="Привет, мир", usage=usage)) as client:
        chunks = await collect(client)
    assert text_of(chunks) == "Привет, мир"
    thoughts = [c.choices[0].delta.model_extra.get("reasoning_content") or "" for c in chunks if c.choices]
    assert "".join(thoughts) == "Hm hm."
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    told = chunks[-1].usage
    assert (told.prompt_tokens, told.completion_tokens, told.total_tokens) == (11, 22, 33)
    assert told.completion_tokens_details.reasoning_tokens == 5
    assert told.prompt_tokens_details.cached_tokens == 3
    assert {c.model for c in chunks} == {"sim"}


async def test_its_helper_puts_parallel_calls_together() -> None:
    turn = Turn(calls=(Call("weather", {"city": "Łódź"}), Call("clock")))
    async with (
        connected(turn) as client,
        client.chat.completions.stream(model="sim", messages=ASKED) as stream,
    ):
        final = await stream.get_final_completion()
    calls = final.choices[0].message.tool_calls
    assert [(c.function.name, c.function.arguments) for c in calls] == [
        ("weather", '{"city":"Łódź"}'),
        ("clock", "{}"),
    ]
    assert len({c.id for c in calls}) == 2
    assert final.choices[0].finish_reason == "tool_calls"


async def test_a_second_turn_with_results_is_answered() -> None:
    async with connected() as client:
        async with client.chat.completions.stream(model="sim", messages=ASKED, tools=[TOOL]) as stream:
            message = (await stream.get_final_completion()).choices[0].message
        call = message.tool_calls[0]
        assert (call.function.name, call.function.arguments) == ("weather", '{"city":"Paris"}')
        history = [
            *ASKED,
            message.model_dump(include={"role", "content", "tool_calls"}),
            {"role": "tool", "tool_call_id": call.id, "content": "7 degrees"},
        ]
        second = await collect(client, messages=history, tools=[TOOL])
        models = [m.id async for m in await client.models.list()]
    assert "7 degrees" in text_of(second)
    assert models == ["sim"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
    ],
)
async def test_refusals_are_its_typed_errors(status: int, kind: str) -> None:
    async with connected(Turn(fault=Refuse(status=status, message="not today"))) as client:
        with pytest.raises(getattr(openai, kind), match="not today") as caught:
            await collect(client)
    assert caught.value.request_id == "req_sim_0"


async def test_a_wrong_key_is_an_authentication_error() -> None:
    async with connected(key="wrong") as client:
        with pytest.raises(openai.AuthenticationError):
            await collect(client)


async def test_a_bad_request_is_a_bad_request_error() -> None:
    async with connected() as client:
        with pytest.raises(openai.BadRequestError):
            await collect(client, messages="no list")
        with pytest.raises(openai.BadRequestError, match="only streams"):
            await client.chat.completions.create(model="sim", messages=ASKED)


async def test_an_error_inside_the_stream_is_its_error() -> None:
    async with connected(Turn(text="a b", fault=Break(after_events=3, message="it broke"))) as client:
        with pytest.raises(openai.APIError, match="it broke"):
            await collect(client)


async def test_its_azure_flavour_reads_the_same() -> None:
    async with (
        Simulator(Script((Turn(text="Hello."),)), dialects=[OpenAIChat()], api_keys={"k"}) as simulator,
        openai.AsyncAzureOpenAI(
            azure_endpoint=simulator.url, api_key="k", api_version="2024-10-21", max_retries=0
        ) as client,
    ):
        chunks = await collect(client)
    assert text_of(chunks) == "Hello."
    assert simulator.requests[0].http.url.startswith("/openai/deployments/sim/chat/completions?")
