"""Mistral's own Python client is content with the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmstream.events import Usage
from llmstream.simulator import Break, Call, Refuse, Script, Simulator, Turn

mistral = pytest.importorskip(
    "mistralai.client", reason="Mistral's own client is not installed (extra: peers)"
)
errors = pytest.importorskip("mistralai.client.errors")

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
        Simulator(script, api_keys={"sim-key"}) as simulator,
        mistral.Mistral(api_key=key, server_url=f"{simulator.url}/mistral") as client,
    ):
        yield client


async def collect(client: Any, **options: Any) -> list[Any]:
    options = {"model": "sim", "messages": ASKED, **options}
    async with await client.chat.stream_async(**options) as stream:
        return [event.data async for event in stream]


def text_of(chunks: list[Any]) -> str:
    said = [c.choices[0].delta.content for c in chunks]
    return "".join(words for words in said if isinstance(words, str))


def thoughts_of(chunks: list[Any]) -> str:
    lists = [c.choices[0].delta.content for c in chunks if isinstance(c.choices[0].delta.content, list)]
    return "".join(t.text for pieces in lists for p in pieces if p.type == "thinking" for t in p.thinking)


def calls_of(chunks: list[Any]) -> list[Any]:
    return [call for c in chunks for call in c.choices[0].delta.tool_calls or ()]


async def test_client_reads_each_block_and_usage() -> None:
    """Thinking, text, calls, finish reason and usage."""
    turn = Turn(
        reasoning="Hm hm.",
        text="Привет, мир",
        calls=(Call("weather", {"city": "Łódź"}), Call("clock")),
        usage=Usage(11, 22, 33),
    )
    async with connected(turn) as client:
        chunks = await collect(client, tools=[TOOL])
    assert thoughts_of(chunks) == "Hm hm."
    assert text_of(chunks) == "Привет, мир"
    calls = calls_of(chunks)
    assert [(c.function.name, c.function.arguments) for c in calls] == [
        ("weather", '{"city":"Łódź"}'),
        ("clock", "{}"),
    ]
    assert len({c.id for c in calls}) == 2
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["tool_calls"]
    usage = chunks[-1].usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (11, 22, 33)
    assert {c.model for c in chunks} == {"sim"}


async def test_second_turn_with_results_works() -> None:
    async with connected() as client:
        (call,) = calls_of(await collect(client, tools=[TOOL]))
        assert (call.function.name, call.function.arguments) == ("weather", '{"city":"Paris"}')
        history = [
            *ASKED,
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call.id, "name": "weather", "content": "7 degrees"},
        ]
        second = await collect(client, messages=history, tools=[TOOL])
    assert "weather says: 7 degrees" in text_of(second)
    assert second[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("reason", ["length", "error"])
async def test_finish_reasons_are_its_own(reason: Any) -> None:
    async with connected(Turn(text="a", finish_reason=reason)) as client:
        assert (await collect(client))[-1].choices[0].finish_reason == reason


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503, 529])
async def test_refusals_are_its_typed_errors(status: int) -> None:
    async with connected(Turn(fault=Refuse(status=status, message="not today"))) as client:
        with pytest.raises(errors.SDKError, match="not today") as caught:
            await collect(client)
    assert caught.value.status_code == status


async def test_schema_violation_fails_validation() -> None:
    async with connected(Turn(fault=Refuse(status=422, message="not like this"))) as client:
        with pytest.raises(errors.HTTPValidationError, match="not like this"):
            await collect(client)


async def test_a_wrong_key_is_its_error() -> None:
    async with connected(key="wrong") as client:
        with pytest.raises(errors.SDKError) as caught:
            await collect(client)
    assert caught.value.status_code == 401


async def test_in_stream_error_gives_no_response() -> None:
    async with connected(Turn(text="a b", fault=Break(after_events=3, message="it broke"))) as client:
        with pytest.raises(errors.MistralError):
            await collect(client)


@pytest.mark.parametrize(
    ("model", "effort"),
    [("mistral-large-4", "low"), ("zai-glm-5-3", "max"), ("mistral-medium-latest", "none")],
)
async def test_known_efforts_are_accepted(model: str, effort: Any) -> None:
    async with connected(Turn(reasoning="Hm.", text="Hello.")) as client:
        chunks = await collect(client, model=model, reasoning_effort=effort)
    assert (thoughts_of(chunks), text_of(chunks)) == ("Hm.", "Hello.")


@pytest.mark.parametrize(("model", "effort"), [("mistral-large-4", "none"), ("zai-glm-5-3", "none")])
async def test_unknown_efforts_are_refused(model: str, effort: Any) -> None:
    async with connected(Turn(text="Hello.")) as client:
        with pytest.raises(errors.MistralError) as caught:
            await collect(client, model=model, reasoning_effort=effort)
    assert caught.value.status_code in (400, 422)
    assert "reasoning_effort" in caught.value.body


async def test_reasons_before_an_unforced_call() -> None:
    async with connected() as client:
        chunks = await collect(client, tools=[TOOL], reasoning_effort="high")
        assert (bool(thoughts_of(chunks)), text_of(chunks)) == (True, "Let me use weather.")
        chunks = await collect(client, tools=[TOOL], tool_choice="any")
        assert (thoughts_of(chunks), text_of(chunks)) == ("", "")
    (call,) = calls_of(chunks)
    assert (call.function.name, call.function.arguments) == ("weather", '{"city":"Paris"}')


async def test_an_answer_of_a_schema_is_json() -> None:
    pydantic = pytest.importorskip("pydantic")
    place = pydantic.create_model("Place", city=str, year=int)
    async with connected() as client:
        stream = await client.chat.parse_stream_async(place, model="sim", messages=ASKED)
        async with stream:
            chunks = [event.data async for event in stream]
    assert place.model_validate_json(text_of(chunks)) == place(city="Paris", year=1)


async def test_models_are_looked_up() -> None:
    async with connected() as client:
        assert [model.id for model in (await client.models.list_async()).data] == ["sim"]


async def test_blocking_client_reads_the_same() -> None:
    async with Simulator(Script((Turn(text="Hello."),))) as simulator:

        def blocking() -> str:
            with (
                mistral.Mistral(api_key="sim-key", server_url=f"{simulator.url}/mistral") as own,
                own.chat.stream(model="sim", messages=ASKED) as stream,
            ):
                return text_of([event.data for event in stream])

        assert await asyncio.to_thread(blocking) == "Hello."
