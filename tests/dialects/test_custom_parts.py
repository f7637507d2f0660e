"""Parts that no wire knows are left out with a warning, on every wire alike."""

from __future__ import annotations

import pytest

from llmstream import chats as c
from llmstream.chats import Message, Role
from llmstream.dialects.history_parts import without_custom_parts
from llmstream.providers.registry import find_provider
from llmstream.request import Request

WIRES = [
    "openai", "openai-responses", "anthropic", "google", "google-interactions", "bedrock", "cohere",
    "mistral", "ollama", "groq",
]  # fmt: skip
PARTS = [c.Custom("acme.geo", {"lat": 1}), c.UnknownPart("geo", b'{"kind":"geo","lat":1}')]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("role", [Role.USER, Role.ASSISTANT, Role.SYSTEM])
@pytest.mark.parametrize("name", WIRES)
def test_unknown_custom_part_is_warned_of(name: str, role: Role, part: c.Part) -> None:
    told = Message("", role, (c.Text("said"), part))
    messages = [Message.user("Hi"), told, Message.user("More")]
    dialect = find_provider(name).dialect
    encoded = dialect.encode(Request(model="m", messages=messages), provider=name)
    assert b"said" in encoded.http.body
    assert b"lat" not in encoded.http.body
    assert len([w for w in encoded.warnings if "left out" in str(w)]) == 1


def test_only_emptied_messages_are_removed() -> None:
    heard: list[str] = []
    hello = Message.user("Hi")
    kept = list(without_custom_parts([hello, Message("", Role.USER, (PARTS[1],))], heard.append))
    assert kept == [hello]
    assert kept[0] is hello
    assert heard == ["a part of kind 'geo' was left out: the API does not support it"]
