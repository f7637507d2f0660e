"""How thinking is asked for: switches of chat templates, and efforts as a list of what is known."""

from __future__ import annotations

from typing import Any

import pytest

from llmstream.chats.message import Message
from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks, ThinkingQuirks, change
from llmstream.events import OtherWarning, UnsupportedSetting
from llmstream.request import ReasoningOptions, Request
from llmstream.server_side.wires.openai_chat import server_side

WORDS = ("chat_template_kwargs", "reasoning_effort", "thinking", "enable_thinking", "thinking_token_budget")
TEMPLATE = Quirks(
    thinking=ThinkingQuirks(
        style="chat-template", effort_beside_switch=True, budget_field="thinking_token_budget"
    ),
    open_model_rules=True,
    reasoning_model_rules=False,
)


def encode(quirks: Quirks, model: str = "m", **reasoning: Any) -> tuple[dict[str, Any], list[str]]:
    """What of the body asks for thinking, and what the warnings say."""
    request = Request(model=model, messages=(Message.user("Hi"),), reasoning=ReasoningOptions(**reasoning))
    encoded = OpenAIChat(quirks).encode(request, provider="x")
    said = []
    for warning in encoded.warnings:
        assert isinstance(warning, OtherWarning | UnsupportedSetting)
        said.append(warning.message if isinstance(warning, OtherWarning) else str(warning.details))
    return {name: value for name, value in encoded.http.json().items() if name in WORDS}, said


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("Qwen/Qwen3-8B", "none", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("Qwen/Qwen3-8B", None, {"chat_template_kwargs": {"enable_thinking": True}}),
        ("deepseek-ai/DeepSeek-V3.2", "none", {"chat_template_kwargs": {"thinking": False}}),
        (
            "deepseek-ai/DeepSeek-V4-Pro",
            "medium",
            {"chat_template_kwargs": {"thinking": True}, "reasoning_effort": "high"},
        ),
        ("MiniMaxAI/MiniMax-M3", "none", {"chat_template_kwargs": {"thinking_mode": "disabled"}}),
        ("openai/gpt-oss-20b", "high", {"reasoning_effort": "high"}),
        ("zai-org/GLM-5.3", "medium", {"reasoning_effort": "high"}),
        (
            "my-own",
            "none",
            {"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "none"},
        ),
        (
            "my-own",
            "max",
            {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "max"},
        ),
    ],
)
def test_template_switch_depends_on_model(model: str, effort: Any, sent: dict[str, Any]) -> None:
    assert encode(TEMPLATE, model, effort=effort)[0] == sent


def test_how_much_cannot_be_said_to_a_switch() -> None:
    sent, said = encode(TEMPLATE, "Qwen/Qwen3-8B", effort="low")
    assert sent == {"chat_template_kwargs": {"enable_thinking": True}}
    assert said == ["thinking was switched on; the amount cannot be set"]
    alone = Quirks(thinking=ThinkingQuirks(style="chat-template", switch="thinking"))
    sent, said = encode(alone, effort="low")
    assert sent == {"chat_template_kwargs": {"thinking": True}}
    assert said == ["thinking was switched on; the amount cannot be set"]


def test_a_budget_has_a_field_of_its_own() -> None:
    sent, said = encode(TEMPLATE, budget_tokens=9)
    assert sent == {"chat_template_kwargs": {"enable_thinking": True}, "thinking_token_budget": 9}
    assert said == []
    assert encode(Quirks(thinking=ThinkingQuirks(style="chat-template")), budget_tokens=9)[1] == [
        "give an effort instead"
    ]


def test_plain_model_gets_no_thinking() -> None:
    """A model that does not reason."""
    sent, said = encode(TEMPLATE, "meta-llama/Llama-3.3-70B-Instruct", effort="high")
    assert (sent, said) == ({}, ["x takes no such setting for this model"])
    assert encode(TEMPLATE, "meta-llama/Llama-3.3-70B-Instruct", effort="none") == ({}, [])


