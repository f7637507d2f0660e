"""Anthropic's own Python client is content with the simulator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmstream.dialects.anthropic import Anthropic
from llmstream.events import Usage
from llmstream.simulator import Break, Call, Refuse, Script, Simulator, Turn

anthropic = pytest.importorskip("anthropic", reason="Anthropic's own client is not installed")

TOOL: Any = {
    "name": "weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ASKED: list[Any] = [{"role": "user", "content": "How warm is it?"}]


@asynccontextmanager
async def connected(*turns: Turn, key: str = "sim-key") -> AsyncIterator[Any]:
    script = Script(turns) if turns else None
    async with (
        Simulator(script, dialects=[Anthropic()], api_keys={"sim-key"}) as simulator,
        anthropic.AsyncAnthropic(base_url=simulator.url, api_key=key, max_retries=0) as client,
    ):
        yield client


async def final(client: Any, **options: Any) -> Any:
    options = {"model": "sim", "max_tokens": 256, "messages": ASKED, **options}
    async with client.messages.stream(**options) as stream:
        return await stream.get_final_message()


async def test_it_reads_blocks_reason_and_usage() -> None:
    turn = Turn(
        reasoning="Hm hm.",
        text="Привет, мир",
        calls=(Call("weather", {"city": "Łódź"}), Call("clock")),
        usage=Usage(11, 22, 33, cached_input_tokens=3),
    )
    async with connected(turn) as client:
        message = await final(client)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    thinking, text, first, second = message.content
    assert (thinking.thinking, text.text) == ("Hm hm.", "Привет, мир")
    assert (first.name, first.input) == ("weather", {"city": "Łódź"})
    assert (second.name, second.input) == ("clock", {})
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (8, 3, 22)
    assert message.model == "sim"


async def test_a_second_turn_with_results_is_answered() -> None:
    async with connected() as client:
        first = await final(client, tools=[TOOL])
        call = first.content[-1]
        assert (call.name, call.input) == ("weather", {"city": "Paris"})
        history = [
            *ASKED,
            {"role": "assistant", "content": first.content},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "7 degrees"}],
            },
        ]
        second = await final(client, messages=history, tools=[TOOL])
        models = [m.id async for m in client.models.list()]
    assert "7 degrees" in "".join(b.text for b in second.content if b.type == "text")
    assert second.stop_reason == "end_turn"
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
        with pytest.raises(getattr(anthropic, kind), match="not today") as caught:
            await final(client)
    assert caught.value.request_id == "req_sim_0"


async def test_a_wrong_key_is_an_authentication_error() -> None:
    async with connected(key="wrong") as client:
        with pytest.raises(anthropic.AuthenticationError):
            await final(client)


async def test_a_bad_request_is_a_bad_request_error() -> None:
    async with connected() as client:
        with pytest.raises(anthropic.BadRequestError):
            await final(client, messages=[])
        with pytest.raises(anthropic.BadRequestError, match="only streams"):
            await client.messages.create(model="sim", max_tokens=16, messages=ASKED)


async def test_an_error_inside_the_stream_is_its_error() -> None:
    turn = Turn(text="a b", fault=Break(after_events=3, status=529, message="it is busy"))
    async with connected(turn) as client:
        with pytest.raises(anthropic.APIStatusError, match="it is busy"):
            await final(client)
