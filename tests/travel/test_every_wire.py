"""One program over every wire, with the vendors' own providers: the same events but for ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

import llmstream as ls
from llmstream.chats import ToolCall, ToolResult
from llmstream.providers.registry import find_provider
from llmstream.server_side.routing import default_dialects
from llmstream.simulator import Call, Script, Simulator, Turn

ADDRESSES = {
    "anthropic": "",
    "bedrock": "",
    "cohere": "",
    "google": "/v1beta",
    "google-interactions": "/v1beta",
    "mistral": "/mistral",
    "ollama": "",
    "openai": "/v1",
    "openai-responses": "/v1",
}
"""A provider for each dialect, and its address behind the host."""

INPUTS = ({"city": "Łódź", "days": 2}, {"city": "Atlantis"})
SCRIPT = Script(
    (
        Turn(
            reasoning="Two cities, so two calls.",
            text="Привет — let me look.",
            calls=tuple(Call("weather", value) for value in INPUTS),
            usage=ls.Usage(40, 30, 70),
        ),
        Turn(text="It snows in Łódź. 🌨", usage=ls.Usage(90, 12, 102)),
    )
)
PROMPT = "How is the weather in Łódź, and how in Atlantis?"
DONE, FAILED = "Łódź: snow for 2 days", "LookupError: no such city on the map"
OF_ONE_VENDOR = {"id", "toolCallId", "providerMetadata", "rawFinishReason", "timings"}


async def weather(city: str, days: int = 1) -> str:
    """Weather of a city."""
    if city == "Atlantis":
        raise LookupError("no such city on the map")
    return f"{city}: snow for {days} days"


@pytest.fixture(params=sorted(ADDRESSES))
async def spoken(request: pytest.FixtureRequest) -> AsyncIterator[tuple[ls.Model, Simulator]]:
    """A vendor's model whose server is the simulator."""
    name = request.param
    async with Simulator(SCRIPT, api_keys={"sim-key"}) as simulator:
        address = simulator.url + ADDRESSES[name]
        yield ls.Model(f"{name}:some-model", base_url=address, api_key="sim-key"), simulator


def levelled(events: list[ls.Event]) -> list[tuple[Any, ...]]:
    """Type, number of the id, and what is said, of each event; fragments of one input are one.

    What is left out: the vendor's metadata, which model answered (not every wire says it), and
    counts of tokens beyond input, output and total.
    """
    numbers: dict[str, int] = {}
    story: list[tuple[Any, ...]] = []
    for event in events:
        told = msgspec.to_builtins(event)
        if told["type"] == "response-metadata":
            continue
        name = told.get("toolCallId", told.get("id"))
        number = None if name is None else numbers.setdefault(name, len(numbers))
        usage = told.pop("usage", {})
        counts = [usage.get(count) for count in ("inputTokens", "outputTokens", "totalTokens")]
        said = {key: value for key, value in told.items() if key not in OF_ONE_VENDOR}
        if told["type"] == "step-start":
            said.pop("warnings", None)  # each vendor leaves out of a conversation what it does not take
        if usage:
            said["usage"] = counts
        if story and told["type"] == "tool-input-delta" and story[-1][:2] == (number, told["type"]):
            said["delta"] = story.pop()[2]["delta"] + said["delta"]
        story.append((number, said.pop("type"), said))
    return story


def block(number: int, kind: str, words: list[str]) -> list[tuple[Any, ...]]:
    deltas = [(number, f"{kind}-delta", {"delta": word}) for word in words]
    return [(number, f"{kind}-start", {}), *deltas, (number, f"{kind}-end", {})]


def call(number: int, value: dict[str, Any]) -> list[tuple[Any, ...]]:
    text = msgspec.json.encode(value).decode()
    named = {"toolName": "weather"}
    return [
        (number, "tool-input-start", named),
        (number, "tool-input-delta", {"delta": text}),
        (number, "tool-input-end", {}),
        (number, "tool-call", {**named, "input": text}),
    ]


