"""Reasoning of Claude and the length of its answer, which the vendor counts together."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.claude_models import Abilities
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.request import Reasoning

__all__ = ["Thinking", "encode_thinking"]

_MIN_BUDGET: Final = 1024  # from the vendor's reference of `thinking.budget_tokens`
_ROOM_FOR_ANSWER: Final = 4096
_BUDGETS: Final = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 27_904,
}
"""Tokens for models that know budgets only; the largest leaves room below 32,000."""


class Thinking(msgspec.Struct, frozen=True):
    """What a request says about it.

    max_tokens: of thinking and answer together
    thinking:   the field `thinking`, or None
    effort:     `output_config.effort`, or None
    """

    max_tokens: int
    thinking: dict[str, Any] | None = None
    effort: str | None = None


def encode_thinking(
    reasoning: Reasoning | None, cap: int | None, default: int, can: Abilities, warnings: list[Warning]
) -> Thinking:
    """Fits effort or budget to what the model knows.

    cap:     `max_output_tokens` of the request
    default: where it has none; grows so that an answer fits after the budget
    raises:  InvalidRequest where the cap leaves no room for the budget that was asked for
    """
    plain = Thinking(default if cap is None else cap)
    if reasoning is None or (reasoning.effort is None and reasoning.budget_tokens is None):
        return plain
    if can.thinking == "none":
        if reasoning.effort != "none":
            warnings.append(UnsupportedSetting("reasoning", "this model does not reason"))
        return plain
    if reasoning.effort == "none":
        return Thinking(plain.max_tokens, {"type": "disabled"})
    if reasoning.budget_tokens is not None and can.thinking != "adaptive":
        effort = _effort(reasoning, can, warnings) if can.thinking == "either" else None
        if reasoning.effort is not None and effort is None:
            words = "this model takes a budget, which was sent"
            warnings.append(UnsupportedSetting("reasoning.effort", words))
        return _by_budget(reasoning.budget_tokens, cap, default, effort, warnings)
    if can.thinking == "budget":
        return _by_effort(reasoning.effort or "medium", cap, default, warnings)
    if reasoning.budget_tokens is not None:
        words = "this model chooses its budget itself; give an effort instead"
        warnings.append(UnsupportedSetting("reasoning.budget_tokens", words))
    return Thinking(plain.max_tokens, {"type": "adaptive"}, _effort(reasoning, can, warnings))


def _by_budget(
    budget: int, cap: int | None, default: int, effort: str | None, warnings: list[Warning]
) -> Thinking:
    if budget < _MIN_BUDGET:
        warnings.append(OtherWarning(f"the reasoning budget of {budget} tokens was raised to {_MIN_BUDGET}"))
        budget = _MIN_BUDGET
    if cap is not None and cap <= budget:
        raise InvalidRequest(
            f"max_output_tokens={cap} leaves no room for an answer after a reasoning budget of {budget} "
            "tokens, for the API counts both together. Raise it, or lower the budget."
        )
    max_tokens = max(default, budget + _ROOM_FOR_ANSWER) if cap is None else cap
    return Thinking(max_tokens, {"type": "enabled", "budget_tokens": budget}, effort)


def _by_effort(effort: str, cap: int | None, default: int, warnings: list[Warning]) -> Thinking:
    budget = _BUDGETS[effort]
    if cap is None:
        return _by_budget(budget, None, default, None, warnings)
    if cap <= _MIN_BUDGET:
        words = f"max_output_tokens={cap} leaves no room for the smallest budget of {_MIN_BUDGET} tokens"
        warnings.append(UnsupportedSetting("reasoning", words))
        return Thinking(cap)
    return _by_budget(min(budget, max(_MIN_BUDGET, cap // 2)), cap, default, None, warnings)


def _effort(reasoning: Reasoning, can: Abilities, warnings: list[Warning]) -> str | None:
    """The vendor's efforts begin at low, and xhigh is known to the newest models only."""
    if reasoning.effort == "minimal":
        warnings.append(OtherWarning("the effort minimal became low: this model does not know it"))
        return "low"
    if reasoning.effort == "xhigh" and not can.xhigh_effort:
        warnings.append(OtherWarning("the effort xhigh became high: this model does not know it"))
        return "high"
    return reasoning.effort
