"""What the Agent API is sent, which refuses every field that it does not know."""

from __future__ import annotations

from typing import Any

import pytest

from llmstream.chats.content import Custom, Document, Image, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.events import OtherWarning
from llmstream.providers.perplexity import PERPLEXITY
from llmstream.request import (
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolSpec,
)

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LOOK = ToolSpec("look", "Looks it up.", SCHEMA)


def encode(*messages: Message, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    request = Request(
        model=fields.pop("model", "perplexity/sonar"), messages=messages or (Message.user("Hi"),), **fields
    )
    encoded = PERPLEXITY.dialect.encode(request, provider="perplexity")
    said = [warning.message for warning in encoded.warnings if isinstance(warning, OtherWarning)]
    return encoded.http.json(), said


def test_the_plain_request_is_whole() -> None:
    sent, _ = encode(
        Message.system("Be brief."),
        Message.user("Hi"),
        tools=(ProviderTool("web_search", "web_search", {"search_context_size": "low"}), LOOK),
        tool_choice=NamedTool("web_search"),
        settings=Settings(max_output_tokens=99, temperature=0.5),
        reasoning=ReasoningOptions(effort="low"),
    )
    assert sent == {
        "model": "perplexity/sonar",
        "input": [
            {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        ],
        "max_output_tokens": 99,
        "temperature": 0.5,
        "store": False,
        "tools": [
            {"type": "web_search", "search_context_size": "low"},
            {"type": "function", "name": "look", "description": "Looks it up.", "parameters": SCHEMA},
        ],
        "tool_choice": {"type": "web_search"},
        "reasoning": {"effort": "low"},
        "stream": True,
    }


def test_preset_replaces_the_model() -> None:
    sent, _ = encode(provider_options={"perplexity": {"preset": "low", "model": None}})
    assert sent["preset"] == "low"
    assert "model" not in sent


def test_conversation_goes_as_plain_items() -> None:
    own = {"provider": "perplexity", "item_id": "msg_1", "annotations": [{"type": "url_citation"}]}
    signed = {"provider": "perplexity", "item_id": "fc_1", "thought_signature": "sig", "status": "completed"}
    found = {"provider": "perplexity", "item": {"type": "search_results", "results": []}}
    call = ToolCall("c1", "look", '{"n":1}', metadata={"openai": {"type": "function_call", **signed}})
    sent, said = encode(
        Message.user("Hi", Image(url="https://a.example/x.png")),
        Message.assistant(
            Custom("openai.search_results", {"openai": found}), Text("Well.", metadata={"openai": own}), call
        ),
        Message.tool([ToolResult("c1", "found")]),
    )
    assert sent["input"] == [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Hi"},
                {"type": "input_image", "image_url": "https://a.example/x.png"},
            ],
        },
        {"type": "message", "role": "assistant", "content": "Well."},
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "look",
            "arguments": '{"n":1}',
            "thought_signature": "sig",
        },
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": "found",
            "name": "look",
            "thought_signature": "sig",
        },
    ]
    assert said == ["calls of perplexity's own tools were left out: its input has no such items"]


def test_schema_stands_as_in_chat() -> None:
    sent, _ = encode(response_format=ResponseFormat(SCHEMA, "number", strict=False))
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "number", "schema": SCHEMA, "strict": False},
    }
    assert "text" not in sent


def test_json_mode_goes_into_the_prompt() -> None:
    sent, _ = encode(response_format=ResponseFormat())
    assert not {"text", "response_format"} & set(sent)
    assert sent["input"][0]["type"] == "message"
    assert "JSON" in sent["input"][0]["content"][0]["text"]


@pytest.mark.parametrize(("effort", "word"), [("none", "minimal"), ("minimal", "minimal"), ("max", "max")])
def test_efforts_begin_at_minimal(effort: Any, word: str) -> None:
    sent, said = encode(reasoning=ReasoningOptions(effort=effort))
    assert sent["reasoning"] == {"effort": word}
    assert bool(said) is (effort != word)


def test_files_are_refused_texts_become_text() -> None:
    with pytest.raises(Unsupported, match="pages as images"):
        encode(Message.user(Document(data=b"%PDF", media_type="application/pdf")))
    sent, _ = encode(Message.user(Document(data=b"words", media_type="text/plain")))
    assert sent["input"][0]["content"] == [{"type": "input_text", "text": "words"}]


def test_tool_image_is_warned_of() -> None:
    picture = Image(data=b"x", media_type="image/png")
    sent, said = encode(
        Message.user("Hi"),
        Message.assistant(ToolCall("c1", "look", "{}")),
        Message.tool([ToolResult("c1", "found", parts=(picture,))]),
    )
    assert sent["input"][-1]["output"] == "found"
    assert any("an image in a tool's result was left out" in words for words in said)


@pytest.mark.parametrize(("model", "preset"), [("sonar", "fast"), ("sonar-deep-research", "medium")])
def test_retired_model_names_its_successor(model: str, preset: str) -> None:
    def prepare(**options: Any) -> str:
        request = Request(
            model=model, messages=(Message.user("Hi"),), provider_options={"perplexity": options}
        )
        http = PERPLEXITY.dialect.encode(request, provider="perplexity").http
        return PERPLEXITY.prepare(http, model=model, api_key="k", env={}).url

    with pytest.raises(InvalidRequest, match=rf"perplexity/sonar.*{preset}"):
        prepare()
    assert prepare(preset=preset, model=None) == "https://api.perplexity.ai/v1/responses"


def test_missing_version_is_added() -> None:
    env = {"PERPLEXITY_API_BASE": "https://api.perplexity.ai"}
    assert PERPLEXITY.address(None, env) == "https://api.perplexity.ai/v1"
    assert PERPLEXITY.key(None, {"PERPLEXITYAI_API_KEY": "k"}) == "k"
