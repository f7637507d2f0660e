"""`Model.ask`: one answer, as a message or as the value that was asked for."""

from __future__ import annotations

import msgspec
import pytest

import llmstream as ls
from llmstream.testing import Call, Cut, ScriptedModel, Turn


class City(msgspec.Struct):
    name: str


async def test_ask_gives_the_message() -> None:
    answer = await ScriptedModel("Hello.").ask("Hi", temperature=0)
    assert isinstance(answer, ls.Message)
    assert str(answer) == "Hello."


async def test_ask_with_output_gives_the_value() -> None:
    assert await ScriptedModel('{"name": "Oslo"}').ask("Hi", output=City) == City("Oslo")
    assert await ScriptedModel('{"a": [1]}').ask("Hi", output="json") == {"a": [1]}


async def test_ask_takes_output_from_the_model() -> None:
    model = ScriptedModel('{"name": "Oslo"}')
    model.options = ls.Model("sim:demo", output=City).options
    assert await model.ask("Hi") == City("Oslo")


async def test_ask_repairs_as_objects_does() -> None:
    model = ScriptedModel("No.", '{"name": "Oslo"}', '{"name": 1}')
    assert await model.ask("Hi", output=City) == City("Oslo")
    with pytest.raises(ls.InvalidOutput):
        await model.ask("Hi", output=ls.Output(City, repair=0))


async def test_ask_raises_what_the_stream_raises() -> None:
    with pytest.raises(ls.LLMStreamError) as raised:
        await ScriptedModel(Turn(text="Half of it", fault=Cut(after_events=4))).ask("Hi")
    assert raised.value.partial is not None


async def test_ask_leaves_calls_in_the_message() -> None:
    answer = await ScriptedModel(Turn(calls=(Call("look", {}),))).ask("Hi")
    assert [call.name for call in answer.tool_calls] == ["look"]
