"""Attributes of other SDKs: the error says what to write here, and nothing else is changed."""

from __future__ import annotations

import copy
import pickle

import msgspec
import pytest

import llmstream as ls
from llmstream import events, other_sdks
from llmstream.testing import ScriptedModel

MESSAGE = ls.Message.assistant("Hi")


@pytest.mark.parametrize(
    ("value", "name", "remedy"),
    [
        (MESSAGE, "choices", "its text is `text`"),
        (MESSAGE, "content", "all of its content `parts`"),
        (MESSAGE, "output", "With `output=T`"),
        (MESSAGE, "stop_reason", "`stream.finish_reason`"),
        (events.TextDelta("a", "0"), "choices", "case ls.TextDelta(text)"),
        (events.TextDelta("a", "0"), "text", "is `delta`"),
        (events.TextEnd("0"), "type", "`match` one"),
        (ls.Usage(input_tokens=1), "prompt_tokens", "Write `input_tokens`"),
        (ls.Model("sim:demo"), "invoke", "await model.ask(prompt)"),
        (ls.Model("sim:demo"), "with_structured_output", "output=T"),
        (ls.Agent("sim:demo"), "ask", "await agent.run(prompt)"),
        (ls.stream("sim:demo", "Hi"), "choices", "await stream.collect()"),
        (ls.stream("sim:demo", "Hi"), "text_stream", "stream.text_deltas()"),
        (ls.Agent("sim:demo").stream("Hi"), "output", "`object`"),
    ],
)
def test_name_of_another_sdk_is_explained(value, name, remedy) -> None:
    with pytest.raises(AttributeError, match=f"^{type(value).__name__} has no attribute '{name}'") as missing:
        getattr(value, name)
    assert remedy in str(missing.value)
    assert not hasattr(value, name)
    assert name not in dir(value)


@pytest.mark.parametrize("value", [MESSAGE, ls.Model("sim:demo"), ls.Usage()])
def test_any_other_name_is_only_missing(value) -> None:
    with pytest.raises(AttributeError, match=r"object has no attribute 'nothing'$"):
        _ = value.nothing


def test_dir_has_what_a_value_has() -> None:
    assert {"text", "parts", "role", "metadata", "set_meta"} <= set(dir(MESSAGE))
    assert {"provider", "name", "ask", "stream", "retry"} <= set(dir(ls.Model("sim:demo")))


def test_values_are_copied_and_sent_as_ever() -> None:
    usage = ls.Usage(input_tokens=3)
    assert copy.deepcopy(MESSAGE) == pickle.loads(pickle.dumps(MESSAGE)) == MESSAGE
    assert msgspec.json.decode(msgspec.json.encode(usage), type=ls.Usage) == usage
    assert events.decode(events.encode(events.TextDelta("a", "0"))) == events.TextDelta("a", "0")


def test_attribute_of_a_subclass_comes_first() -> None:
    class Chatty(ScriptedModel):
        def invoke(self) -> str:
            return "mine"

    assert Chatty("Hi").invoke() == "mine"


def test_no_name_of_ours_is_called_foreign() -> None:
    kinds = {
        ls.Message: other_sdks.MESSAGE,
        ls.Model: other_sdks.MODEL,
        ls.Agent: other_sdks.AGENT,
        ls.EventStream: other_sdks.STREAM,
        ls.Usage: other_sdks.USAGE,
    }
    for kind, names in kinds.items():
        assert not [name for name in names if hasattr(kind, name)]
    assert not other_sdks.PACKAGE.keys() & set(ls.__all__)
