"""Which hint of a request an error refuses, in the words of the vendors, and the request without it."""

from __future__ import annotations

import msgspec
import pytest

from llmstream.dialects.adapting import Refused, refused_hint, without_hints
from llmstream.errors import BadRequest, ContextTooLong, ServerError
from llmstream.exchange import HttpRequest

CHAT = {
    "model": "m",
    "messages": [{"role": "user", "content": "temperature"}],
    "temperature": 0.5,
    "top_p": 0.9,
    "reasoning_effort": "minimal",
    "max_completion_tokens": 9,
    "stop": ["x"],
    "parallel_tool_calls": True,
    "tools": [{"type": "function", "function": {"name": "t", "strict": True}}, {"type": "web_search"}],
}
RESPONSES = {"reasoning": {"effort": "high", "summary": "auto"}, "tools": [{"type": "function"}]}
CLAUDE = {
    "thinking": {"type": "adaptive", "display": "summarized"},
    "output_config": {"effort": "max", "format": {"type": "json_schema"}},
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
}
GEMINI = {"generationConfig": {"thinkingConfig": {"thinkingLevel": "minimal", "includeThoughts": True}}}


def http(body):
    return HttpRequest("/x", msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("body", "message", "param", "path"),
    [
        (
            CHAT,
            "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) "
            "value is supported.",
            "temperature",
            "temperature",
        ),
        (
            CHAT,
            "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. To "
            "use function tools, use /v1/responses or set reasoning_effort to 'none'.",
            "reasoning_effort",
            "reasoning_effort",
        ),
        (CHAT, "Unsupported parameter: 'top_p' is not supported with this model.", None, "top_p"),
        (CHAT, "Unknown parameter: 'tools[0].function.strict'.", "tools[0].function.strict", "strict"),
        (CHAT, "`parallel_tool_calls` is not supported", None, "parallel_tool_calls"),
        (CHAT, "Unknown parameter: 'stop'.", "stop", None),
        (CHAT, "Unsupported parameter: 'max_completion_tokens'", "max_completion_tokens", None),
        (CHAT, "Invalid 'temperature': decimal above maximum value.", "temperature", None),
        (CHAT, "Invalid value for messages", "messages", None),
        (
            RESPONSES,
            "Your organization must be verified to generate reasoning summaries; it is not allowed.",
            "reasoning.summary",
            "reasoning.summary",
        ),
        (RESPONSES, "Unsupported value: 'xhigh' is not supported", "reasoning.effort", "reasoning.effort"),
        (CLAUDE, "thinking.adaptive.display: Extra inputs are not permitted", None, "thinking.display"),
        (CLAUDE, "This model does not support the effort parameter.", None, "output_config.effort"),
        (CLAUDE, '"thinking.type.adaptive" is not supported for this model.', None, "thinking"),
        (
            GEMINI,
            "Thinking level MINIMAL is not supported for this model.",
            None,
            "generationConfig.thinkingConfig.thinkingLevel",
        ),
        (
            GEMINI,
            "include_thoughts is not supported",
            None,
            "generationConfig.thinkingConfig.includeThoughts",
        ),
    ],
)
def test_an_error_names_the_hint_it_refuses(body, message, param, path):
    found = refused_hint(BadRequest(message, status=400, param=param), http(body))
    if path is None:
        assert found is None
    else:
        assert found is not None
        assert ".".join(found.path).endswith(path)


def test_other_errors_refuse_no_hint():
    words = "temperature is not supported"
    assert refused_hint(ContextTooLong(words, status=400), http(CHAT)) is None
    assert refused_hint(ServerError(words, status=500), http(CHAT)) is None
    assert refused_hint(BadRequest(words, status=400), http({"model": "m"})) is None
    assert refused_hint(BadRequest(words, status=400), HttpRequest("/x", b"[]")) is None


def test_refused_value_bars_no_other_value():
    error = BadRequest("Unsupported value: 'minimal' is not supported.", param="reasoning_effort")
    refused = refused_hint(error, http(CHAT))
    assert refused == Refused("reasoning.effort", ("reasoning_effort",), "minimal")
    sent, gone = without_hints(http({**CHAT, "reasoning_effort": "high"}), [refused])
    assert (sent.json()["reasoning_effort"], gone) == ("high", [])


def test_a_field_is_taken_out_of_every_item():
    sent, gone = without_hints(http(CHAT), [Refused("strict", ("tools", "*", "function", "strict"))])
    assert sent.json() == {
        **CHAT,
        "tools": [{"type": "function", "function": {"name": "t"}}, CHAT["tools"][1]],
    }
    assert [one.hint for one in gone] == ["strict"]


def test_emptied_object_is_removed_too():
    refused = [
        Refused("reasoning.effort", ("generationConfig", "thinkingConfig", "thinkingLevel")),
        Refused("reasoning.display", ("generationConfig", "thinkingConfig", "includeThoughts")),
    ]
    sent, gone = without_hints(http(GEMINI), refused)
    assert (sent.json(), len(gone)) == ({}, 2)
