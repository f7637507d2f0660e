"""Claude's reasoning and output length, which share one token limit."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.model_rules import nearest_effort
from llmstream.model_rules.claude import ClaudeRules
from llmstream.request import ReasoningOptions

__all__ = ["NO_BARE_JSON", "encode_thinking", "fitting_cap"]

NO_BARE_JSON: Final = "JSON without a schema is not supported; give a schema, or ask for JSON in the prompt"


# From the vendor's reference of `thinking.budget_tokens`.
_MIN_BUDGET: Final = 1024
# `max_tokens` counts reasoning and answer together: a budget alone would leave no tokens for text.
_ROOM_FOR_ANSWER: Final = 4096

# Budgets for models without effort levels; the largest leaves room below 32,000 tokens.
_BUDGETS: Final = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 27_904,
}


class Thinking(msgspec.Struct, frozen=True):
    """Fields of a request for reasoning and length.

    max_tokens: of thinking and text together
    thinking:   the field `thinking`, or None
    effort:     `output_config.effort`, or None
    """

    max_tokens: int
    thinking: dict[str, Any] | None = None
    effort: str | None = None


def encode_thinking(
    reasoning: ReasoningOptions | None,
    cap: int | None,
    default: int,
    rules: ClaudeRules,
    warnings: list[Warning],
) -> Thinking:
    """Fits effort or budget to what the model supports.

    cap:     `max_output_tokens` of the request
    default: if it has none; raised so that text fits after the budget
    raises:  InvalidRequest if the cap leaves no room after the requested budget
    """
    plain = Thinking(default if cap is None else cap)
    if reasoning is None or (reasoning.effort is None and reasoning.budget_tokens is None):
        return plain
    if rules.thinking == "none":
        if reasoning.effort != "none":
            warnings.append(UnsupportedSetting("reasoning", "this model does not support reasoning"))
        return plain
    if reasoning.effort == "none":
        return _off(plain.max_tokens, rules, warnings)
    if reasoning.budget_tokens is not None and rules.thinking != "adaptive":
        effort = _effort(reasoning.effort, rules, warnings)
        if reasoning.effort is not None and effort is None:
            details = "this model takes a budget, which was sent"
            warnings.append(UnsupportedSetting("reasoning.effort", details))
        plan = _by_budget(reasoning.budget_tokens, cap, default, effort, warnings)
        return msgspec.structs.replace(plan, thinking={**(plan.thinking or {}), **_display(rules)})
    if rules.thinking == "budget":
        return _by_effort(reasoning.effort or "medium", cap, default, warnings)
    if reasoning.budget_tokens is not None:
        details = "this model chooses its budget itself; give an effort instead"
        warnings.append(UnsupportedSetting("reasoning.budget_tokens", details))
    thinking = {"type": "adaptive", **_display(rules)}
    return Thinking(plain.max_tokens, thinking, _effort(reasoning.effort, rules, warnings))


def fitting_cap(cap: int | None, rules: ClaudeRules, warnings: list[Warning]) -> int | None:
    """Lowers `max_output_tokens` to the model's maximum: the API rejects more."""
    most = rules.max_output_tokens
    if cap is None or most is None or cap <= most:
        return cap
    warnings.append(OtherWarning(f"max_output_tokens={cap} was lowered to {most}, this model's maximum"))
    return most


def _off(max_tokens: int, rules: ClaudeRules, warnings: list[Warning]) -> Thinking:
    """Switches thinking off, or to the least that the model allows."""
    if rules.off != "never":
        return Thinking(max_tokens, {"type": rules.off})
    least = nearest_effort("none", rules.efforts)
    details = f"this model always thinks; the effort {least} was sent"
    warnings.append(UnsupportedSetting("reasoning.effort", details))
    return Thinking(max_tokens, None, least)


def _display(rules: ClaudeRules) -> dict[str, str]:
    # Without it, models that choose their budget themselves send thinking blocks without text.
    return {"display": "summarized"} if rules.display else {}


def _by_budget(
    budget: int, cap: int | None, default: int, effort: str | None, warnings: list[Warning]
) -> Thinking:
    if budget < _MIN_BUDGET:
        warnings.append(OtherWarning(f"the reasoning budget of {budget} tokens was raised to {_MIN_BUDGET}"))
        budget = _MIN_BUDGET
    if cap is not None and cap <= budget:
        raise InvalidRequest(
            f"max_output_tokens={cap} leaves no room for text after a reasoning budget of {budget} "
            "tokens: the API counts both together. Raise it, or lower the budget."
        )
    max_tokens = max(default, budget + _ROOM_FOR_ANSWER) if cap is None else cap
    return Thinking(max_tokens, {"type": "enabled", "budget_tokens": budget}, effort)


def _by_effort(effort: str, cap: int | None, default: int, warnings: list[Warning]) -> Thinking:
    budget = _BUDGETS[effort]
    if cap is None:
        return _by_budget(budget, None, default, None, warnings)
    if cap <= _MIN_BUDGET:
        details = f"max_output_tokens={cap} leaves no room for the smallest budget of {_MIN_BUDGET} tokens"
        warnings.append(UnsupportedSetting("reasoning", details))
        return Thinking(cap)
    return _by_budget(min(budget, max(_MIN_BUDGET, cap // 2)), cap, default, None, warnings)


def _effort(effort: str | None, rules: ClaudeRules, warnings: list[Warning]) -> str | None:
    """Maps the effort to the nearest supported one; None if the model has none, or none was requested."""
    if effort is None or not rules.efforts:
        return None
    known = nearest_effort(effort, rules.efforts)
    if known != effort:
        warnings.append(OtherWarning(f"the effort {effort} became {known}: this model does not support it"))
    return known
