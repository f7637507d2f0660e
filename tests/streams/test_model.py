"""A model holds default options, and wrong options fail where they are given."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.middleware import fallback, wrap
from llmstream.testing import ScriptedModel


def look() -> str:
    """Look."""
    return "seen"


def model(**options) -> ls.Model:
    return ls.Model("openai-chat:m", api_key="k", **options)


def test_call_options_override_model_options() -> None:
    one = model(temperature=0.2, top_p=0.5, instructions="Be brief.", tools=(tool for tool in [look]))
    first, second = one.request("Hi"), one.request("Hi", temperature=1, instructions="Be kind.", tools=[])
    assert (first.settings.temperature, first.settings.top_p) == (0.2, 0.5)
    assert first.messages[0] == ls.Message.system("Be brief.")
    assert [tool.name for tool in first.tools] == ["look"]
    assert (second.settings.temperature, second.settings.top_p) == (1, 0.5)
    assert second.messages[0] == ls.Message.system("Be kind.")
    assert second.tools == ()
    assert one.request("Hi", temperature=None).settings.temperature == 0.2


def test_call_settings_override_single_keys() -> None:
    one = model(settings=ls.Settings(temperature=0.2, seed=7), stop="x")
    for settings in (ls.Settings(temperature=0.9), {"temperature": 0.9}):
        found = one.request("Hi", settings=settings).settings
        assert found == ls.Settings(temperature=0.9, seed=7, stop=("x",))


def test_wrong_default_refused_at_creation() -> None:
    with pytest.raises(ls.InvalidRequest, match="Did you mean max_output_tokens="):
        model(max_tokens=5)
    with pytest.raises(ls.InvalidRequest, match="temperature must be a number, got 'hot'"):
        model(temperature="hot")


async def test_streams_and_wrappers_use_defaults() -> None:
    inner = ScriptedModel("Yes.", repeat_last=True)
    inner.options = model(temperature=0.2, instructions="Be brief.").options
    for one in (inner, wrap(inner, fallback("sim:demo"))):
        await one.stream("Hi").collect()
        async for _ in one.events("Hi"):
            pass
    for request in inner.requests:
        assert request.settings.temperature == 0.2
        assert [message.role for message in request.messages] == ["system", "user"]
    assert len(inner.requests) == 4


async def test_agent_uses_defaults_of_its_model() -> None:
    """Its own defaults override them."""
    inner = ScriptedModel("Yes.", repeat_last=True)
    inner.options = model(temperature=0.2, instructions="Be brief.", tools=[look]).options
    await ls.Agent(inner).run("Hi")
    await ls.Agent(inner, instructions="Be kind.", temperature=1, tools=[]).run("Hi")
    first, second = inner.requests
    assert [m.text for m in first.messages] == ["Be brief.", "Hi"]
    assert (first.settings.temperature, [tool.name for tool in first.tools]) == (0.2, ["look"])
    assert [m.text for m in second.messages] == ["Be kind.", "Hi"]
    assert second.settings.temperature == 1


async def test_continuing_model_uses_own_defaults() -> None:
    first, second = ScriptedModel("One two three."), ScriptedModel("four.")
    first.options, second.options = model(temperature=0.1, top_p=0.4).options, model(temperature=0.9).options
    async with first.stream("Count.", top_p=0.3) as stream:
        async for event in stream:
            if isinstance(event, ls.TextDelta):
                break
    await stream.continue_with(second).collect()
    settings = second.requests[0].settings
    assert (settings.temperature, settings.top_p) == (0.9, 0.3)


@pytest.mark.parametrize("wrong", [{"temprature": 1}, {"reasoning": "hgih"}])
def test_chunks_refuse_wrong_options_at_call(wrong) -> None:
    with pytest.raises(ls.InvalidRequest):
        model().tools_stream("Hi", [], **wrong)
    with pytest.raises(ls.InvalidRequest):
        model().tools_stream("Hi", 5)
