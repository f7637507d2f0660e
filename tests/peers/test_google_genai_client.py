"""Google's own Python client is content with the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmstream.dialects.gemini import VERTEX, Gemini
from llmstream.events import Usage
from llmstream.simulator import Break, Call, Continue, Cut, Refuse, Script, Simulator, Turn

genai = pytest.importorskip("google.genai", reason="google-genai is not installed (extra: peers)")
errors = pytest.importorskip("google.genai.errors")
types = pytest.importorskip("google.genai.types")

# The client makes a subclass of aiohttp's session the first time that it asks.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "Weather of a city", "parameters_json_schema": SCHEMA}
THINKING = {"include_thoughts": True, "thinking_budget": 512}
WITH_TOOL = {"tools": [{"function_declarations": [WEATHER]}]}


@asynccontextmanager
async def connected(*turns: Turn, key: str = "sim-key", vertex: bool = False) -> AsyncIterator[Any]:
    script = Script(turns) if turns else None
    dialect = VERTEX if vertex else Gemini()
    async with Simulator(script, dialects=[dialect], api_keys={"sim-key"}) as simulator:
        made = genai.Client(api_key=key, vertexai=vertex, http_options={"base_url": simulator.url})
        async with made.aio as client:
            client.received, client.received_from = simulator.requests, simulator.url
            yield client


async def collect(
    client: Any, contents: Any = "How warm is it?", model: str = "sim", **config: Any
) -> list[Any]:
    stream = await client.models.generate_content_stream(model=model, contents=contents, config=config)
    return [chunk async for chunk in stream]


def parts_of(chunks: list[Any]) -> list[Any]:
    return [part for chunk in chunks for part in chunk.candidates[0].content.parts]


def texts_of(chunks: list[Any], *, thought: bool = False) -> str:
    return "".join(p.text for p in parts_of(chunks) if p.text and bool(p.thought) == thought)


@pytest.mark.parametrize("vertex", [False, True])
async def test_client_reads_each_block_and_usage(vertex: bool) -> None:
    """Thoughts, text, calls, finish reason and usage."""
    turn = Turn(
        reasoning="Hm hm.",
        text="Привет, мир",
        calls=(Call("weather", {"city": "Łódź"}), Call("clock")),
        usage=Usage(11, 22, 33, reasoning_tokens=5, cached_input_tokens=3),
    )
    async with connected(turn, vertex=vertex) as client:
        chunks = await collect(client, thinking_config=THINKING, **WITH_TOOL)
        request = client.received[0].request
    assert texts_of(chunks, thought=True) == "Hm hm."
    assert texts_of(chunks) == "Привет, мир"
    calls = [p.function_call for p in parts_of(chunks) if p.function_call]
    assert [(c.name, c.args) for c in calls] == [("weather", {"city": "Łódź"}), ("clock", {})]
    assert len({c.id for c in calls}) == (1 if vertex else 2)  # Vertex AI has no ids
    last = chunks[-1]
    assert last.candidates[0].finish_reason == "STOP"
    usage = last.usage_metadata
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (11, 3)
    assert (usage.candidates_token_count, usage.thoughts_token_count, usage.total_token_count) == (17, 5, 33)
    assert ({c.model_version for c in chunks}, len({c.response_id for c in chunks})) == ({"sim"}, 1)
    assert [tool.name for tool in request.tools] == ["weather"]
    assert request.tools[0].input_schema == SCHEMA
    assert request.reasoning.budget_tokens == 512


async def test_its_chat_goes_on_with_a_result() -> None:
    async with connected() as client:
        chat = client.chats.create(model="sim", config=WITH_TOOL)
        first = [chunk async for chunk in await chat.send_message_stream("How warm is it in Paris?")]
        call = next(p.function_call for p in parts_of(first) if p.function_call)
        assert (call.name, call.args) == ("weather", {"city": "Paris"})
        result = types.Part.from_function_response(name="weather", response={"output": "7 degrees"})
        result.function_response.id = call.id
        second = [chunk async for chunk in await chat.send_message_stream(result)]
    assert "weather says: 7 degrees" in texts_of(second)
    assert second[-1].candidates[0].finish_reason == "STOP"


async def test_client_runs_functions_and_reads_on() -> None:
    def weather(city: str) -> str:
        """Weather of a city."""
        return f"7 degrees in {city}"

    async with connected() as client:
        chat = client.chats.create(model="sim", config={"tools": [weather]})
        chunks = [chunk async for chunk in await chat.send_message_stream("How warm is it in Paris?")]
    assert '{"result":"7 degrees in Paris"}' in texts_of(chunks)


@pytest.mark.parametrize(
    ("reason", "told"), [("length", "MAX_TOKENS"), ("content-filter", "SAFETY"), ("stop", "STOP")]
)
async def test_finish_reasons_are_its_own(reason: Any, told: str) -> None:
    async with connected(Turn(text="a", finish_reason=reason)) as client:
        assert (await collect(client))[-1].candidates[0].finish_reason == told


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (400, "ClientError", "INVALID_ARGUMENT"),
        (401, "ClientError", "UNAUTHENTICATED"),
        (403, "ClientError", "PERMISSION_DENIED"),
        (404, "ClientError", "NOT_FOUND"),
        (429, "ClientError", "RESOURCE_EXHAUSTED"),
        (500, "ServerError", "INTERNAL"),
        (503, "ServerError", "UNAVAILABLE"),
    ],
)
async def test_refusals_are_its_typed_errors(status: int, kind: str, told: str) -> None:
    async with connected(Turn(fault=Refuse(status=status, message="not today"))) as client:
        with pytest.raises(getattr(errors, kind), match="not today") as caught:
            await collect(client)
    assert (caught.value.code, caught.value.status) == (status, told)


async def test_a_wrong_key_is_a_client_error() -> None:
    async with connected(key="wrong") as client:
        with pytest.raises(errors.ClientError, match="API key"):
            await collect(client)


async def test_in_stream_error_raises_its_error() -> None:
    async with connected(Turn(text="a b", fault=Break(after_events=3, message="it broke"))) as client:
        with pytest.raises(errors.APIError, match="it broke"):
            await collect(client)


LONG = "It rains in Oslo and it will not stop today."


@pytest.mark.parametrize("vertex", [False, True])
async def test_client_continues_a_long_response(vertex: bool) -> None:
    cuts = (Continue(after_events=4), Continue(after_events=7, faults=(Cut(after_events=0),)))
    async with connected(Turn(text=LONG, continues=cuts, usage=Usage(10, 5, 15)), vertex=vertex) as client:
        chunks = await collect(client)
        bodies = [received.http.json() for received in client.received]
    assert texts_of(chunks) == LONG
    assert [c.candidates[0].finish_reason for c in chunks if c.candidates[0].finish_reason] == ["STOP"]
    assert chunks[-1].usage_metadata.total_token_count == 45
    tokens = [body.get("continuationToken") for body in bodies]
    assert tokens[0] is None
    assert tokens[1] != tokens[2] == tokens[3]
    assert len({repr(body["contents"]) for body in bodies}) == 1


async def test_manual_continuation_gets_the_token() -> None:
    """The client's automatic continuation is off."""
    async with connected(Turn(text=LONG, continues=(Continue(after_events=4),))) as client:
        first = await collect(client, automatic_continuation=False)
        last = first[-1].candidates[0]
        assert last.finish_reason == "CONTINUATION"
        rest = await collect(client, automatic_continuation=False, continuation_token=last.continuation_token)
        with pytest.raises(errors.ClientError, match="not valid"):
            await collect(client, continuation_token=b"none of ours")
    assert texts_of(first) + texts_of(rest) == LONG


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("gemini-4-argon", {"thinking_level": "HIGH"}),
        ("gemini-4-hydrogen", {"thinking_level": "XHIGH"}),
        ("gemini-3.5-flash", {"thinking_level": "MINIMAL"}),
        ("gemini-2.5-flash", {"thinking_budget": 512}),
    ],
)
async def test_known_thinking_levels_are_accepted(model: str, thinking: Any) -> None:
    async with connected(Turn(reasoning="Hm.", text="Hello.")) as client:
        config = {"include_thoughts": True, **thinking}
        chunks = await collect(client, model=model, thinking_config=config)
    assert (texts_of(chunks, thought=True), texts_of(chunks)) == ("Hm.", "Hello.")


