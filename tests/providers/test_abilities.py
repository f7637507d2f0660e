from __future__ import annotations

from dataclasses import replace

import pytest

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    OpenAIChat,
    Quirks,
    SchemaQuirks,
    SettingQuirks,
    ToolQuirks,
)
from llmstream.providers.abilities import abilities
from llmstream.providers.registry import find_provider, provider_names


@pytest.mark.parametrize("name", provider_names())
def test_without_tools_no_tool_abilities(name):
    can = abilities(find_provider(name))
    if not can.tools:
        assert not any((can.forced_call, can.named_call, can.single_call, can.strict_tools))
    assert "bytes" in can.images or "url" not in can.images


def test_missing_abilities_are_found():
    ollama = abilities(find_provider("ollama"))
    assert ollama.tools
    assert not ollama.forced_call
    assert not ollama.strict_tools
    assert (ollama.images, ollama.documents, ollama.audio) == (("bytes",), (), ())
    assert not abilities(find_provider("deepseek")).json_schema
    assert abilities(find_provider("openai")).audio == ("bytes",)
    assert not abilities(find_provider("bedrock")).audio


def test_a_quirk_shows_at_once():
    quirks = Quirks(
        tools=ToolQuirks(functions=False),
        media=MediaQuirks(image_urls=False),
        schemas=SchemaQuirks(output="json_object"),
        settings=SettingQuirks(stream_options=False),
    )
    can = abilities(replace(find_provider("openai"), dialect=OpenAIChat(quirks)))
    assert (can.tools, can.json_schema, can.json_object, can.usage) == (False, False, True, False)
    assert can.images == ("bytes",)
