"""Mistral, Z.ai, xAI and DeepSeek."""

from __future__ import annotations

from collections.abc import Mapping

from drift.rules.rule import Efforts, Rule, effort_rules, kind_of

__all__ = ["RULES", "TYPICAL"]

_MISTRAL: Efforts = {
    r"^mistral-large-4": ("low", "medium", "high"),
    r"^zai-glm": ("low", "high", "max"),
    r"^(mistral-(medium|small)|magistral)": ("none", "high"),
}
_ZAI: Efforts = {r"^glm-5\.3": ("low", "high", "max")}
_XAI: Efforts = {
    r"^grok-4\.[67]": ("low", "medium", "high", "xhigh"),
    r"^grok-4\.5": ("low", "medium", "high"),
}
_DEEPSEEK: Efforts = {r"^deepseek-(v4|flash)": ("low", "high", "max")}

RULES = (
    *effort_rules(
        "Mistral: a model",
        ("mistral",),
        _MISTRAL,
        "AI SDK mistral-model-catalog.ts; docs.mistral.ai Reasoning",
    ),
    Rule(
        "Mistral: top_k is left out",
        ("mistral",),
        "",
        lambda wanted, sent: wanted.sampling and "top_k" not in sent.settings,
        "mistralai 3.7 ChatCompletionStreamRequest",
    ),
    *effort_rules("Z.ai: a model", ("zai",), _ZAI, "PA profiles"),
    Rule(
        "Z.ai: thinking is switched off, which the model refuses",
        ("zai",),
        r"^glm-5\.3",
        lambda wanted, sent: kind_of(sent) == "disabled",
        "PA profiles",
    ),
    *effort_rules("xAI: a model", ("xai", "xai-responses"), _XAI, "PA profiles"),
    Rule(
        "xAI: xhigh and max are not the highest effort",
        ("xai", "xai-responses"),
        r"^grok-4\.7",
        lambda wanted, sent: wanted.effort in ("xhigh", "max") and sent.effort != "xhigh",
        "PA profiles",
    ),
    *effort_rules("DeepSeek: a model", ("deepseek",), _DEEPSEEK, "PA profiles"),
    Rule(
        "DeepSeek: a forced call while the model thinks",
        ("deepseek",),
        r"^deepseek-(v4|flash)",
        lambda wanted, sent: sent.forced and kind_of(sent) != "disabled",
        "PA profiles",
    ),
)

TYPICAL: Mapping[str, tuple[str, ...]] = {
    "mistral": (
        "mistral-large-4",
        "mistral-large-4-0",
        "zai-glm-5",
        "zai-glm-5-3",
        "zai-glm-5-3-flash",
        "zai-glm-latest",
        "mistral-medium-latest",
        "mistral-small-latest",
    ),
    "zai": ("glm-5.3", "glm-5.2"),
    "xai": ("grok-4.7", "grok-4.6", "grok-4.5"),
    "xai-responses": ("grok-4.7", "grok-4.6", "grok-4.5"),
    "deepseek": ("deepseek-v4-pro", "deepseek-v4-flash", "deepseek-flash"),
}
