"""What the Claude models take and refuse, wherever they are served.

Sources, read 2026-11: platform.claude.com ("Models overview", "Extended thinking", "Adaptive thinking",
"Structured outputs", "Prefill Claude's response", "What's new" of Opus 5.5 and Haiku 5.5);
pydantic-ai-slim 2.68 `profiles/anthropic.py` (tried live there); @ai-sdk/anthropic 4.0.105
`anthropic-model-catalog.ts`; litellm 1.109 for sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from llmstream.model_rules import Row, Table

__all__ = ["CLAUDE", "NO_SAMPLING_SINCE", "ClaudeRules", "sampling_refusal"]

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
