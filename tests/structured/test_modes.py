"""One question for a typed answer to Claudes of every age, wherever they are served."""

from __future__ import annotations

import msgspec
import pytest

import llmstream as ls
from llmstream.grammar import check
from llmstream.providers.registry import find_provider
from llmstream.simulator import Call, Script, Simulator, Turn


class City(msgspec.Struct):
    """A city."""

    name: str
    inhabitants: int


OSLO = City("Oslo", 717710)
TEXT = '{"name": "Oslo", "inhabitants": 717710}'
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "inhabitants": {"type": "integer"}},
    "required": ["name", "inhabitants"],
}

BY_SCHEMA = [
    ("anthropic", "claude-sonnet-4-5"),
    ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock-invoke", "eu.anthropic.claude-opus-4-6-v1:0"),
    ("vertex-anthropic", "claude-opus-5-5"),
]
BY_TOOL = [
    ("anthropic", "claude-3-5-haiku-latest"),
    ("anthropic", "claude-opus-4-20250514"),
    ("bedrock", "anthropic.claude-3-7-sonnet-20250219-v1:0"),
    ("bedrock-invoke", "us.anthropic.claude-sonnet-4-20250514-v1:0"),
    ("vertex-anthropic", "claude-sonnet-4-5@20250929"),
    ("vertex-anthropic", "claude-opus-4-7"),
]


class Vendor:
    """Says the answer as it is asked for: as the call that is forced, or as text."""

    def __init__(self) -> None:
        self.request: ls.Request | None = None

    def turn(self, request: ls.Request, number: int) -> Turn:
        self.request = request
        choice = request.tool_choice
        if isinstance(choice, ls.NamedTool):
            return Turn(calls=(Call(choice.name, TEXT),))
        if choice == "required":
            return Turn(calls=(Call(request.tools[-1].name, TEXT),))
        return Turn(text=TEXT)


async def answered(monkeypatch, name, model, **options):
    """The stream after it was read, its values, and what the vendor was asked."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "global")
    vendor = Vendor()
    async with Simulator(vendor, dialects=[find_provider(name).dialect]) as simulator:
        asked = ls.Model(f"{name}:{model}", base_url=simulator.url, api_key="none-at-all")
        stream = asked.stream("Tell me of Oslo.", **options)
        values = [value async for value in stream.objects()]
    return stream, values, vendor.request


@pytest.mark.parametrize(("name", "model"), BY_SCHEMA + BY_TOOL)
async def test_a_type_is_answered_alike(monkeypatch, name, model) -> None:
    stream, values, request = await answered(monkeypatch, name, model, output=City)
    assert values[-1] == stream.object == OSLO
    assert len(values) > 1  # it grows, also out of a tool's input
    assert (stream.text, stream.finish_reason, stream.pending_calls) == (TEXT, "stop", [])
    assert (request.response_format is not None) == ((name, model) in BY_SCHEMA)


@pytest.mark.parametrize(("name", "model"), BY_SCHEMA + BY_TOOL)
async def test_a_schema_is_answered_alike(monkeypatch, name, model) -> None:
    stream, values, request = await answered(monkeypatch, name, model, output=SCHEMA)
    assert values[-1] == {"name": "Oslo", "inhabitants": 717710}
    assert stream.text == TEXT
    assert (request.response_format is not None) == ((name, model) in BY_SCHEMA)


@pytest.mark.parametrize(("name", "model"), BY_TOOL)
async def test_other_tools_force_any_call(monkeypatch, name, model) -> None:
    """The typed response still arrives as text."""

    def weather(city: str) -> str:
        return city

    stream, values, request = await answered(monkeypatch, name, model, output=City, tools=[weather])
    assert request.tool_choice == "required"
    assert values[-1] == OSLO
    assert stream.message.tool_calls == []


@pytest.mark.parametrize(("name", "model"), [BY_TOOL[1], BY_TOOL[3], BY_TOOL[4]])
async def test_thinking_model_is_asked_in_prompt(monkeypatch, name, model) -> None:
    """No tool can be forced on a thinking model."""
    options = {"output": City, "reasoning": 2048}
    _, values, request = await answered(monkeypatch, name, model, **options)
    assert values[-1] == OSLO
    assert (request.tools, request.response_format, request.tool_choice) == ((), None, None)
    assert "JSON schema" in request.messages[0].text


async def test_native_mode_can_still_be_requested(monkeypatch) -> None:
    wanted = ls.Output(City, mode="json_schema")
    _, values, request = await answered(monkeypatch, "vertex-anthropic", "claude-opus-4-7", output=wanted)
    assert values[-1] == OSLO
    assert request.response_format is not None


async def test_tool_mode_events_obey_the_grammar(monkeypatch) -> None:
    """They form a text block."""
    script = Script((Turn(calls=(Call("City", TEXT),)),))
    async with Simulator(script) as simulator:
        model = ls.Model("anthropic:claude-3-5-haiku-latest", base_url=simulator.url, api_key="none-at-all")
        events = [event async for event in model.events("Oslo?", output=City)]
    assert check(events) == []
    assert "".join(event.delta for event in events if isinstance(event, ls.TextDelta)) == TEXT
    assert not any(isinstance(event, (ls.ToolInputStart, ls.ToolCall)) for event in events)
