"""OpenAI's own Python client is content with the simulator's Responses API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.events import Usage
from llmstream.simulator import Break, Call, Refuse, Script, Simulator, Turn

openai = pytest.importorskip("openai", reason="OpenAI's own client is not installed")

pytestmark = pytest.mark.slow

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {"type": "function", "name": "weather", "description": "Weather of a city", "parameters": SCHEMA}


@asynccontextmanager
async def connected(*turns: Turn, key: str = "sim-key") -> AsyncIterator[Any]:
    script = Script(turns) if turns else None
    async with (
        Simulator(script, dialects=[OpenAIResponses()], api_keys={"sim-key"}) as simulator,
        openai.AsyncOpenAI(base_url=simulator.url + "/v1", api_key=key, max_retries=0) as client,
    ):
        yield client


async def collect(client: Any, **options: Any) -> tuple[list[Any], Any]:
    """The events of the streaming helper, and the response it puts together."""
    options = {"model": "sim", "input": "How warm is it?", **options}
    async with client.responses.stream(**options) as stream:
        events = [event async for event in stream]
        return events, await stream.get_final_response()


def joined(events: list[Any], kind: str) -> str:
    return "".join(event.delta for event in events if event.type == kind)


async def test_client_reads_each_block_and_usage() -> None:
    """Reasoning, text, calls and usage."""
    turn = Turn(
        reasoning="Hm hm.",
        text="Привет, мир",
        calls=(Call("weather", {"city": "Łódź"}), Call("clock")),
        usage=Usage(11, 22, 33, reasoning_tokens=5, cached_input_tokens=3),
    )
    async with connected(turn) as client:
        events, response = await collect(client, tools=[TOOL], reasoning={"summary": "auto"})
    assert joined(events, "response.reasoning_summary_text.delta") == "Hm hm."
    assert joined(events, "response.output_text.delta") == response.output_text == "Привет, мир"
    assert joined(events, "response.function_call_arguments.delta") == '{"city":"Łódź"}{}'
    assert [item.type for item in response.output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert [part.text for part in response.output[0].summary] == ["Hm hm."]
    calls = response.output[2:]
    assert [(c.name, c.arguments, c.status) for c in calls] == [
        ("weather", '{"city":"Łódź"}', "completed"),
        ("clock", "{}", "completed"),
    ]
    assert len({c.call_id for c in calls}) == 2
    assert (response.status, response.model) == ("completed", "sim")
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (11, 22, 33)
    assert usage.output_tokens_details.reasoning_tokens == 5
    assert usage.input_tokens_details.cached_tokens == 3
    assert [event.sequence_number for event in events] == list(range(len(events)))


async def test_output_is_the_next_turns_input() -> None:
    async with connected() as client:
        _, first = await collect(client, tools=[TOOL], reasoning={"effort": "low", "summary": "auto"})
        call = first.output[-1]
        assert (call.name, call.arguments) == ("weather", '{"city":"Paris"}')
        history = [
            {"role": "user", "content": "How warm is it?"},
            *first.output,
            {"type": "function_call_output", "call_id": call.call_id, "output": "7 degrees"},
        ]
        _, second = await collect(client, input=history, tools=[TOOL])
    assert "7 degrees" in second.output_text


async def test_it_parses_an_answer_of_a_schema() -> None:
    pydantic = pytest.importorskip("pydantic")
    place = pydantic.create_model("Place", city=str, year=int)
    async with connected() as client:
        _, response = await collect(client, text_format=place)
    assert response.output_parsed == place(city="Paris", year=1)


async def test_a_limit_is_an_incomplete_response() -> None:
    async with connected(Turn(text="a", finish_reason="length")) as client:
        stream = await client.responses.create(model="sim", input="How warm is it?", stream=True)
        last = [event async for event in stream][-1]
    response = last.response
    assert last.type == "response.incomplete"
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
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


async def test_an_error_inside_the_stream_is_told() -> None:
    async with connected(Turn(text="a b", fault=Break(after_events=3, message="it broke"))) as client:
        stream = await client.responses.create(model="sim", input="How warm is it?", stream=True)
        with pytest.raises(openai.APIError, match="it broke"):
            [event async for event in stream]


ANSWER = Turn(text="Hello.")


@pytest.mark.parametrize(
    ("model", "effort"),
    [("gpt-6-sol", "max"), ("gpt-6-sol", "none"), ("gpt-6-astra", "xhigh"), ("gpt-5", "minimal")],
)
async def test_known_efforts_are_accepted(model: str, effort: Any) -> None:
    async with connected(ANSWER) as client:
        _, response = await collect(client, model=model, reasoning={"effort": effort}, tools=[TOOL])
    assert (response.output_text, response.reasoning.effort) == ("Hello.", effort)


@pytest.mark.parametrize(
    ("model", "effort"), [("gpt-6-astra", "none"), ("gpt-6-sol", "minimal"), ("gpt-5", "max"), ("o3", "none")]
)
async def test_unknown_efforts_are_refused(model: str, effort: Any) -> None:
    async with connected(ANSWER) as client:
        with pytest.raises(openai.BadRequestError, match="is not supported with the model") as caught:
            await collect(client, model=model, reasoning={"effort": effort})
    assert caught.value.param == "reasoning.effort"


async def test_reasoning_models_refuse_sampling() -> None:
    async with connected(ANSWER) as client:
        with pytest.raises(openai.BadRequestError, match="'temperature' is not supported"):
            await collect(client, model="gpt-6-astra", temperature=0.5)
        _, response = await collect(client, model="gpt-4.1", temperature=0.5)
    assert (response.output_text, response.temperature) == ("Hello.", 0.5)


async def test_the_response_repeats_the_request() -> None:
    async with connected(ANSWER) as client:
        _, response = await collect(
            client, tools=[TOOL], instructions="Be brief.", metadata={"who": "me"}, max_output_tokens=99
        )
    assert [tool.name for tool in response.tools] == ["weather"]
    assert (response.instructions, response.metadata) == ("Be brief.", {"who": "me"})
    assert response.max_output_tokens == 99


async def test_custom_tools_called_with_plain_text() -> None:
    custom: Any = {"type": "custom", "name": "shell", "description": "Runs a line"}
    turns = (Turn(calls=(Call("shell", "ls -la /tmp"),)), Turn(text="Nothing is there."))
    async with connected(*turns) as client:
        events, first = await collect(client, tools=[custom])
        assert joined(events, "response.custom_tool_call_input.delta") == "ls -la /tmp"
        (call,) = first.output
        assert (call.type, call.name, call.input) == ("custom_tool_call", "shell", "ls -la /tmp")
        result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "(nothing)"}
        _, second = await collect(client, input=[*first.output, result], tools=[custom])
    assert second.output_text == "Nothing is there."


async def test_its_runner_of_tools_runs_to_the_end() -> None:
    """Its items have ids that come once in a run, and the response repeats its tools."""
    runners = pytest.importorskip("openai.lib.responses_tool_runner")
    asked: list[object] = []

    async def weather(arguments: dict[str, object]) -> str:
        asked.append(arguments["city"])
        return "7 degrees"

    function = runners.AsyncRegisteredFunction({**TOOL, "strict": False}, weather)
    runner = runners.AsyncResponsesToolRunner(functions=[function])
    async with connected() as client:
        params: Any = {"model": "sim", "input": "How warm is it in Oslo?", "reasoning": {"effort": "low"}}
        response = await runner.run(client, params, stream=True)
    assert asked == ["Oslo"]
    assert "weather says: 7 degrees" in response.output_text


async def test_tokens_are_counted_before_asking() -> None:
    async with connected() as client:
        counted = await client.responses.input_tokens.count(model="sim", input="x" * 40)
    assert counted.input_tokens == 10


async def test_fields_of_today_are_taken() -> None:
    """All that openai 3.54 knows beside the conversation, on a model that knows it."""
    options: Any = {
        "model": "gpt-6-sol",
        "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
        "reasoning": {"effort": "high", "mode": "pro", "context": "all_turns", "summary": "detailed"},
        "text": {"verbosity": "low"},
        "store": False,
        "tools": [{**TOOL, "async": True}, {"type": "web_search"}, {"type": "tool_search"}],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]},
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "explicit", "ttl": "12h"},
        "safety_identifier": "s",
        "service_tier": "flex",
        "max_tool_calls": 3,
        "truncation": "auto",
        "input": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello."},
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
        ],
    }
    async with connected(Turn(reasoning="Hm.", text="Hello.")) as client:
        _, response = await collect(client, **options)
    assert response.output_text == "Hello."
    assert response.output[0].encrypted_content
    assert (response.reasoning.effort, response.reasoning.summary) == ("high", "detailed")
    assert (response.truncation, response.prompt_cache_key, response.store) == ("auto", "k", False)
    assert response.text.verbosity == "low"


async def test_output_is_sent_back_if_not_stored() -> None:
    options: Any = {"store": False, "include": ["reasoning.encrypted_content"], "tools": [TOOL]}
    async with connected() as client:
        _, first = await collect(client, reasoning={"effort": "low"}, **options)
        assert [item.type for item in first.output] == ["reasoning", "message", "function_call"]
        call = first.output[-1]
        history = [
            {"role": "user", "content": "How warm is it?"},
            *(item.to_dict() for item in first.output),
            {"type": "function_call_output", "call_id": call.call_id, "output": "7 degrees"},
        ]
        _, second = await collect(client, input=history, **options)
    assert "7 degrees" in second.output_text
