"""The default script decides from the request alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.request import NamedTool, ProviderTool, ReasoningOptions, Request, ResponseFormat, ToolSpec
from llmstream.simulator import Call, Demo, Turn
from llmstream.simulator.demo import sample_value

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = ToolSpec("weather", "", CITY)
CLOCK = ToolSpec("clock")


def turn(*messages: Message, **fields: object) -> Turn:
    return Demo().turn(Request(model="m", messages=messages, **fields), 0)  # type: ignore[arg-type]


def test_with_tools_it_calls_the_first() -> None:
    said = turn(Message.user("How warm?"), tools=(ProviderTool("web"), WEATHER, CLOCK))
    assert said.calls == (Call("weather", {"city": "Paris"}),)
    assert said.text
    assert not said.reasoning
    thinks = ReasoningOptions(effort="low")
    assert turn(Message.user("How warm?"), tools=(WEATHER,), reasoning=thinks).reasoning


def test_a_forced_call_stands_alone() -> None:
    """Clients that force a call to get JSON take any text before it for the answer."""
    for choice in ("required", NamedTool("weather")):
        said = turn(Message.user("How warm?"), tools=(WEATHER,), tool_choice=choice)
        assert (said.reasoning, said.text) == ("", "")
        assert said.calls == (Call("weather", {"city": "Paris"}),)


def test_plain_text_tool_gets_the_prompt() -> None:
    chat = ProviderTool("custom", options={"custom": {"name": "shell"}})
    for tool in (chat, ProviderTool("custom", "shell")):
        assert turn(Message.user("ls -la"), tools=(tool,)).calls == (Call("shell", "ls -la"),)
    assert turn(tools=(chat, CLOCK), tool_choice=NamedTool("shell")).calls == (Call("shell", ""),)


def test_a_tool_choice_is_obeyed() -> None:
    assert turn(tools=(WEATHER, CLOCK), tool_choice=NamedTool("clock")).calls == (Call("clock", {}),)
    assert turn(tools=(WEATHER,), tool_choice="none").calls == ()


def test_results_are_quoted() -> None:
    history = (
        Message.user("How warm?"),
        Message.assistant(ToolCall("c", "weather", "{}")),
        Message.tool([ToolResult("c", "7 °C", name="weather")]),
    )
    said = turn(*history, tools=(WEATHER,))
    assert said.calls == ()
    assert "weather says: 7 °C" in said.text
    assert turn(*history, Message.user("And now?"), tools=(WEATHER,)).calls


def test_demo_without_tools_quotes_prompt() -> None:
    said = turn(Message.system("Be brief."), Message.user("Why is the sky blue?"))
    assert "You said: Why is the sky blue?" in said.text
    assert "5 words" in said.text
    assert not said.reasoning


def test_reasoning_comes_when_asked_for() -> None:
    assert turn(Message.user("x"), reasoning=ReasoningOptions(effort="low")).reasoning
    assert not turn(Message.user("x"), reasoning=ReasoningOptions(effort="none")).reasoning
    adaptive = {"thinking": {"type": "adaptive"}}
    for own in (adaptive, {"think": True}, {"additionalModelRequestFields": adaptive}):
        assert turn(Message.user("x"), provider_options={"acme": own}).reasoning
    for own in ({"thinking": {"type": "between_tools"}}, {"thinking": True}, {"think": False}):
        assert not turn(Message.user("x"), provider_options={"acme": own}).reasoning


def test_a_schema_gets_json() -> None:
    assert json.loads(turn(response_format=ResponseFormat(CITY)).text) == {"city": "Paris"}
    assert isinstance(json.loads(turn(response_format=ResponseFormat()).text), dict)


def test_no_prompt_at_all_is_answered() -> None:
    assert "simulator" in turn().text


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"city": {"type": "string"}}}, {"city": "Paris"}),
        (
            {"type": "object", "properties": {"a": {}, "b": {"type": "boolean"}}, "required": ["b"]},
            {"b": True},
        ),
        ({"type": "object"}, {}),
        ({"enum": ["c", "f"]}, "c"),
        ({"const": 5}, 5),
        ({"type": "string", "default": "x"}, "x"),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "string", "maxLength": 3}, "how"),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "number", "maximum": 0.5}, -0.5),
        ({"type": "integer", "minimum": 1, "multipleOf": 5}, 5),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"type": ["null", "string"]}, "how warm is it?"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
        ({"allOf": [{"type": "object"}, {"properties": {"n": {"type": "integer"}}}]}, {"n": 1}),
        ({"$ref": "#/$defs/P", "$defs": {"P": {"type": "integer"}}}, 1),
        ({"$ref": "#/$defs/nothing"}, "how warm is it?"),
        (True, None),
    ],
)
def test_values_fit_their_schema(schema: Any, value: object) -> None:
    assert sample_value(schema, prompt="how warm is it?") == value


def test_a_recursive_schema_comes_to_an_end() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}
    assert sample_value({"$ref": "#/$defs/N", "$defs": {"N": node}})["next"]["next"]


def _size(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, inner))


def test_a_schema_that_branches_into_itself_is_answered_at_once() -> None:
    names = list("abcdef")
    itself = {name: {"$ref": "#"} for name in names}
    nullable = {name: {"anyOf": [{"$ref": "#"}, {"type": "null"}]} for name in names}
    for node in (
        {"type": "object", "properties": nullable, "required": names},
        {"type": "object", "properties": itself},
        {"type": ["object", "null"], "properties": itself, "required": names},
    ):
        value = sample_value(node)
        assert list(value) == list(value["a"]) == names
        # Cut at the depth, not by the size: each property is an object or may be absent.
        assert _size(value) < 2_000
    endless = {"type": "object", "properties": itself, "required": names}
    assert _size(sample_value(endless)) < 200_000
    assert sample_value({"allOf": [{"$ref": "#"}] * 4, "type": "boolean"}) is True


def test_a_schema_does_not_ask_for_more_than_memory_holds() -> None:
    rows = {"type": "array", "minItems": 10**12, "items": {"type": "array", "minItems": 10**12}}
    assert _size(sample_value(rows)) < 200_000
    assert len(sample_value({"type": "string", "minLength": 10**12})) < 200_000
    assert len(sample_value({"type": "array", "minItems": 500, "items": {"minLength": 20}})) == 500
