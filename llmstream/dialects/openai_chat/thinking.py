"""How much to think, in the form of the server's API."""

from __future__ import annotations

import re
from typing import Any, Final

from llmstream.dialects.model_facts import ModelFacts
from llmstream.dialects.openai_chat.quirks import Quirks, ThinkingQuirks
from llmstream.errors import Unsupported
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.model_rules import nearest_effort
from llmstream.model_rules.gpt import GPT
from llmstream.request import NamedTool, Request

__all__ = ["beside_tools", "check_served", "encode_thinking", "facts_of", "thinks"]

_ALWAYS = "this model always thinks"
_ON_OR_OFF = "thinking was switched on; the amount cannot be set"

# OpenAI's Chat Completions refuse max for every model (seen 2026-11, BerriAI/litellm-docs#1173).
_OPENAI_EFFORTS: Final = {"max": "xhigh"}

_ONE_OF_BOTH = "not together with an effort, which was sent"


def thinks(request: Request, quirks: ThinkingQuirks) -> bool:
    """Whether the request makes the model think, as far as its options show."""
    reasoning = request.reasoning
    return _always_thinks(quirks) or (reasoning is not None and reasoning.effort != "none")


def _always_thinks(quirks: ThinkingQuirks) -> bool:
    known = quirks.known_efforts
    return quirks.always or (bool(known) and "none" not in (known or ()))


def _efforts(quirks: ThinkingQuirks) -> tuple[str, ...]:
    """The supported efforts, with "none" only if thinking can be disabled."""
    known = quirks.known_efforts or ()
    return tuple(effort for effort in known if effort != "none") if quirks.always else known


def _on_or_off(quirks: ThinkingQuirks) -> bool:
    """Whether the model knows no efforts, as far as that is known."""
    return quirks.known_efforts in ((), ("none",))


def encode_thinking(
    request: Request, quirks: Quirks, *, provider: str, warnings: list[Warning]
) -> dict[str, Any]:
    """The fields of the body for it; {} if there are none."""
    return _Writer(request, quirks, provider, warnings).write()


def check_served(model: str, *, provider: str) -> None:
    """Refuses a model that only Responses serves.

    raises: Unsupported
    """
    if not GPT.find(model).chat:
        elsewhere = _in_responses(model, provider)
        raise Unsupported(f"Chat Completions does not serve {model}. Use {elsewhere}.", provider=provider)


def beside_tools(
    fields: dict[str, Any], request: Request, *, provider: str, warnings: list[Warning]
) -> dict[str, Any]:
    """The result of `encode_thinking` in the form that OpenAI accepts with function tools.

    raises: Unsupported where this model takes no function tools here, whatever its effort
    """
    model, when = request.model, GPT.find(request.model).chat_tools
    effort = fields.get("reasoning_effort")
    if when == "always" or effort == "none" or (when == "without-effort" and effort is None):
        return fields
    elsewhere = _in_responses(model, provider)
    if when == "never":
        raise Unsupported(
            f"{model} takes no function tools in Chat Completions, because it always reasons. "
            f"Use {elsewhere}.",
            provider=provider,
        )
    words = f"Chat Completions takes function tools of {model} without reasoning only; use {elsewhere}"
    warnings.append(UnsupportedSetting("reasoning.effort", words))
    return {**fields, "reasoning_effort": "none"}


def _in_responses(model: str, provider: str) -> str:
    return f'"{provider.removesuffix("-chat")}-responses:{model}"'


