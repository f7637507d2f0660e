"""What the Claude models take and refuse, wherever they are served; how reasoning and length fit them.

Sources, read 2026-11: platform.claude.com ("Models overview", "Extended thinking", "Adaptive thinking",
"Structured outputs", "Prefill Claude's response", "What's new" of Opus 5.5 and Haiku 5.5);
pydantic-ai-slim 2.68 `profiles/anthropic.py` (tried live there); @ai-sdk/anthropic 4.0.105
`anthropic-model-catalog.ts`; litellm 1.109 for sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.model_rules import Row, Table, nearest_effort
from llmstream.request import ReasoningOptions

__all__ = [
    "CLAUDE",
    "NO_BARE_JSON",
    "NO_SAMPLING_SINCE",
    "ClaudeRules",
    "encode_thinking",
    "fitting_cap",
    "sampling_refusal",
]


# From this version on, Anthropic's API refuses sampling settings for every model, even their defaults.
# source: platform.claude.com/docs/en/api/migration-2026-10-21
NO_SAMPLING_SINCE: Final = "2026-10-21"


class ClaudeRules(msgspec.Struct, frozen=True, kw_only=True):
    """One row. Defaults are the common ground: what a model of an unknown name is trusted with.

    thinking:          not at all, by a budget of tokens, by a budget or adaptive, or adaptive only
    off:               how thinking is switched off: `thinking.type`, or "never" where all ways are refused
    efforts:           those that `output_config.effort` takes, while the model thinks
    display:           adaptive thinking stays without text unless `display: "summarized"` asks for it
    forced_tools:      `tool_choice` may be any or tool; no model takes these beside a budget
    sampling:          whether temperature, top_p and top_k may be set
    one_sampler:       temperature and top_p exclude each other
    schemas:           answers and tool inputs can be held to a JSON schema
    bedrock_schemas:   on Amazon Bedrock too
    prefix:            the model continues an assistant message at the end of the conversation
    system_turns:      what becomes of a message of the role `system` inside `messages`
    context_tokens:    of input and output together; None where unknown
    max_output_tokens: more is refused; None where unknown
    default_tokens:    `max_tokens` where the request sets none, since the API requires one
    """

    thinking: Literal["none", "budget", "either", "adaptive"] = "budget"
    off: Literal["disabled", "between_tools", "never"] = "disabled"
    efforts: tuple[str, ...] = ()
    display: bool = False
    forced_tools: bool = True
    sampling: bool = True
    one_sampler: bool = False
    schemas: bool = True
    bedrock_schemas: bool = True
    prefix: bool = False
    system_turns: Literal["honoured", "ignored", "refused"] = "refused"
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    default_tokens: int = 8_192


_OLD: Final = ClaudeRules(
    thinking="none", schemas=False, bedrock_schemas=False, prefix=True, context_tokens=200_000
)
_BUDGET: Final = msgspec.structs.replace(_OLD, thinking="budget", default_tokens=32_000)
_V4_5: Final = ClaudeRules(
    one_sampler=True, prefix=True, context_tokens=200_000, max_output_tokens=64_000, default_tokens=32_000
)
_V4_6: Final = ClaudeRules(
    thinking="either",
    efforts=("low", "medium", "high", "max"),
    display=True,
    one_sampler=True,
    context_tokens=1_000_000,
    max_output_tokens=128_000,
    default_tokens=32_000,
)
_V4_7: Final = msgspec.structs.replace(
    _V4_6, thinking="adaptive", efforts=("low", "medium", "high", "xhigh", "max"), sampling=False
)
_ALWAYS_THINKS: Final = msgspec.structs.replace(_V4_7, off="never", system_turns="honoured")
_NEWEST: Final = msgspec.structs.replace(_ALWAYS_THINKS, forced_tools=False)
_SDK: Final = "pydantic-ai-slim 2.68, @ai-sdk/anthropic 4.0.105, platform.claude.com"


def _row(version: str, rules: ClaudeRules, *, kind: str = "opus|sonnet|haiku|instant") -> Row[ClaudeRules]:
    """A row for `claude-KIND-VERSION`, `claude-VERSION-KIND` and `claude-vVERSION`, whatever follows."""
    # No digit may follow: `4-2` would match the date of `claude-opus-4-20250514`.
    return Row(rf"claude-(?:v|(?:{kind})-(?:v(?=\d))?)?(?:{version})(?!\d)", rules, "2026-11", _SDK)


# Rules by name, such as `claude-opus-5-5`, `us.anthropic.claude-haiku-4-5-20251001-v1:0` or
# `claude-sonnet-4@20250514`. A name without "claude" identifies no model: a gateway's alias, another vendor's
# model.
CLAUDE: Final = Table(
    _row("5[-.][5-9]|[6-9]", msgspec.structs.replace(_NEWEST, off="between_tools"), kind="sonnet"),
    _row("[5-9]", msgspec.structs.replace(_V4_7, system_turns="honoured"), kind="haiku"),
    _row("5[-.][1-9]|[6-9]", msgspec.structs.replace(_NEWEST, bedrock_schemas=False), kind="fable"),
    _row("5", msgspec.structs.replace(_ALWAYS_THINKS, bedrock_schemas=False), kind="fable"),
    _row("5[-.][1-9]|[6-9]", _NEWEST, kind="mythos"),
    _row("5|preview", _ALWAYS_THINKS, kind="mythos"),
    _row("5[-.][5-9]|[6-9]", _NEWEST, kind="opus"),
    _row("5", msgspec.structs.replace(_V4_7, system_turns="honoured"), kind="opus"),
    _row("5", msgspec.structs.replace(_V4_7, system_turns="ignored"), kind="sonnet"),
    _row("4[-.]8", msgspec.structs.replace(_V4_7, system_turns="honoured"), kind="opus"),
    _row("4[-.][789]", _V4_7),
    _row("4[-.]6", _V4_6),
    _row("4[-.][2-5]", _V4_5),
    _row("4[-.]1", msgspec.structs.replace(_V4_5, bedrock_schemas=False, max_output_tokens=32_000)),
    # `claude-opus-4-20250514`, `claude-sonnet-4@20250514`: the API counts input and max_tokens together.
    _row("4", _BUDGET),
    _row("3[-.]7", _BUDGET),
    _row("3[-.][56]", _OLD),
    _row("[0-3]", msgspec.structs.replace(_OLD, default_tokens=4_096)),
    Row("claude", _NEWEST, "2026-11", "newer than this table, or an alias: the newest rules"),
    unknown=ClaudeRules(),
)


_SAMPLING: Final = frozenset({"temperature", "top_p", "top_k"})


def sampling_refusal(
    name: str, settings: Mapping[str, Any], rules: ClaudeRules, *, thinks: bool
) -> str | None:
    """Why the model would refuse a setting, or None.

    settings: those that are about to be sent, by name
    """
    if name not in _SAMPLING:
        return None
    value = settings[name]
    if not rules.sampling:
        return "this model takes no sampling settings"
    # source: platform.claude.com, "Extended thinking", feature compatibility
    if thinks and (name == "top_k" or (name == "temperature" and value != 1)):
        return "not together with reasoning"
    if thinks and name == "top_p" and value < 0.95:
        return "with reasoning the API takes 0.95 to 1"
    if name == "top_p" and rules.one_sampler and "temperature" in settings:
        return "this model takes temperature or top_p, not both"
    return None


# Reasoning and output length, which share one token limit.

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