FIRST = [
    *block(0, "reasoning", ["Two", " cities,", " so", " two", " calls."]),
    *block(1, "text", ["Привет", " —", " let", " me", " look."]),
    *call(2, INPUTS[0]),
    *call(3, INPUTS[1]),
]
RESULTS = [
    (2, "tool-result", {"result": DONE, "toolName": "weather"}),
    (3, "tool-result", {"result": FAILED, "toolName": "weather", "isError": True}),
]
SECOND = ["It", " snows", " in", " Łódź.", " 🌨"]
START = (None, "stream-start", {"warnings": []})


def finish(reason: str, *counts: int) -> tuple[Any, ...]:
    return (None, "finish", {"finishReason": reason, "usage": list(counts)})


def step_finish(step: int, reason: str, *counts: int) -> tuple[Any, ...]:
    return (None, "step-finish", {"step": step, "finishReason": reason, "usage": list(counts)})


async def test_agent_gives_same_story_on_each_wire(spoken) -> None:
    model, _ = spoken
    async with ls.Agent(model, tools=[weather], max_steps=5).stream(PROMPT) as run:
        events = [event async for event in run]
    assert levelled(events) == [
        START,
        (None, "step-start", {"step": 0}),
        *FIRST,
        step_finish(0, "tool-calls", 40, 30, 70),
        *RESULTS,
        (None, "step-start", {"step": 1}),
        *block(4, "text", SECOND),
        step_finish(1, "stop", 90, 12, 102),
        finish("stop", 130, 42, 172),
    ]


async def test_manual_loop_is_equal_on_each_wire(spoken) -> None:
    model, _ = spoken
    async with model.stream(PROMPT, tools=[weather]) as stream:
        first = [event async for event in stream]
        statuses = await stream.call_tools()
        second = [event async for event in stream]
        assert await stream.call_tools() == []
    assert levelled(first) == [START, *FIRST, finish("tool-calls", 40, 30, 70)]
    told = levelled(second)
    assert told[0][1] == "stream-start"  # some vendors take no reasoning back, which is a warning
    assert told[1:] == [*block(0, "text", SECOND), finish("stop", 90, 12, 102)]
    assert [status.result.content for status in statuses] == [DONE, FAILED]
    parts = [[part.part_kind for part in message.parts] for message in stream.messages()]
    results = [kind for kinds in parts for kind in kinds if kind == "tool_result"]
    assert parts[1] == ["reasoning", "text", "tool_call", "tool_call"]
    assert (len(results), parts[-1]) == (2, ["text"])


async def test_server_gets_the_same_on_each_wire(spoken) -> None:
    model, simulator = spoken
    async with ls.Agent(model, tools=[weather], max_steps=5).stream(PROMPT) as run:
        async for _ in run:
            pass
    first, second = (received.request for received in simulator.requests)
    assert [received.dialect for received in simulator.requests] == [model.provider.dialect.name] * 2
    assert [message.text for message in first.messages] == [PROMPT]
    ((name, schema),) = [(tool.name, tool.input_schema) for tool in first.tools]
    assert (name, set(schema["properties"]), schema["required"]) == ("weather", {"city", "days"}, ["city"])
    assert second.messages[0].text == PROMPT
    said = [part for message in second.messages[1:] for part in message.parts]
    calls = [part for part in said if isinstance(part, ToolCall)]
    assert [(c.name, msgspec.json.decode(c.arguments)) for c in calls] == [("weather", v) for v in INPUTS]
    results = {part.tool_call_id: part.content for part in said if isinstance(part, ToolResult)}
    assert [c.id for c in calls] == list(results)
    done, failed = results.values()
    assert done == DONE
    assert FAILED in failed  # a wire without a mark for failures says it in words


def test_every_dialect_is_among_them() -> None:
    spoken_here = {find_provider(name).dialect.name for name in ADDRESSES}
    assert spoken_here == {dialect.name for dialect in default_dialects()}
    assert len(spoken_here) == len(ADDRESSES)
