"""Typed objects from a stream: every mode over three wires, cuts, repair, and arguments that still come."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any, Literal, TypedDict

import msgspec
import pytest
from msgspec import UNSET

import llmstream as ls
from llmstream.simulator import Call, Cut, Script, Simulator, Turn
from llmstream.testing import ScriptedModel

PROVIDERS = ("openai", "anthropic", "ollama")
PATHS = {"openai": "/v1"}
MODES = ("json_schema", "tool", "prompt")


class City(msgspec.Struct):
    """A city."""

    name: str
    people: int
    rivers: list[str] = []


@dataclasses.dataclass(frozen=True)
class Person:
    name: str
    born: int = 1900


class Note(TypedDict, total=False):
    title: str
    stars: int


class Circle(msgspec.Struct, tag=True):
    radius: float


class Square(msgspec.Struct, tag=True):
    side: float


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


OSLO = City("Oslo", 700_000, ["Akerselva", "Alna"])
VALUES: list[tuple[Any, Any]] = [
    (City, OSLO),
    (list[City], [OSLO, City("Bergen", 290_000)]),
    (Circle | Square, Square(2.5)),
    (list[Circle | Square], [Circle(1.0), Square(2.0)]),
    (Person, Person("Ada", 1815)),
    (Note, {"title": "Milk", "stars": 3}),
    (Literal["yes", "no"], "yes"),
    (City | None, None),
    (set[str], {"a", "b"}),
    (tuple[int, str], (1, "a")),
    (dict[str, int], {"a": 1}),
    (Size, Size.LARGE),
    (str, "a text"),
]


def said(value: Any, output: ls.Output) -> Any:
    """The JSON value that stands for a value on the wire."""
    plain = msgspec.to_builtins(value, str_keys=True)
    return plain if output.wrapper is None else {output.wrapper: plain}


def turn(value: Any, output: ls.Output, tool: bool) -> Turn:
    wire = said(value, output)
    return Turn(calls=(Call(output.format.name, wire),)) if tool else Turn(text=json.dumps(wire))


def model(provider: str, simulator: Simulator) -> ls.Model:
    return ls.Model(f"{provider}:m", base_url=simulator.url + PATHS.get(provider, ""), api_key="k")


async def test_each_type_and_mode_over_each_wire() -> None:
    for mode in MODES:
        for output_type, value in VALUES:
            output = ls.Output(output_type, mode=mode, repair=0)
            async with Simulator(Script((turn(value, output, mode == "tool"),))) as simulator:
                for provider in PROVIDERS:
                    async with model(provider, simulator).stream("x", output=output) as stream:
                        given = [found async for found in stream.objects()]
                    where = (mode, output_type, provider)
                    assert stream.object == value, where
                    assert type(stream.object) is type(value), where
                    by_item = list(value) if output.item_type is not None else []
                    if output.is_set:  # in the order of the wire, whatever the set's own
                        assert sorted(given) == sorted(by_item), where
                    else:
                        assert given == (by_item or [*given[:-1], value]), where
                    assert stream.finish_reason == "stop", where
                    assert stream.pending_calls == [], where
                    assert [m.role for m in stream.messages()] == [ls.Role.USER, ls.Role.ASSISTANT]
                    asked = simulator.requests[-1].request
                    assert (asked.tool_choice is not None) == (mode == "tool" and provider != "ollama"), where
                    assert ("JSON schema" in "".join(map(str, asked.messages))) == (mode == "prompt"), where


async def objects(*turns: str | Turn, output: Any) -> tuple[list[Any], ls.EventStream]:
    async with ScriptedModel(*turns).stream("x", output=output) as stream:
        return [value async for value in stream.objects()], stream


async def test_structs_grow_with_unset_fields() -> None:
    """UNSET stands for what has not arrived."""
    given, _ = await objects(json.dumps(msgspec.to_builtins(OSLO)), output=City)
    assert given[0].people is UNSET
    assert given[0].rivers is UNSET
    assert all(isinstance(value, City) for value in given)
    assert all(len({repr(a), repr(b)}) == 2 for a, b in itertools.pairwise(given))
    assert all(OSLO.name.startswith(value.name) for value in given)
    assert {value.people for value in given} == {UNSET, OSLO.people}  # never half a number
    assert type(given[-1]) is City
    assert given[-1] == OSLO


async def test_dataclass_and_typed_dict_grow() -> None:
    given, _ = await objects('{"name": "Ada Lovelace", "born": 1815}', output=Person)
    assert all(isinstance(value, Person) for value in given)
    assert given[0].born is UNSET
    assert given[-1] == Person("Ada Lovelace", 1815)
    given, _ = await objects('{"title": "Milk and bread", "stars": 3}', output=Note)
    assert "stars" not in given[0]
    assert given[-1] == {"title": "Milk and bread", "stars": 3}


async def test_union_is_hidden_before_its_tag() -> None:
    given, _ = await objects('{"value": {"radius": 1.5, "type": "Circle"}}', output=Circle | Square)
    assert given == [Circle(1.5)]


async def test_elements_come_when_they_are_whole() -> None:
    text = '{"items": [{"name": "Oslo", "people": 1}, {"name": "Rome", "people": 2}]}'
    async with ScriptedModel(text).stream("x", output=list[City]) as stream:
        seen = [(value.name, stream.text.count("}")) async for value in stream.objects()]
    assert seen == [("Oslo", 1), ("Rome", 3)]  # the last fragment of text has two braces
    assert stream.object == [City("Oslo", 1), City("Rome", 2)]


async def test_untyped_response_is_plain_json() -> None:
    given, stream = await objects('{"a": [1, 2], "b": "text"}', output="json")
    assert given[-1] == stream.object == {"a": [1, 2], "b": "text"}


async def test_prose_and_fences_are_harmless() -> None:
    for text in (
        'Here {it} is:\n```json\n{"name": "Oslo", "people": 1}\n```\nAnything else?',
        'Sure! {"name": "Oslo", "people": 1}',
    ):
        given, _ = await objects(text, output=ls.Output(City, repair=0))
        assert given[-1] == City("Oslo", 1)
    given, stream = await objects('[{"name": "Oslo", "people": 1}]', output=ls.Output(list[City], repair=0))
    assert given == stream.object == [City("Oslo", 1)]


async def test_null_fills_required_strict_fields() -> None:
    """Strict modes let no field out."""
    given, _ = await objects(
        '{"name": "Oslo", "people": 1, "rivers": null}', output=ls.Output(City, repair=0)
    )
    assert given[-1] == City("Oslo", 1)
    text = '{"items": [{"name": "Oslo", "people": 1, "rivers": null}]}'
    given, _ = await objects(text, output=ls.Output(list[City], repair=0))
    assert given == [City("Oslo", 1)]


async def test_model_repairs_invalid_output() -> None:
    scripted = ScriptedModel('{"name": "Oslo", "people": "many"}', '{"name": "Oslo", "people": 7}')
    async with scripted.stream("x", output=City) as stream:
        given = [value async for value in stream.objects()]
    assert given[-1] == stream.object == City("Oslo", 7)
    told = scripted.requests[1].messages[-1]
    assert told.role == ls.Role.USER
    assert "Expected `int`, got `str` - at `$.people`" in told.text
    assert [m.role.value for m in stream.messages()] == ["user", "assistant", "user", "assistant"]


async def test_repair_gives_no_element_twice() -> None:
    wrong = '{"items": [{"name": "Oslo", "people": 1}, {"name": "Rome"}]}'
    right = '{"items": [{"name": "Oslo", "people": 1}, {"name": "Rome", "people": 2}]}'
    given, _ = await objects(wrong, right, output=list[City])
    assert given == [City("Oslo", 1), City("Rome", 2)]


async def test_repairs_bounded_and_text_stored() -> None:
    scripted = ScriptedModel('{"name": 1}', repeat_last=True)
    async with scripted.stream("x", output=ls.Output(City, repair=2)) as stream:
        with pytest.raises(ls.InvalidOutput, match="does not fit City") as raised:
            async for _ in stream.objects():
                pass
    assert len(scripted.requests) == 3
    assert raised.value.partial.text == '{"name": 1}'
    assert raised.value.reason == "schema"
    assert raised.value.provider == "scripted"


@pytest.mark.parametrize(("text", "reason"), [("", "empty"), ("No.", "json"), ('{"name"', "json")])
async def test_what_is_no_json_is_said_to_be_none(text: str, reason: str) -> None:
    with pytest.raises(ls.InvalidOutput) as raised:
        await objects(Turn(text=text, reasoning="Hm."), output=ls.Output(City, repair=0))
    assert raised.value.reason == reason


async def test_length_cut_response_is_not_repaired() -> None:
    scripted = ScriptedModel(Turn(text='{"name": "Os', finish_reason="length"))
    async with scripted.stream("x", output=ls.Output(City, repair=3)) as stream:
        with pytest.raises(ls.InvalidOutput) as raised:
            [value async for value in stream.objects()]
    assert raised.value.reason == "length"
    assert len(scripted.requests) == 1


async def test_cut_stream_gives_partial_and_fails() -> None:
    for mode in MODES:
        output = ls.Output(City, mode=mode)
        whole = turn(OSLO, output, mode == "tool")
        cut = msgspec.structs.replace(whole, fault=Cut(after_events=7))
        async with Simulator(Script((cut,))) as simulator:
            for provider in ("openai", "anthropic"):
                given = []
                async with model(provider, simulator).stream("x", output=output) as stream:
                    with pytest.raises(ls.LLMStreamError) as raised:
                        async for value in stream.objects():
                            given.append(value)
                    assert not isinstance(raised.value, ls.InvalidOutput)
                    with pytest.raises(type(raised.value)):
                        _ = stream.object
                assert given, (mode, provider)
                assert given[-1] != OSLO


async def test_set_element_comes_once_in_any_order() -> None:
    words = [f"word {number}" for number in range(40)]
    given, _ = await objects(json.dumps({"items": [*words, *words]}), output=set[str])
    assert given == words
    agent = ls.Agent(ScriptedModel(json.dumps({"items": [*words, *words]})), output=set[str])
    assert [found async for found in agent.stream("x").objects()] == words


async def test_failures_stay_quiet_as_events() -> None:
    async with ScriptedModel("No.").stream("x", output=ls.Output(City, repair=0), errors="events") as stream:
        assert [value async for value in stream.objects()] == []
        with pytest.raises(ls.InvalidOutput):
            _ = stream.object


async def test_no_object_before_the_end() -> None:
    async with ScriptedModel("{}").stream("x", output=City) as stream:
        with pytest.raises(ls.InvalidRequest, match="not complete"):
            _ = stream.object


async def test_a_left_stream_is_not_asked_again() -> None:
    scripted = ScriptedModel('{"name": "Oslo", "people": 1}')
    async with scripted.stream("x", output=City) as stream:
        async for _ in stream.objects():
            break
        await stream.aclose()
        with pytest.raises(ls.InvalidRequest, match="closed before its end"):
            [value async for value in stream.objects()]
    assert len(scripted.requests) == 1


async def test_tools_first_then_the_response() -> None:
    def weather(city: str) -> str:
        """Tell the weather."""
        return "cold"

    for provider in PROVIDERS:
        output = ls.Output(City, mode="tool")
        script = Script((Turn(calls=(Call("weather", {"city": "Oslo"}),)), turn(OSLO, output, True)))
        async with Simulator(script) as simulator:
            asked = model(provider, simulator).stream("x", tools=[weather], output=output)
            async with asked as stream:
                assert [value async for value in stream.objects()] == []
                assert [status.error for status in await stream.call_tools()] == [None]
                given = [value async for value in stream.objects()]
        assert given[-1] == OSLO
        assert stream.pending_calls == []


async def test_tool_mode_events_are_plain_text() -> None:
    output = ls.Output(City, mode="tool")
    async with Simulator(Script((turn(OSLO, output, True),))) as simulator:
        for provider in PROVIDERS:
            events = [e async for e in model(provider, simulator).events("x", output=output)]
            assert ls.grammar.check(events) == []
            assert not any(isinstance(e, ls.ToolCall | ls.ToolInputStart) for e in events)
            text = "".join(e.delta for e in events if isinstance(e, ls.TextDelta))
            assert msgspec.json.decode(text, type=City) == OSLO


@pytest.fixture
async def writing() -> AsyncIterator[ls.EventStream]:
    call = Call("write", {"path": "a.py", "lines": ["one", "two"], "n": 12})
    async with ScriptedModel(Turn(calls=(call,))).stream("x") as stream:
        yield stream


async def test_arguments_are_there_at_every_event(writing: ls.EventStream) -> None:
    shown, id = [], ""
    async for event in writing:
        if isinstance(event, ls.ToolInputStart):
            id = event.id
        shown.append(json.dumps(writing.tool_input(id)))
    raw = writing.accumulator.tool_input(id)
    assert writing.tool_input(id) == json.loads(raw) == {"path": "a.py", "lines": ["one", "two"], "n": 12}
    assert shown[0] == "null"
    assert len(set(shown)) == 5
    assert writing.tool_input("no such call") is None


async def test_arguments_equal_when_read_once(writing: ls.EventStream) -> None:
    await writing.collect()
    [call] = writing.accumulator.tool_calls
    assert writing.tool_input(call.id) == json.loads(call.arguments)


async def test_huge_response_is_not_sent_back() -> None:
    scripted = ScriptedModel('{"name": "' + "x" * 600_000 + '"}')
    with pytest.raises(ls.InvalidOutput):
        async with scripted.stream("x", output=ls.Output(City, repair=3)) as stream:
            async for _ in stream.objects():
                pass
    assert len(scripted.requests) == 1
