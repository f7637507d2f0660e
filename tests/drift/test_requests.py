"""The matrix of requests, held to rules that are written apart from the encoder."""

from __future__ import annotations

import pytest

from drift.matrix import models, violations
from drift.requests import EFFORTS, Sent, Wanted, combinations, sent
from drift.rules import RULES, TYPICAL, broken
from llmstream.providers.registry import find_provider


def names(wanted: Wanted, body: Sent) -> set[str]:
    return {rule.name for rule in broken(wanted, body)}


def test_no_request_breaks_a_rule() -> None:
    """Of the typical models. `scripts/drift` tries every name that the SDKs know, in every combination."""
    found = violations({}, every=False)
    assert not found, "\n".join(f"{v.provider}:{v.model}: {v.rule} ({v.example})" for v in found)


def test_every_rule_is_about_a_typical_model() -> None:
    for rule in RULES:
        about = [m for p, m in models({}) if rule.is_about(p, m)]
        assert about, rule.name


def test_every_rule_has_a_source() -> None:
    assert all(rule.source for rule in RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_providers_are_known() -> None:
    assert {find_provider(name).name for name in TYPICAL} == set(TYPICAL)


def test_names_of_the_sdks_are_tried() -> None:
    tried = set(models({"anthropic": ("claude-new-6",), "openai-chat": ("gpt-7",)}))
    assert {("anthropic", "claude-new-6"), ("bedrock", "us.anthropic.claude-new-6-v1:0")} <= tried
    assert {("openai", "gpt-7"), ("azure", "gpt-7")} <= tried
    assert ("openai-responses", "gpt-7") not in tried


def test_combinations_are_complete() -> None:
    assert len(set(combinations("openai", "m"))) == (1 + len(EFFORTS)) * 4 * 2 * 2
    assert len(set(combinations("openai", "m", every=False))) == (1 + len(EFFORTS)) * 4 + 4


@pytest.mark.parametrize(
    ("wanted", "body", "rule"),
    [
        (
            Wanted("openai", "gpt-6-sol", tools="free"),
            Sent(tools=True),
            'Chat: functions without reasoning_effort "none"',
        ),
        (
            Wanted("openai", "gpt-5.4", "high", "free"),
            Sent(tools=True, effort="high"),
            "Chat: functions beside an effort, which gpt-5.4 refuses",
        ),
        (
            Wanted("openai", "gpt-6-astra", tools="free"),
            Sent(refusal="Unsupported: gpt-6-astra takes no functions here."),
            "Chat: functions for a model that takes none there, without naming the Responses API",
        ),
        (
            Wanted("openai-responses", "gpt-6-sol", "max"),
            Sent(effort="xhigh", thinking={"summary": "auto"}),
            "Responses: a model gets another effort than the one it knows and is asked for",
        ),
        (
            Wanted("openai-responses", "gpt-6-astra", "none"),
            Sent(effort="none"),
            "Responses: a model gets an effort that it refuses",
        ),
        (
            Wanted("anthropic", "claude-fable-5-2", "none"),
            Sent(thinking={"type": "disabled"}, effort="low", warned="effort"),
            "Claude: thinking is switched off, which the model refuses",
        ),
        (
            Wanted("bedrock", "us.anthropic.claude-opus-5-5-v1:0", tools="named"),
            Sent(tools=True, forced=True, warned="tool_choice"),
            "Claude: a forced call for a model that refuses it",
        ),
        (
            Wanted("google", "gemini-4-argon", "none"),
            Sent(effort="minimal"),
            "Gemini: a model gets an effort that it refuses",
        ),
        (
            Wanted("mistral", "zai-glm-5-3", "none"),
            Sent(effort="none"),
            "Mistral: a model gets an effort that it refuses",
        ),
        (
            Wanted("deepseek", "deepseek-v4-pro", tools="required"),
            Sent(tools=True, forced=True),
            "DeepSeek: a forced call while the model thinks",
        ),
        (
            Wanted("anthropic", "claude-sonnet-4-5"),
            Sent(refusal="InvalidRequest: no"),
            "a request is refused that could be sent",
        ),
    ],
)
def test_bodies_that_are_refused(wanted: Wanted, body: Sent, rule: str) -> None:
    assert names(wanted, body) == {rule}


@pytest.mark.parametrize(
    ("wanted", "body"),
    [
        (Wanted("openai", "gpt-6-sol", "high", "free"), Sent(tools=True, effort="none")),
        (Wanted("openai", "gpt-5.4", tools="free"), Sent(tools=True)),
        (
            Wanted("openai", "gpt-6-astra", tools="free"),
            Sent(refusal="Unsupported: use openai-responses:gpt-6-astra instead."),
        ),
        (
            Wanted("openai-responses", "gpt-6-sol", "max"),
            Sent(effort="max", thinking={"effort": "max", "summary": "auto"}),
        ),
        (Wanted("openai", "gpt-5.3-chat-latest", "medium"), Sent()),
        (Wanted("anthropic", "claude-fable-5-2", "none"), Sent(effort="low", warned="effort")),
        (Wanted("anthropic", "claude-sonnet-5-5", "none"), Sent(thinking={"type": "between_tools"})),
        (
            Wanted("anthropic", "claude-opus-5-5", "max", "required"),
            Sent(
                tools=True,
                effort="max",
                thinking={"type": "adaptive", "display": "summarized"},
                warned="tool_choice",
            ),
        ),
        (Wanted("google", "gemini-4-hydrogen", "max"), Sent(effort="xhigh")),
        (Wanted("zai", "glm-5.3", "none"), Sent(effort="low", thinking={"type": "enabled"})),
    ],
)
def test_bodies_that_are_taken(wanted: Wanted, body: Sent) -> None:
    assert names(wanted, body) == set()


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4.1"),
        ("openai-responses", "gpt-4.1"),
        ("anthropic", "claude-sonnet-4-5"),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-v1:0"),
        ("google", "gemini-2.5-flash"),
        ("google-interactions", "gemini-2.5-flash"),
        ("mistral", "mistral-small-latest"),
    ],
)
def test_bodies_are_read_in_one_form(provider: str, model: str) -> None:
    """What the readers of bodies do not find no rule can hold."""
    plain = sent(Wanted(provider, model))
    assert not any((plain.tools, plain.forced, plain.schema, plain.settings))
    assert sent(Wanted(provider, model, tools="free")).tools
    assert sent(Wanted(provider, model, tools="named")).forced
    assert sent(Wanted(provider, model, tools="required")).forced
    assert sent(Wanted(provider, model, schema=True)).schema
    assert "temperature" in sent(Wanted(provider, model, sampling=True)).settings


def test_efforts_are_read_in_one_form() -> None:
    for provider, model in (
        ("openai", "gpt-5.1"),
        ("openai-responses", "gpt-5.1"),
        ("anthropic", "claude-opus-4-8"),
        ("bedrock", "us.anthropic.claude-opus-4-8-v1:0"),
        ("google", "gemini-3.6-flash"),
        ("google-interactions", "gemini-3.6-flash"),
        ("mistral", "mistral-medium-latest"),
    ):
        assert sent(Wanted(provider, model, "high")).effort == "high", provider
    assert sent(Wanted("anthropic", "claude-opus-4-8", "none")).thinking == {"type": "disabled"}
    assert sent(Wanted("bedrock", "us.anthropic.claude-opus-4-8-v1:0", "none")).thinking == {
        "type": "disabled"
    }
    assert "thinkingLevel" in sent(Wanted("google", "gemini-3.6-flash", "high")).thinking
