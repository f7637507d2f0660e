"""Settings as a model of Google's takes them: how much to think, and what of sampling has an effect."""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.model_facts import ModelFacts
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.model_rules.efforts import nearest_effort
from llmstream.model_rules.gemini import GEMINI, GeminiRules
from llmstream.request import ReasoningOptions

__all__ = ["drop_ignored", "facts_of", "thinking_budget", "thinking_level"]

_BUDGETS: Final = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24_576}


def thinking_budget(reasoning: ReasoningOptions, rules: GeminiRules, warnings: list[Warning]) -> int | None:
    """Tokens to think with, on a model that takes a budget; 0 switches thinking off."""
    budget = reasoning.budget_tokens
    if budget is not None and reasoning.effort is not None:
        words = "this model takes a budget, which was sent"
        warnings.append(UnsupportedSetting("reasoning.effort", words))
    if budget is not None and budget > rules.max_budget:
        warnings.append(OtherWarning(f"the reasoning budget of {budget} tokens became {rules.max_budget}"))
        return rules.max_budget
    if budget is not None:
        return budget
    if reasoning.effort is None:
        return None
    if reasoning.effort != "none":
        if reasoning.effort == "xhigh":
            words = f"the effort xhigh became the largest budget of {rules.max_budget} tokens"
            warnings.append(OtherWarning(words))
        return _BUDGETS.get(reasoning.effort, rules.max_budget)
    if rules.always_thinks:
        warnings.append(
            UnsupportedSetting("reasoning.effort", "this model always thinks; it gets 128 tokens")
        )
        return 128
    return 0


def thinking_level(reasoning: ReasoningOptions, rules: GeminiRules, warnings: list[Warning]) -> str | None:
    """How much to think, on a model that takes a level; the nearest it knows."""
    effort = reasoning.effort
    if effort is None:
        return None
    level = nearest_effort(effort, rules.levels)
    if effort == "none":
        words = f"this model always thinks; its level became {level}"
        warnings.append(UnsupportedSetting("reasoning.effort", words))
    elif level != effort:
        warnings.append(OtherWarning(f"the effort {effort} became {level}: this model does not know it"))
    return level


def drop_ignored(sampling: dict[str, Any], rules: GeminiRules, warnings: list[Warning]) -> None:
    """Sets to None, with a warning, what the model would ignore.

    sampling: temperature, top_p and top_k, each a number or None
    """
    for name, value in sampling.items():
        if value is not None and not rules.sampling:
            warnings.append(UnsupportedSetting(name, "this model ignores it"))
            sampling[name] = None


def facts_of(model: str) -> ModelFacts:
    """What is known of a model."""
    rules = GEMINI.find(model)
    off = () if rules.always_thinks else ("none",)
    return ModelFacts(
        reasoning=rules.thinking != "none",
        efforts=(*off, *rules.levels) if rules.thinking == "level" else (),
        context_tokens=rules.context_tokens,
        max_output_tokens=rules.max_output_tokens,
    )
