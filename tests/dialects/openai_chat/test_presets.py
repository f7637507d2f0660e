from __future__ import annotations

from llmstream.chats.message import Message
from llmstream.dialects.openai_chat import (
    ModelQuirks,
    OpenAIChat,
    ReasoningQuirks,
    ToolQuirks,
    change,
    hosted,
)
from llmstream.dialects.openai_chat.quirks import OPEN_MODEL_HOST
from llmstream.request import ReasoningOptions, Request, Settings


def test_a_host_says_only_what_is_its_own() -> None:
    assert hosted() == OPEN_MODEL_HOST
    quirks = hosted(
        change(ReasoningQuirks, field="reasoning"),
        by_model=(ModelQuirks("x", change(ToolQuirks, functions=False)),),
    )
    assert (quirks.reasoning.field, quirks.settings.max_tokens_field) == ("reasoning", "max_tokens")
    assert not quirks.for_model("x").tools.functions


def test_open_model_host_gets_older_fields() -> None:
    request = Request(
        model="openai/gpt-oss-120b",
        messages=(Message.system("Be brief."), Message.user("Hi")),
        settings=Settings(max_output_tokens=9, top_k=3, stop=("a", "b", "c", "d", "e")),
        reasoning=ReasoningOptions(effort="max"),
    )
    encoded = OpenAIChat(hosted()).encode(request, provider="host")
    body = encoded.http.json()
    assert body["messages"][0]["role"] == "system"
    assert (body["max_tokens"], body["top_k"], len(body["stop"])) == (9, 3, 5)
    assert body["reasoning_effort"] == "high"  # the most that gpt-oss knows
