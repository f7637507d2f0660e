"""OpenAI: Chat Completions and Responses, also on Azure."""

from __future__ import annotations

import re

from drift.requests import Sent, Wanted
from drift.rules.rule import Efforts, Rule, effort_rules, other_effort

__all__ = ["NEEDS_RESPONSES", "RULES", "TOOLS_NEED_RESPONSES", "TYPICAL"]

_CHAT = ("openai", "azure")
_RESPONSES = ("openai-responses", "azure-responses")
_LOW_TO_MAX = ("low", "medium", "high", "xhigh", "max")
_NONE_TO_XHIGH = ("none", "low", "medium", "high", "xhigh")

_GPT: Efforts = {
    r"^gpt-6(\.2)?-astra|^gpt-6\.[12]-sol": _LOW_TO_MAX,
    r"^gpt-6-(sol|luna)|^gpt-6\.1-terra|^gpt-5\.6": ("none", *_LOW_TO_MAX),
    r"^gpt-5\.[123]-chat-latest": ("medium",),
    r"^gpt-5-chat-latest|^gpt-[34]|^chatgpt-4o": (),
    r"^gpt-5\.\d-pro": ("medium", "high", "xhigh"),
    r"^gpt-5-pro": ("high",),
    r"^gpt-5-codex": ("low", "medium", "high"),
    r"^gpt-5\.1-codex-max": ("none", "medium", "high", "xhigh"),
    r"^gpt-5\.1": ("none", "low", "medium", "high"),
    r"^gpt-5\.[2-5]": _NONE_TO_XHIGH,
    r"^gpt-5": ("minimal", "low", "medium", "high"),
    r"^o(?!1-(mini|preview))\d": ("low", "medium", "high"),
}
_TOOLS_NEED_NONE = r"^gpt-5\.(5|6)(?!.*-pro)|^gpt-6-(sol|luna)|^gpt-6\.1-terra"
NEEDS_RESPONSES = r"codex|-pro(-|$)|deep-research|computer-use"  # OpenAI's pages of these models, 2026-11
TOOLS_NEED_RESPONSES = r"^gpt-6-astra|^gpt-6\.1-sol|^gpt-6\.2-"
_NEVER_SAMPLES = (
    r"^gpt-6(\.2)?-astra|^gpt-6\.[12]-sol|^gpt-5\.[123]-chat-latest|^gpt-5(\.\d)?-pro|^o\d"
    r"|^gpt-5(-mini|-nano|-codex|-\d{4}|$)"
)
_SAMPLES_AT_NONE = r"^gpt-6-(sol|luna)|^gpt-6\.1-terra|^gpt-5\.[1-6](?!.*-(pro|chat))"
_SAMPLERS = frozenset({"temperature", "top_p"})


def _tools_while_thinking(wanted: Wanted, sent: Sent) -> bool:
    """Azure takes functions without an effort up to 5.6, as litellm has seen."""
    passes = wanted.provider == "azure" and "gpt-5." in wanted.model and sent.effort is None
    return sent.tools and sent.effort != "none" and not passes


def _tools_with_effort(wanted: Wanted, sent: Sent) -> bool:
    return sent.tools and sent.effort not in (None, "none")


def _tools_not_refused(wanted: Wanted, sent: Sent) -> bool:
    if not wanted.tools:
        return False
    other = "azure-responses:" if wanted.provider == "azure" else "openai-responses:"
    return sent.refusal is None or not sent.refusal.startswith("Unsupported:") or other not in sent.refusal


_OTHER_EFFORT = other_effort(_GPT, "max")


def _other_effort_in_chat(wanted: Wanted, sent: Sent) -> bool:
    """As elsewhere, but beside functions, where "none" has to be sent."""
    silenced = wanted.tools and re.search(_TOOLS_NEED_NONE + r"|^gpt-5\.4(?!.*-pro)", wanted.model)
    return not silenced and _OTHER_EFFORT(wanted, sent)


_PA_OPENAI = "PA profiles/openai.py; BerriAI/litellm-docs#1173; AI SDK openai catalog"
_TOOLS_SEEN = (
    "BerriAI/litellm#34569; onyx-dot-app/onyx#15008; can1357/oh-my-pi#11052; docker/docker-agent#4162; "
    "pipecat-ai/pipecat#4043; bolna-ai/bolna#1019"
)

RULES = (
    Rule(
        "Chat: functions beside an effort, which gpt-5.4 refuses",
        _CHAT,
        r"^gpt-5\.4(?!.*-pro)",
        _tools_with_effort,
        _TOOLS_SEEN,
    ),
    Rule(
        'Chat: functions without reasoning_effort "none"',
        _CHAT,
        _TOOLS_NEED_NONE,
        _tools_while_thinking,
        _TOOLS_SEEN,
    ),
    Rule(
        "Chat: functions for a model that takes none there, without naming the Responses API",
        _CHAT,
        TOOLS_NEED_RESPONSES,
        _tools_not_refused,
        _TOOLS_SEEN,
        refused=True,
    ),
    effort_rules("Chat: a model", _CHAT, _GPT, _PA_OPENAI, "max")[0],
    Rule(
        "Chat: a model gets another effort than the one it knows and is asked for",
        _CHAT,
        "",
        _other_effort_in_chat,
        _PA_OPENAI,
    ),
    *effort_rules("Responses: a model", _RESPONSES, _GPT, _PA_OPENAI),
    Rule(
        "OpenAI: sampling for a model that never takes it",
        (*_CHAT, *_RESPONSES),
        _NEVER_SAMPLES,
        lambda wanted, sent: bool(sent.settings & _SAMPLERS),
        _PA_OPENAI,
    ),
    Rule(
        'OpenAI: sampling without the effort "none"',
        (*_CHAT, *_RESPONSES),
        _SAMPLES_AT_NONE,
        lambda wanted, sent: bool(sent.settings & _SAMPLERS) and sent.effort not in _silent(wanted.model),
        _PA_OPENAI,
    ),
    Rule(
        "Chat: stop for gpt-6-astra",
        _CHAT,
        r"^gpt-6-astra",
        lambda wanted, sent: "stop" in sent.settings,
        "bolna-ai/bolna#1019",
    ),
    Rule(
        "Responses: reasoning is asked for, but not its text",
        ("openai-responses",),
        r"^gpt-(5|6)(?!.*chat)",
        lambda wanted, sent: sent.effort not in (None, "none") and not sent.thinking.get("summary"),
        "AI SDK resolvedReasoningSummary",
    ),
)


def _silent(model: str) -> tuple[str | None, ...]:
    """The efforts at which a model does not think; up to 5.4 that is so where none is asked for."""
    return ("none", None) if re.search(r"^gpt-5\.[1-4]", model) else ("none",)


_GPTS = (
    "gpt-6-astra",
    "gpt-6.2-astra",
    "gpt-6.1-sol",
    "gpt-6.2-sol",
    "gpt-6-sol",
    "gpt-6-luna",
    "gpt-6.1-terra",
    "gpt-5.6-sol",
    "gpt-5.5",
    "gpt-5.4",
    "gpt-5.3-chat-latest",
    "gpt-5.2",
    "gpt-5.1",
    "gpt-5",
    "gpt-5-chat-latest",
    "gpt-4.1",
    "o3",
)
_ALSO_PRO = (*_GPTS, "gpt-5.5-pro", "gpt-5-pro")

TYPICAL = {
    "openai": _GPTS,
    "azure": _GPTS,
    "openai-responses": _ALSO_PRO,
    "azure-responses": _ALSO_PRO,
}
