"""How much to think, in the words of the model behind Bedrock."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.bedrock_converse.models import Traits
from llmstream.dialects.claude_thinking import encode_thinking, fitting_cap
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.model_rules.claude import CLAUDE
from llmstream.request import Request

__all__ = ["ReasoningPlan", "encode_reasoning"]

_NOVA_EFFORTS: Final = {"minimal": "low", "low": "low", "medium": "medium"}
_OPENAI_EFFORTS: Final = {"none": "low", "minimal": "low", "low": "low", "medium": "medium"}


class ReasoningPlan(msgspec.Struct, frozen=True):
    """What a request says about it.

    max_tokens: `inferenceConfig.maxTokens`, or None
    fields:     for `additionalModelRequestFields`
    effort:     `outputConfig.effort`, or None
    alone:      sampling and length have to be left to the model
    """

    max_tokens: int | None = None
    fields: dict[str, Any] = msgspec.field(default_factory=dict)
    effort: str | None = None
    alone: bool = False


def encode_reasoning(request: Request, can: Traits, warnings: list[Warning]) -> ReasoningPlan:
    """Fits effort or budget to what the model knows.

    raises: InvalidRequest where the length asked for leaves no room for the budget
    """
    wanted, cap = request.reasoning, request.settings.max_output_tokens
    claude = CLAUDE.find(request.model)
    if can.reasoning == "claude":
        cap = fitting_cap(cap, claude, warnings)
    if wanted is None or (wanted.effort is None and wanted.budget_tokens is None):
        return ReasoningPlan(cap)
    if can.reasoning == "claude":
        plan = encode_thinking(wanted, cap, claude.default_tokens, claude, warnings)
        fields = {} if plan.thinking is None else {"thinking": plan.thinking}
        return ReasoningPlan(cap, fields, plan.effort)
    if can.reasoning is None:
        if wanted.effort != "none":
            warnings.append(UnsupportedSetting("reasoning", "this model takes no such setting here"))
        return ReasoningPlan(cap)
    if wanted.budget_tokens is not None:
        words = "this model chooses its budget itself; give an effort instead"
        warnings.append(UnsupportedSetting("reasoning.budget_tokens", words))
    effort = wanted.effort or "medium"
    if can.reasoning == "openai":
        level = _OPENAI_EFFORTS.get(effort, "high")
        if level != effort:
            why = "always reasons" if effort == "none" else "does not know it"
            warnings.append(OtherWarning(f"the effort {effort} became {level}: this model {why}"))
        return ReasoningPlan(cap, {"reasoning_effort": level})
    if effort == "none":
        return ReasoningPlan(cap, {"reasoningConfig": {"type": "disabled"}})
    level = _NOVA_EFFORTS.get(effort, "high")
    if level != effort:
        warnings.append(OtherWarning(f"the effort {effort} became {level}: this model does not know it"))
    config = {"type": "enabled", "maxReasoningEffort": level}
    return ReasoningPlan(cap, {"reasoningConfig": config}, alone=level == "high")