def test_always_thinking_model_has_no_switch() -> None:
    assert encode(TEMPLATE, "MiniMaxAI/MiniMax-M2", effort="none")[0] == {}
    sent, said = encode(TEMPLATE, "zai-org/GLM-5.3", effort="none")
    assert sent == {"reasoning_effort": "low"}
    assert said == ["reasoning effort 'none' was sent as 'low': this model always thinks"]


@pytest.mark.parametrize(
    ("known", "effort", "sent"),
    [
        (("none", "low", "high", "max"), "none", "none"),
        (("none", "low", "high", "max"), "minimal", "low"),
        (("none", "low", "high", "max"), "medium", "high"),
        (("none", "low", "high", "max"), "xhigh", "max"),
        (("low", "medium", "high"), "none", "low"),
        (("low", "medium", "high"), "max", "high"),
        (None, "max", "max"),
    ],
)
def test_an_effort_becomes_the_nearest_known(known: Any, effort: Any, sent: str) -> None:
    quirks = Quirks(reasoning_model_rules=False, thinking=ThinkingQuirks(known_efforts=known))
    found, said = encode(quirks, effort=effort)
    assert found == {"reasoning_effort": sent}
    assert bool(said) is (sent != effort)


def test_vendor_effort_wins_over_the_nearest() -> None:
    quirks = Quirks(
        reasoning_model_rules=False,
        thinking=ThinkingQuirks(
            known_efforts=("none", "low", "high"),
            efforts={"none": "instant", "minimal": "instant", "high": "hard"},
        ),
    )
    sent = [encode(quirks, effort=effort)[0]["reasoning_effort"] for effort in ("minimal", "low", "medium")]
    assert sent == ["instant", "low", "hard"]


def test_openai_chat_alone_lowers_max_effort() -> None:
    assert encode(Quirks(), "my-own", effort="max")[0] == {"reasoning_effort": "xhigh"}
    assert encode(Quirks(reasoning_model_rules=False), effort="max")[0] == {"reasoning_effort": "max"}


def test_what_a_host_says_of_a_model_wins() -> None:
    quirks = Quirks(
        reasoning_model_rules=False,
        open_model_rules=True,
        by_model=(
            ModelQuirks("glm-5.3", change(ThinkingQuirks, known_efforts=("low", "medium", "high", "max"))),
        ),
    )
    assert encode(quirks, "GLM-5.3", effort="medium")[0] == {"reasoning_effort": "medium"}
    assert encode(quirks, "Kimi-K3", effort="medium")[0] == {"reasoning_effort": "high"}
    assert encode(quirks, "DeepSeek-V3.1", effort="medium")[0] == {"reasoning_effort": "medium"}


def test_none_is_omitted_where_it_is_default() -> None:
    quirks = Quirks(
        thinking=ThinkingQuirks(style="openrouter", off_unasked=True), reasoning_model_rules=False
    )
    request = Request(model="m", messages=(Message.user("Hi"),), reasoning=ReasoningOptions(effort="none"))
    encoded = OpenAIChat(quirks).encode(request, provider="x")
    assert "reasoning" not in encoded.http.json()
    assert encoded.warnings == []


@pytest.mark.parametrize(("effort", "read"), [("none", "none"), ("high", "high")])
def test_a_switch_is_read_back(effort: Any, read: str) -> None:
    dialect = OpenAIChat(TEMPLATE)
    request = Request(model="m", messages=(Message.user("Hi"),), reasoning=ReasoningOptions(effort=effort))
    found = server_side(dialect).decode_request(dialect.encode(request, provider="x").http)
    assert found.reasoning is not None
    assert found.reasoning.effort == read
    again = dialect.encode(found, provider="x").http.json()
    assert again["chat_template_kwargs"] == {"enable_thinking": effort != "none"}


def test_other_variables_stay_options() -> None:
    dialect = OpenAIChat(TEMPLATE)
    request = Request(
        model="Qwen/Qwen3-8B",
        messages=(Message.user("Hi"),),
        provider_options={"x": {"chat_template_kwargs": {"enable_thinking": False, "other": 1}}},
    )
    http = dialect.encode(request, provider="x").http
    again = dialect.encode(server_side(dialect, provider="x").decode_request(http), provider="x").http.json()
    assert again["chat_template_kwargs"] == {"enable_thinking": False, "other": 1}
