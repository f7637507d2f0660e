"""How much to think, in the words of whoever serves the model."""

from __future__ import annotations

from typing import Any

from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.dialects.openai_models import known_efforts, nearest_effort
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.request import NamedTool, Request

__all__ = ["encode_thinking", "thinks"]

_ALWAYS = "this model always thinks"
_ON_OR_OFF = "thinking was switched on; how much cannot be said"
_ONE_OF_BOTH = "not together with an effort, which was sent"


def thinks(request: Request, quirks: Quirks) -> bool:
    """Whether the request makes the model think, as far as it says."""
    reasoning = request.reasoning
    return quirks.always_thinks or (reasoning is not None and reasoning.effort != "none")


def encode_thinking(
    request: Request, quirks: Quirks, *, provider: str, warnings: list[Warning]
) -> dict[str, Any]:
    """The fields of the body that say it; {} where there is nothing to say."""
    return _Writer(request, quirks, provider, warnings).write()


class _Writer:
    """Notes what of a wish has no words here."""

    def __init__(self, request: Request, quirks: Quirks, provider: str, warnings: list[Warning]) -> None:
        self.request = request
        self.quirks = quirks
        self.provider = provider
        self.warnings = warnings

    def write(self) -> dict[str, Any]:
        reasoning, quirks = self.request.reasoning, self.quirks
        if reasoning is None:
            return self.unasked()
        if quirks.reasoning_style == "none":
            if reasoning.effort != "none" or quirks.always_thinks:
                self.left_out("reasoning", f"{self.provider} takes no such setting for this model")
            return {}
        if reasoning.effort == "none" and quirks.always_thinks:
            self.left_out("reasoning.effort", _ALWAYS)
            return {}
        effort, budget = self.effort(reasoning.effort), reasoning.budget_tokens
        match quirks.reasoning_style:
            case "openrouter":
                return {"reasoning": self.openrouter(effort, budget)}
            case "enable-thinking":
                return self.enable_thinking(effort, budget)
            case "thinking" | "thinking-effort":
                return self.thinking(effort, budget)
            case "effort-or-budget" if effort is None and budget is not None:
                return {"thinking": {"type": "enabled", "budget_tokens": budget}}
            case "effort-or-budget":
                return self.by_effort(effort, budget, _ONE_OF_BOTH)
            case "groq":
                return self.by_effort(effort, budget) | {"reasoning_format": "parsed"}
            case _:
                return self.by_effort(effort, budget)

    def unasked(self) -> dict[str, Any]:
        """A tool that has to be called is asked for; thinking, which conflicts with it, is not."""
        choice, quirks = self.request.tool_choice, self.quirks
        forced = bool(self.request.tools) and (choice == "required" or isinstance(choice, NamedTool))
        if not (forced and quirks.thinks_unasked and not quirks.tool_choice_while_thinking):
            return {}
        words = "thinking was switched off: a tool cannot be forced while the model thinks"
        self.warnings.append(OtherWarning(words))
        return {"thinking": {"type": "disabled"}}

    def effort(self, effort: str | None) -> str | None:
        """The vendor's word for it; None where it knows none."""
        if effort is None:
            return None
        sent = self.quirks.efforts.get(effort, effort)
        known = known_efforts(self.request.model) if self.quirks.reasoning_model_rules else None
        if known:
            sent = nearest_effort(effort, known)
        elif known is not None:
            if effort != "none":
                self.left_out("reasoning.effort", "this model takes none")
            return None
        if sent != effort:
            self.warnings.append(OtherWarning(f"reasoning effort {effort!r} was sent as {sent!r}"))
        return sent

    def by_effort(
        self, effort: str | None, budget: int | None, refusal: str = "give an effort instead"
    ) -> dict[str, Any]:
        if budget is not None:
            self.left_out("reasoning.budget_tokens", refusal)
        return {} if effort is None else {"reasoning_effort": effort}

    def openrouter(self, effort: str | None, budget: int | None) -> dict[str, Any]:
        if budget is None:
            return {"enabled": True} if effort is None else {"effort": effort}
        if effort is not None:
            self.left_out("reasoning.effort", "not together with a budget, which was sent")
        return {"max_tokens": budget}

    def enable_thinking(self, effort: str | None, budget: int | None) -> dict[str, Any]:
        if effort not in (None, "none"):
            self.left_out("reasoning.effort", f"{_ON_OR_OFF} but by a budget")
        fields: dict[str, Any] = {"enable_thinking": effort != "none"}
        return fields if budget is None else {**fields, "thinking_budget": budget}

    def thinking(self, effort: str | None, budget: int | None) -> dict[str, Any]:
        if budget is not None:
            self.left_out("reasoning.budget_tokens")
        fields: dict[str, Any] = {"thinking": {"type": "disabled" if effort == "none" else "enabled"}}
        if effort in (None, "none"):
            return fields
        if self.quirks.reasoning_style == "thinking-effort":
            return {**fields, "reasoning_effort": effort}
        self.left_out("reasoning.effort", _ON_OR_OFF)
        return fields

    def left_out(self, setting: str, details: str | None = None) -> None:
        self.warnings.append(UnsupportedSetting(setting, details or f"{self.provider} does not take it"))
