"""Claude: the Messages API, Vertex and both ways of Bedrock."""

from __future__ import annotations

from drift.requests import Sent
from drift.rules.rule import Efforts, Rule, effort_rules, kind_of

__all__ = ["RULES", "TYPICAL"]

_ANTHROPIC = ("anthropic", "vertex-anthropic", "bedrock", "bedrock-invoke")
_LOW_TO_MAX = ("low", "medium", "high", "xhigh", "max")

_CLAUDE: Efforts = {
    r"claude-(opus-4-[78]|[a-z]+-5|mythos-preview)": _LOW_TO_MAX,
    r"claude-[a-z]+-4-6": ("low", "medium", "high", "max"),
}
_NEVER_OFF = r"claude-(opus-5-5|fable-|mythos-)"
_NO_FORCED = r"claude-(opus-5-5|sonnet-5-5|fable-5-[12]|mythos-5-[12])"
_FORCED = r"claude-(haiku-5-5|opus-5(?!-\d{1,2}(?!\d))|sonnet-5(?!-\d{1,2}(?!\d))|opus-4|sonnet-4|haiku-4)"
_NO_BUDGET = r"claude-(opus-4-[78]|[a-z]+-5|mythos-preview)"
_PA_CLAUDE = (
    "PA profiles/anthropic.py; AI SDK anthropic-model-catalog.ts; What's new in Opus 5.5 and Haiku 5.5"
)
_ALL_SAMPLERS = frozenset({"temperature", "top_p", "top_k"})


def _thinks(sent: Sent) -> bool:
    return kind_of(sent) in ("adaptive", "enabled")


RULES = (
    Rule(
        "Claude: thinking is switched off, which the model refuses",
        _ANTHROPIC,
        _NEVER_OFF,
        lambda wanted, sent: kind_of(sent) in ("disabled", "between_tools"),
        _PA_CLAUDE,
    ),
    Rule(
        'Claude: effort "none" is not sent as low where thinking cannot be switched off',
        _ANTHROPIC,
        _NEVER_OFF,
        lambda wanted, sent: wanted.effort == "none" and (sent.effort != "low" or not sent.warned),
        _PA_CLAUDE,
    ),
    Rule(
        "Claude: thinking of Sonnet 5.5 is not switched off by between_tools",
        _ANTHROPIC,
        r"claude-sonnet-5-5",
        lambda wanted, sent: (
            (kind_of(sent) == "disabled") or (wanted.effort == "none" and kind_of(sent) != "between_tools")
        ),
        _PA_CLAUDE,
    ),
    Rule(
        "Claude: between_tools for a model that does not know it",
        _ANTHROPIC,
        r"claude-(?!sonnet-5-5)",
        lambda wanted, sent: kind_of(sent) == "between_tools",
        _PA_CLAUDE,
    ),
    Rule(
        'Claude: effort "none" leaves thinking on that could be switched off',
        _ANTHROPIC,
        r"claude-(haiku-5-5|opus-5(?!-\d{1,2}(?!\d))|sonnet-5(?!-\d{1,2}(?!\d)))",
        lambda wanted, sent: wanted.effort == "none" and kind_of(sent) != "disabled",
        _PA_CLAUDE,
    ),
    Rule(
        "Claude: thinking switched off beside an effort above high",
        _ANTHROPIC,
        r"claude-(haiku-5-5|opus-5)",
        lambda wanted, sent: kind_of(sent) == "disabled" and sent.effort in ("xhigh", "max"),
        _PA_CLAUDE,
    ),
    Rule(
        "Claude: a budget for a model that takes none",
        _ANTHROPIC,
        _NO_BUDGET,
        lambda wanted, sent: kind_of(sent) == "enabled" or "budget_tokens" in sent.thinking,
        _PA_CLAUDE,
    ),
    Rule(
        "Claude: a forced call for a model that refuses it",
        _ANTHROPIC,
        _NO_FORCED,
        lambda wanted, sent: sent.forced,
        _PA_CLAUDE,
    ),
    Rule(
        "Claude: a call is not forced any more, without a warning",
        _ANTHROPIC,
        _NO_FORCED,
        lambda wanted, sent: wanted.forced and "tool_choice" not in sent.warned,
        _PA_CLAUDE,
    ),
    Rule(
        "Claude: a call is not forced though the model takes it",
        _ANTHROPIC,
        _FORCED,
        lambda wanted, sent: wanted.forced and wanted.effort is None and not sent.forced,
        _PA_CLAUDE,
    ),
    Rule(
        "Claude: a forced call while the model thinks",
        _ANTHROPIC,
        r"claude-",
        lambda wanted, sent: sent.forced and _thinks(sent),
        "Extended thinking, Limits with tool use",
    ),
    Rule(
        "Claude: thinking text is not asked for",
        _ANTHROPIC,
        _NO_BUDGET,
        lambda wanted, sent: kind_of(sent) == "adaptive" and sent.thinking.get("display") != "summarized",
        "anthropics/claude-code#77460; docker/docker-agent#3415",
    ),
    Rule(
        "Claude: reasoning is asked for and thinking is not switched on",
        _ANTHROPIC,
        _NO_BUDGET,
        lambda wanted, sent: wanted.effort not in (None, "none") and kind_of(sent) != "adaptive",
        "Adaptive thinking",
    ),
    Rule(
        "Claude: sampling for a model that takes none",
        _ANTHROPIC,
        _NO_BUDGET,
        lambda wanted, sent: bool(sent.settings & _ALL_SAMPLERS),
        "Migration guides of Opus 4.7 and of 2026-10-21",
    ),
    Rule(
        "Claude on Vertex: a typed answer without the schema",
        ("vertex-anthropic",),
        _NO_FORCED,
        lambda wanted, sent: wanted.schema and not sent.schema,
        "AI SDK anthropic 4.0.94",
    ),
    *effort_rules("Claude: a model", _ANTHROPIC, _CLAUDE, _PA_CLAUDE),
)


_CLAUDES = (
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-fable-5-2",
    "claude-fable-5-1",
    "claude-fable-5",
    "claude-mythos-5-2",
    "claude-mythos-5-1",
    "claude-mythos-5",
    "claude-mythos-preview",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-opus-4-8",
    "claude-opus-4-7",
    "claude-opus-4-6",
    "claude-sonnet-4-5",
)
_IN_BEDROCK = tuple(f"us.anthropic.{name}-v1:0" for name in _CLAUDES)

TYPICAL = {
    "anthropic": _CLAUDES,
    "vertex-anthropic": _CLAUDES,
    "bedrock": _IN_BEDROCK,
    "bedrock-invoke": _IN_BEDROCK,
}