class _Writer:
    """Warns of what this wire cannot express of the reasoning options."""

    def __init__(self, request: Request, quirks: Quirks, provider: str, warnings: list[Warning]) -> None:
        self.request = request
        self.quirks = quirks
        self.thinking = quirks.thinking
        self.provider = provider
        self.warnings = warnings

    def write(self) -> dict[str, Any]:
        reasoning, thinking = self.request.reasoning, self.thinking
        if reasoning is None:
            return self.unasked()
        if thinking.style == "none":
            if reasoning.effort != "none" or thinking.always:
                self.left_out("reasoning", f"{self.provider} takes no such setting for this model")
            return {}
        if reasoning.effort == "none" and thinking.always and not _efforts(thinking):
            self.left_out("reasoning.effort", _ALWAYS)
            return {}
        if reasoning.effort == "none" and thinking.off_unasked:
            return {}
        effort, budget = self.effort(reasoning.effort), reasoning.budget_tokens
        match thinking.style:
            case "openrouter":
                return {"reasoning": self.openrouter(effort, budget)}
            case "enable-thinking":
                return self.enable_thinking(effort, budget)
            case "thinking" | "thinking-effort":
                return self.thinking_field(effort, budget)
            case "chat-template":
                return self.chat_template(effort, budget)
            case "enabled":
                return self.switched({"reasoning": {"enabled": effort != "none"}}, effort, budget)
            case "effort-or-budget" if effort is None and budget is not None:
                return {"thinking": {"type": "enabled", "budget_tokens": budget}}
            case "effort-or-budget":
                return self.by_effort(effort, budget, _ONE_OF_BOTH)
            case "groq":
                return self.by_effort(effort, budget) | {"reasoning_format": "parsed"}
            case _:
                return self.by_effort(effort, budget)

    def unasked(self) -> dict[str, Any]:
        """A tool call is forced, and thinking, which conflicts with it, is not requested."""
        choice = self.request.tool_choice
        forced = bool(self.request.tools) and (choice == "required" or isinstance(choice, NamedTool))
        if not (forced and self.thinking.unasked and not self.quirks.tools.choice_while_thinking):
            return {}
        words = "thinking was switched off: a tool cannot be forced while the model thinks"
        self.warnings.append(OtherWarning(words))
        return {"thinking": {"type": "disabled"}}

    def effort(self, effort: str | None) -> str | None:
        """The vendor's name for it; None if it has none."""
        if effort is None:
            return None
        known = GPT.find(self.request.model).chat_efforts if self.quirks.reasoning_model_rules else None
        if known:
            sent = nearest_effort(effort, known)
        elif known is not None:
            if effort != "none":
                self.left_out("reasoning.effort", "this model takes none")
            return None
        else:
            sent = self.effort_value(effort)
        if sent != effort:
            because = f": {_ALWAYS}" if effort == "none" and _always_thinks(self.thinking) else ""
            self.warnings.append(OtherWarning(f"reasoning effort {effort!r} was sent as {sent!r}{because}"))
        return sent

    def effort_value(self, effort: str) -> str:
        """An effort as this server knows it, where its models are not OpenAI's."""
        thinking = self.thinking
        if effort in thinking.efforts:
            return thinking.efforts[effort]
        if not _on_or_off(thinking) and _efforts(thinking):
            effort = nearest_effort(effort, _efforts(thinking))
        elif self.quirks.reasoning_model_rules:
            effort = _OPENAI_EFFORTS.get(effort, effort)
        return thinking.efforts.get(effort, effort)

    def by_effort(
        self, effort: str | None, budget: int | None, refusal: str = "give an effort instead"
    ) -> dict[str, Any]:
        fields = self.budget(budget, refusal)
        return fields if effort is None else {**fields, "reasoning_effort": effort}

    def openrouter(self, effort: str | None, budget: int | None) -> dict[str, Any]:
        if budget is None:
            return {"enabled": True} if effort is None else {"effort": effort}
        if effort is not None:
            self.left_out("reasoning.effort", "not together with a budget, which was sent")
        return {"max_tokens": budget}

    def enable_thinking(self, effort: str | None, budget: int | None) -> dict[str, Any]:
        fields: dict[str, Any] = {"enable_thinking": effort != "none"}
        if budget is not None:
            fields["thinking_budget"] = budget
        known = bool(self.thinking.known_efforts) and not _on_or_off(self.thinking)
        if self.thinking.effort_beside_switch and known and effort not in (None, "none"):
            fields["reasoning_effort"] = effort
        elif effort not in (None, "none"):
            self.left_out("reasoning.effort", f"{_ON_OR_OFF} but by a budget")
        return fields

    def thinking_field(self, effort: str | None, budget: int | None) -> dict[str, Any]:
        if budget is not None:
            self.left_out("reasoning.budget_tokens")
        kind = "disabled" if effort == "none" else self.thinking.on
        fields: dict[str, Any] = {"thinking": {"type": kind}}
        if effort in (None, "none"):
            return fields
        if self.thinking.style == "thinking-effort" and not _on_or_off(self.thinking):
            return {**fields, "reasoning_effort": effort}
        self.left_out("reasoning.effort", _ON_OR_OFF)
        return fields

    def chat_template(self, effort: str | None, budget: int | None) -> dict[str, Any]:
        thinking = self.thinking
        on = thinking.switch_values[effort != "none"]
        fields = self.switched({thinking.template_field: {thinking.switch: on}}, effort, budget)
        if effort == "none" and thinking.effort_beside_switch and thinking.known_efforts is None:
            # A name that does not identify the model, such as a user's own: newer servers accept this switch
            # regardless of the template's variable.
            fields["reasoning_effort"] = "none"
        return fields

    def switched(self, switch: dict[str, Any], effort: str | None, budget: int | None) -> dict[str, Any]:
        """A switch, with an effort if the model supports any."""
        fields = {**switch, **self.budget(budget)}
        if effort in (None, "none"):
            return fields
        if self.thinking.effort_beside_switch and not _on_or_off(self.thinking):
            return {**fields, "reasoning_effort": effort}
        self.left_out("reasoning.effort", _ON_OR_OFF)
        return fields

    def budget(self, budget: int | None, refusal: str = "give an effort instead") -> dict[str, Any]:
        """A budget in a separate field, if there is one."""
        if budget is None:
            return {}
        if self.thinking.budget_field is None:
            self.left_out("reasoning.budget_tokens", refusal)
            return {}
        return {self.thinking.budget_field: budget}

    def left_out(self, setting: str, details: str | None = None) -> None:
        self.warnings.append(UnsupportedSetting(setting, details or f"{self.provider} does not take it"))


def facts_of(model: str, quirks: Quirks) -> ModelFacts:
    """The facts about a model from the quirks, and for OpenAI's own models from their table."""
    if quirks.reasoning_model_rules and re.search(r"gpt|(?:^|/)o\d", model, re.IGNORECASE):
        rules = GPT.find(model)
        return ModelFacts(
            reasoning=rules.reasons,
            efforts=rules.chat_efforts,
            context_tokens=rules.context_tokens,
            max_output_tokens=rules.max_output_tokens,
        )
    thinking = quirks.thinking
    efforts = () if thinking.style == "none" else thinking.known_efforts
    return ModelFacts(reasoning=True if thinking.always else None, efforts=efforts)
