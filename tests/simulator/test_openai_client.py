"""OpenAI's own Python client is content with the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest

from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.events import Usage
from llmstream.simulator import Break, Call, Refuse, Script, Simulator, Turn

openai = pytest.importorskip("openai", reason="OpenAI's own client is not installed")

pytestmark = pytest.mark.slow

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


async def test_helper_joins_parallel_calls() -> None:
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


async def test_second_turn_with_results_works() -> None:
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
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (409, "ConflictError"),
        (422, "UnprocessableEntityError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (529, "InternalServerError"),
    ],
)
async def test_refusals_are_its_typed_errors(status: int, kind: str) -> None:
    async with connected(Turn(fault=Refuse(status=status, message="not today"))) as client:
        with pytest.raises(getattr(openai, kind), match="not today") as caught:
            await collect(client)
    assert caught.value.request_id == "req_sim_0"


async def test_wrong_key_is_authentication_error() -> None:
    async with connected(key="wrong") as client:
        with pytest.raises(openai.AuthenticationError):
            await collect(client)


async def test_bad_request_is_bad_request_error() -> None:
    async with connected() as client:
        with pytest.raises(openai.BadRequestError):
            await collect(client, messages="no list")


async def test_in_stream_error_raises_its_error() -> None:
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


ANSWER = Turn(text="Hello.")


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gpt-6-sol", {"reasoning_effort": "xhigh"}),
        ("gpt-6-sol", {"reasoning_effort": "none", "tools": [TOOL]}),
        ("gpt-5.4", {"tools": [TOOL]}),
        ("gpt-5", {"reasoning_effort": "minimal", "tools": [TOOL]}),
        ("gpt-4.1", {"temperature": 0.5, "max_tokens": 10, "stop": "x"}),
        ("gpt-6-luna", {"max_completion_tokens": 10, "verbosity": "low", "service_tier": "flex"}),
    ],
)
async def test_what_a_model_takes_is_answered(model: str, options: Any) -> None:
    async with connected(ANSWER) as client:
        assert text_of(await collect(client, model=model, **options)) == "Hello."


@pytest.mark.parametrize(
    ("model", "options", "param"),
    [
        ("gpt-6-astra", {"reasoning_effort": "none"}, "reasoning_effort"),
        ("gpt-6-sol", {"reasoning_effort": "max"}, "reasoning_effort"),
        ("gpt-6-sol", {"tools": [TOOL]}, "reasoning_effort"),
        ("gpt-5.4", {"reasoning_effort": "low", "tools": [TOOL]}, "reasoning_effort"),
        ("gpt-6-sol", {"temperature": 0.5}, "temperature"),
        ("gpt-5", {"max_tokens": 10}, "max_tokens"),
    ],
)
async def test_refusal_of_model_names_the_field(model: str, options: Any, param: str) -> None:
    async with connected(ANSWER) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await collect(client, model=model, **options)
    assert caught.value.param == param


async def test_custom_tools_called_with_plain_text() -> None:
    custom: Any = {"type": "custom", "custom": {"name": "shell", "description": "Runs a line"}}
    turns = (Turn(calls=(Call("shell", "ls -la /tmp"),)), Turn(text="Nothing is there."))
    async with connected(*turns) as client:
        deltas = [c.choices[0].delta for c in await collect(client, tools=[custom]) if c.choices]
        pieces = [call.to_dict() for d in deltas for call in d.tool_calls or ()]
        assert (pieces[0]["type"], pieces[0]["custom"]["name"]) == ("custom", "shell")
        line = "".join(piece["custom"].get("input", "") for piece in pieces)
        assert line == "ls -la /tmp"
        call = {"id": pieces[0]["id"], "type": "custom", "custom": {"name": "shell", "input": line}}
        history = [
            *ASKED,
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": "(nothing)"},
        ]
        second = await collect(client, messages=history, tools=[custom])
    assert text_of(second) == "Nothing is there."


async def test_it_parses_an_answer_of_a_schema() -> None:
    pydantic = pytest.importorskip("pydantic")
    place = pydantic.create_model("Place", city=str, year=int)
    async with (
        connected() as client,
        client.chat.completions.stream(model="sim", messages=ASKED, response_format=place) as stream,
    ):
        message = (await stream.get_final_completion()).choices[0].message
    assert message.parsed == place(city="Paris", year=1)


async def test_instructions_between_turns_work() -> None:
    talk = [*ASKED, {"role": "assistant", "content": "7."}, {"role": "developer", "content": "Be brief."}]
    async with connected(ANSWER) as client:
        assert text_of(await collect(client, messages=[*talk, *ASKED])) == "Hello."


async def test_one_model_is_looked_up() -> None:
    async with connected() as client:
        assert (await client.models.retrieve("gpt-6-sol")).id == "gpt-6-sol"


async def test_blocking_client_reads_the_same() -> None:
    async with connected(ANSWER) as client:

        def blocking() -> str:
            with closing(openai.OpenAI(base_url=client.base_url, api_key="sim-key", max_retries=0)) as own:
                stream = own.chat.completions.create(model="sim", messages=ASKED, stream=True)
                return text_of(list(stream))

        assert await asyncio.to_thread(blocking) == "Hello."
