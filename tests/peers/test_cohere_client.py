"""Cohere's own Python client is content with the simulator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmstream import events as ev
from llmstream.dialects.cohere import Cohere
from llmstream.events import Usage
from llmstream.simulator import Break, Call, Refuse, Script, Simulator, Turn

cohere = pytest.importorskip("cohere", reason="Cohere's own client is not installed (extra: peers)")

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASKED: list[Any] = [{"role": "user", "content": "How warm is it?"}]
PLAN: Any = {"cohere": {"tool_plan": True}}
CITATION: Any = {
    "start": 0,
    "end": 4,
    "text": "Oslo",
    "sources": [{"type": "document", "id": "doc:0", "document": {"id": "doc:0", "title": "Cities"}}],
    "type": "TEXT_CONTENT",
}


@asynccontextmanager
async def connected(*turns: Turn, key: str = "sim-key") -> AsyncIterator[Any]:
    script = Script(turns) if turns else None
    async with (
        Simulator(script, dialects=[Cohere()], api_keys={"sim-key"}) as simulator,
        cohere.AsyncClientV2(api_key=key, base_url=simulator.url) as client,
    ):
        yield client


async def collect(client: Any, **options: Any) -> list[Any]:
    options = {"model": "sim", "messages": ASKED, "request_options": {"max_retries": 0}, **options}
    return [event async for event in client.chat_stream(**options)]


def deltas_of(events: list[Any], kind: str) -> list[Any]:
    return [event.delta.message for event in events if event.type == kind]


def text_of(events: list[Any]) -> str:
    return "".join(m.content.text or "" for m in deltas_of(events, "content-delta"))


def calls_of(events: list[Any]) -> list[Any]:
    """Id, name and joined arguments of each call."""
    calls: dict[int, list[str]] = {}
    for event in events:
        if event.type == "tool-call-start":
            started = event.delta.message.tool_calls
            calls[event.index] = [started.id, started.function.name, started.function.arguments or ""]
        elif event.type == "tool-call-delta":
            calls[event.index][2] += event.delta.message.tool_calls.function.arguments
    return list(calls.values())


async def test_client_reads_each_block_and_usage() -> None:
    """Thinking, text, calls, finish reason and usage."""
    turn = Turn(
        reasoning="Hm hm.",
        text="Привет, мир",
        calls=(Call("weather", {"city": "Łódź"}), Call("clock")),
        usage=Usage(11, 22, 33, cached_input_tokens=3),
    )
    async with connected(turn) as client:
        events = await collect(client, tools=[TOOL])
    assert "".join(m.content.thinking or "" for m in deltas_of(events, "content-delta")) == "Hm hm."
    assert text_of(events) == "Привет, мир"
    calls = calls_of(events)
    assert [call[1:] for call in calls] == [["weather", '{"city":"Łódź"}'], ["clock", "{}"]]
    assert len({call[0] for call in calls}) == 2
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("message-start", "message-end")
    assert kinds.count("tool-call-end") == kinds.count("content-end") == 2
    end = events[-1].delta
    assert end.finish_reason == "TOOL_CALL"
    assert (end.usage.tokens.input_tokens, end.usage.tokens.output_tokens) == (11, 22)
    assert end.usage.cached_tokens == 3


async def test_it_reads_a_plan_and_citations() -> None:
    said = (
        ev.ResponseMetadata("sim", "r-1"),
        ev.ReasoningStart("0", provider_metadata=PLAN),
        ev.ReasoningDelta("I will look.", "0"),
        ev.ReasoningEnd("0", provider_metadata=PLAN),
        ev.TextStart("1"),
        ev.TextDelta("Oslo", "1"),
        ev.Source("document", "s-1", title="Cities", provider_metadata={"cohere": {"citation": CITATION}}),
        ev.Source("url", "s-2", "https://x.example/", "X"),
        ev.TextEnd("1"),
        ev.Finish("stop", Usage(1, 2, 3)),
    )
    async with connected(Turn(events=said)) as client:
        events = await collect(client)
    assert [m.tool_plan for m in deltas_of(events, "tool-plan-delta")] == ["I will look."]
    own, other = (m.citations for m in deltas_of(events, "citation-start"))
    assert (own.start, own.end, own.text, own.sources[0].document["title"]) == (0, 4, "Oslo", "Cities")
    assert other.sources[0].document["url"] == "https://x.example/"
    assert events[-1].delta.finish_reason == "COMPLETE"


async def test_second_turn_with_results_works() -> None:
    async with connected() as client:
        ((call_id, name, arguments),) = calls_of(await collect(client, tools=[TOOL]))
        assert (name, arguments) == ("weather", '{"city":"Paris"}')
        call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        history = [
            *ASKED,
            {"role": "assistant", "tool_plan": "I will look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": "7 degrees"},
        ]
        second = await collect(client, messages=history, tools=[TOOL])
    assert "weather says: 7 degrees" in text_of(second)
    assert second[-1].delta.finish_reason == "COMPLETE"


@pytest.mark.parametrize("reason", ["length", "error"])
async def test_finish_reasons_are_its_own(reason: Any) -> None:
    async with connected(Turn(text="a", finish_reason=reason)) as client:
        end = (await collect(client))[-1].delta
    assert end.finish_reason == {"length": "MAX_TOKENS", "error": "ERROR"}[reason]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (401, "UnauthorizedError"),
        (403, "ForbiddenError"),
        (404, "NotFoundError"),
        (422, "UnprocessableEntityError"),
        (429, "TooManyRequestsError"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailableError"),
    ],
)
async def test_refusals_are_its_typed_errors(status: int, kind: str) -> None:
    async with connected(Turn(fault=Refuse(status=status, message="not today"))) as client:
        with pytest.raises(getattr(cohere, kind), match="not today"):
            await collect(client)


async def test_wrong_key_is_an_unauthorized_error() -> None:
    async with connected(key="wrong") as client:
        with pytest.raises(cohere.UnauthorizedError):
            await collect(client)


async def test_in_stream_error_is_in_last_event() -> None:
    async with connected(Turn(text="a b", fault=Break(after_events=3, message="it broke"))) as client:
        end = (await collect(client))[-1].delta
    assert (end.finish_reason, end.error) == ("ERROR", "it broke")


async def test_thinking_is_switched_on_and_off() -> None:
    async with connected() as client:
        events = await collect(client, thinking={"type": "enabled", "token_budget": 512})
        assert "".join(m.content.thinking or "" for m in deltas_of(events, "content-delta"))
        events = await collect(client, thinking={"type": "disabled"})
        assert not "".join(m.content.thinking or "" for m in deltas_of(events, "content-delta"))
    assert text_of(events).startswith("You said: How warm is it?")


async def test_a_forced_call_stands_alone() -> None:
    async with connected() as client:
        events = await collect(client, tools=[TOOL], tool_choice="REQUIRED", strict_tools=True)
    assert text_of(events) == ""
    assert [call[1:] for call in calls_of(events)] == [["weather", '{"city":"Paris"}']]


async def test_an_answer_of_a_schema_is_json() -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["city", "year"],
    }
    async with connected() as client:
        events = await collect(client, response_format={"type": "json_object", "json_schema": schema})
    assert json.loads(text_of(events)) == {"city": "Paris", "year": 1}


async def test_models_are_looked_up() -> None:
    async with connected() as client:
        assert [model.name for model in (await client.models.list()).models] == ["sim"]


async def test_blocking_client_reads_the_same() -> None:
    async with Simulator(Script((Turn(text="Hello."),)), dialects=[Cohere()]) as simulator:
        options: Any = {"model": "sim", "messages": ASKED}
        with cohere.ClientV2(api_key="sim-key", base_url=simulator.url) as own:
            events = await asyncio.to_thread(lambda: list(own.chat_stream(**options)))
    assert text_of(events) == "Hello."