@pytest.mark.parametrize("model", ["gemini-4-argon", "gemini-3.7-flash", "gemini-flash-latest"])
async def test_levels_that_it_does_not_are_refused(model: str) -> None:
    async with connected(Turn(text="Hello.")) as client:
        with pytest.raises(errors.ClientError, match="MINIMAL is not supported") as caught:
            await collect(client, model=model, thinking_config={"thinking_level": "MINIMAL"})
    assert caught.value.code == 400


async def test_it_parses_an_answer_of_a_schema() -> None:
    pydantic = pytest.importorskip("pydantic")
    place = pydantic.create_model("Place", city=str, year=int)
    async with connected() as client:
        chunks = await collect(client, response_mime_type="application/json", response_schema=place)
    assert place.model_validate_json(texts_of(chunks)) == place(city="Paris", year=1)


async def test_models_and_tokens_are_looked_up() -> None:
    async with connected() as client:
        models = [model.name async for model in await client.models.list()]
        model = await client.models.get(model="gemini-4-argon")
        counted = await client.models.count_tokens(model="sim", contents="x" * 40)
    assert (models, model.name, counted.total_tokens) == (["models/sim"], "models/gemini-4-argon", 10)


async def test_blocking_client_reads_the_same() -> None:
    async with connected(Turn(text="Hello.")) as client:
        url = client.received_from

        def blocking() -> str:
            own = genai.Client(api_key="sim-key", http_options={"base_url": url})
            chunks = list(own.models.generate_content_stream(model="sim", contents="Hi"))
            own.close()
            return texts_of(chunks)

        assert await asyncio.to_thread(blocking) == "Hello."
