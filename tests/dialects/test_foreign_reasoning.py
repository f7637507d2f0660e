"""Whose reasoning it is: by its vendor's metadata, by its mark, or by what stands beside it."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.accumulate import Accumulator
from llmstream.chats import Chat, Message, Reasoning, Text
from llmstream.dialects.history_parts import FOREIGN_REASONING, MessageVendors, is_foreign, with_origin
from llmstream.events import (
    OtherWarning,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamStart,
    TextStart,
)
from llmstream.providers.registry import find_provider
from llmstream.request import Request
from llmstream.simulator import Script, Simulator, Turn

MARK = {"llmstream": {"origin": "deepseek"}}


@pytest.mark.parametrize(
    ("metadata", "key", "provider", "foreign"),
    [
        (None, "ollama", "ollama", False),
        (MARK, "deepseek", "deepseek", False),
        (MARK, "ollama", "ollama", True),
        ({"llmstream": {"origin": "sim-ollama"}}, "ollama", "sim-ollama", False),
        ({**MARK, "ollama": {"x": 1}}, "ollama", "ollama", False),
        ({"anthropic": {"signature": "s"}}, "ollama", "ollama", True),
        ({"llmstream": {"origin": 7}}, "ollama", "ollama", False),
        ({"llmstream": "?"}, "ollama", "ollama", False),
    ],
)
def test_whose_it_is(metadata, key, provider, foreign) -> None:
    part = Reasoning("hm", metadata)
    assert is_foreign(part, MessageVendors(Message.assistant(part, Text("a"))), key, provider) == foreign


def test_own_mark_outranks_its_neighbours() -> None:
    part = Reasoning("hm", MARK)
    message = Message.assistant(part, Text("a", {"ollama": {}}))
    assert is_foreign(part, MessageVendors(message), "ollama")


def test_only_unmarked_reasoning_is_marked() -> None:
    signed = ReasoningStart("1", {"anthropic": {"redacted_data": "x"}})
    events = [ReasoningStart("0"), ReasoningDelta("hm", "0"), signed, TextStart("2")]
    marked = with_origin(events, "deepseek")
    assert marked == [ReasoningStart("0", MARK), *events[1:]]


def test_mark_alone_makes_no_reasoning_part() -> None:
    fold = Accumulator()
    fold.feed_many([StreamStart(), ReasoningStart("0", MARK), ReasoningEnd("0")])
    assert fold.partial.parts == ()
    fold.feed_many(
        [ReasoningStart("1", MARK), ReasoningEnd("1", provider_metadata={"a": {"signature": "s"}})]
    )
    assert [part.metadata for part in fold.partial.parts] == [{**MARK, "a": {"signature": "s"}}]


async def heard(name: str) -> Message:
    """What a model of a provider answers, as a stream gives it."""
    async with Simulator(Script((Turn(reasoning="Let me see.", text="Yes."),))) as simulator:
        model = ls.Model(f"{name}:m", base_url=f"{simulator.url}/v1", api_key="none-at-all")
        return await model.stream("Hi").collect()


async def test_conversation_keeps_reasoning_origin() -> None:
    said = await heard("moonshot")
    assert said.parts[0] == Reasoning("Let me see.", {"llmstream": {"origin": "moonshot"}})
    chat = Chat.from_json(Chat(Message.user("Hi"), said, Message.user("And?")).to_json())
    request = Request(model="m", messages=tuple(chat.messages()))
    for name, goes in (("moonshot", True), ("deepseek", False), ("ollama", False)):
        encoded = find_provider(name).dialect.encode(request, provider=name)
        assert (b"Let me see." in encoded.http.body) == goes, name
        assert (OtherWarning(FOREIGN_REASONING) in encoded.warnings) == (not goes), name
