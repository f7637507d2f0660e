"""What servers of the Chat Completions wire do differently, as data.

Defaults are OpenAI's own. A provider's module sets what its vendor requires; reading an answer
needs hardly any of this, since the decoder goes by the wire itself.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Union

import msgspec

from llmstream.events import FinishReason
from llmstream.model_rules import CACHED_MODELS, Change, ModelQuirks, change, changed, changes_for

if TYPE_CHECKING:
    from llmstream.model_rules.open_models import OpenModelRules

__all__ = [
    "OPENAI_AUDIO",
    "OPEN_MODEL_HOST",
    "AnyQuirks",
    "MediaQuirks",
    "ModelQuirks",
    "Quirks",
    "ReasoningQuirks",
    "SchemaQuirks",
    "SettingQuirks",
    "ThinkingQuirks",
    "ToolQuirks",
    "UsageQuirks",
    "change",
    "hosted",
]


ThinkingStyle: TypeAlias = Literal[
    "effort",
    "effort-or-budget",
    "openrouter",
    "thinking",
    "thinking-effort",
    "enable-thinking",
    "chat-template",
    "enabled",
    "groq",
    "none",
]
"""How thinking is requested:

effort:           `reasoning_effort` (OpenAI, xAI, Cerebras)
effort-or-budget: that, or `thinking{type, budget_tokens}` for a budget, not both (Fireworks)
openrouter:       `reasoning{effort|max_tokens}`
thinking:         `thinking{type}` (Z.ai, Moonshot)
thinking-effort:  the same with `reasoning_effort` (DeepSeek V4, GLM-5.2)
enable-thinking:  `enable_thinking`, `thinking_budget` (Qwen)
chat-template:    `chat_template_kwargs{SWITCH}`, for servers that pass it to the model's template
                  (vLLM, SGLang, NIM)
enabled:          `reasoning{enabled}` with `reasoning_effort` (Together)
groq:             `reasoning_effort` and `reasoning_format: parsed`
none:             cannot be requested
"""

# The audio formats that OpenAI's models accept.
OPENAI_AUDIO: Final = frozenset({"wav", "mp3"})

# Styles with a switch. In any other, an effort means "on" for models without efforts.
_SWITCHES: Final = frozenset({"thinking", "thinking-effort", "enable-thinking", "chat-template", "enabled"})


class SettingQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that the vendor takes, and how it names them.

    max_tokens_field:  most servers know only `max_tokens`; OpenAI's reasoning models refuse it
    unsupported:       names of `Settings` fields the vendor refuses; left out with a warning
        (OpenAI: top_k; xAI reasoning models: stop, penalties; Z.ai: penalties; Moonshot: temperature)
    temperature_range: what the vendor takes; others become the nearest, with a warning
    max_stops:         how many stop sequences it takes; None where no limit is documented
    stream_options:    False where the server hangs or refuses (some NVIDIA NIM models)
    """

    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    unsupported: frozenset[str] = frozenset({"top_k"})
    temperature_range: tuple[float, float] = (0.0, 2.0)
    max_stops: int | None = 4
    stream_options: bool = True


class ToolQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """Tools, and the ids of calls.

    functions:             False where the vendor has none (Sonar, which Perplexity ended)
    choice:                what may be requested (Z.ai: auto only; Qwen: no required)
    choice_while_thinking: False where a forced choice conflicts with thinking and is then
        left out (DeepSeek V4, Moonshot)
    parallel_calls:        whether the field `parallel_tool_calls` is known
    strict:                whether `strict` is known (not: Z.ai, Moonshot)
    provider_tools:        whether tools of the vendor's own may stand in `tools` (Groq, Z.ai, OpenRouter)
    max_call_id_chars:     longer ids of calls, which other vendors gave them, are replaced; None where
        any length is accepted and an id may carry a signature (LiteLLM)
    short_call_ids:        ids of calls have to be nine letters and digits (Mistral's models)
    numbered_call_ids:     ids of calls are `call_0`, `call_1`, again in each answer; they get ids of ours,
        since a conversation cannot tell them apart (Bedrock)
    """

    functions: bool = True
    choice: frozenset[Literal["auto", "none", "required", "named"]] = frozenset(
        {"auto", "none", "required", "named"}
    )
    choice_while_thinking: bool = True
    parallel_calls: bool = True
    strict: bool = True
    provider_tools: bool = False
    max_call_id_chars: int | None = 40
    short_call_ids: bool = False
    numbered_call_ids: bool = False


class SchemaQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """JSON schemas, of answers and of tools.

    output:      the most that `response_format` knows; a schema then goes into the prompt instead
        (DeepSeek, Z.ai: json_object)
    json_object: False where JSON of any shape cannot be requested beside schemas (Sonar)
    subset:      "moonshot" where schemas have to name the type of everything, in the branches of
        an `anyOf` and not beside it
    inline_refs: models read only schemas without `$ref` (GLM-5.3)
    """

    output: Literal["json_schema", "json_object", "none"] = "json_schema"
    json_object: bool = True
    subset: Literal["none", "moonshot"] = "none"
    inline_refs: bool = False


class MediaQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """Images, files and audio in messages.

    string_only:   a message's content has to be one string (DeepSeek, older vLLM)
    image_urls:    False where images have to be data URIs (Moonshot)
    files:         False where parts of the type `file` are not known; texts then go as text
    file_urls:     True where `file_data` may be a URL (OpenRouter); OpenAI wants the bytes
    audio_formats: None where any format is accepted (OpenRouter), empty where no audio is;
        OpenAI knows wav and mp3
    audio_urls:    audio goes as a URL, bytes as a data URI (Qwen-Omni)
    """

    string_only: bool = False
    image_urls: bool = True
    files: bool = True
    file_urls: bool = False
    audio_formats: frozenset[str] | None = OPENAI_AUDIO
    audio_urls: bool = False


class ThinkingQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """How thinking is requested, and what the models do without a request.

    style:          see `ThinkingStyle`
    on:             the type of `thinking` that is not "disabled" (MiniMax: adaptive)
    template_field: where variables of the model's template stand (Baseten: chat_template_args)
    switch:         the variable of the model's template that turns thinking on ("thinking":
        DeepSeek, Kimi, Granite)
    switch_values:  what that variable holds for off and on
    effort_beside_switch: whether `reasoning_effort` goes along with the switch, where models know efforts
    budget_field:   field of the body for a budget, beside switch or effort; None where there is none
    known_efforts:  the efforts that are known, in order, "none" among them where thinking can be
        switched off; others become the next higher, else the highest. None where any may be sent
    efforts:        our effort to the vendor's word, where they differ (Inception: instant)
    always:         effort "none" cannot be requested (Kimi K2 Thinking); the lowest of the known
        efforts is sent in its place
    unasked:        models think where the request names no effort; a forced choice of tools then switches
        it off, where the two conflict (DeepSeek V4)
    off_unasked:    the model thinks only on request, and has no word for effort "none",
        for which nothing is sent (Claude at Snowflake)
    """

    style: ThinkingStyle = "effort"
    on: str = "enabled"
    template_field: str = "chat_template_kwargs"
    switch: str = "enable_thinking"
    switch_values: tuple[bool | str, bool | str] = (False, True)
    effort_beside_switch: bool = False
    budget_field: str | None = None
    known_efforts: tuple[str, ...] | None = None
    efforts: Mapping[str, str] = {}
    always: bool = False
    unasked: bool = False
    off_unasked: bool = False


class ReasoningQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """Where the text of reasoning stands, in answers and in the history.

    field:      under which name reasoning goes back, and is written in reverse; "think-tags"
        puts it into the content, as it came (MiniMax); "reasoning_text" goes with its signature,
        `reasoning_opaque`, or not at all (Copilot, seen 2026-09)
    echo:       which assistant messages get their reasoning back: "current-turn" are those
        after the last user message (DeepSeek's old reasoner refuses earlier ones, Moonshot wants
        these); "all" (DeepSeek V4, OpenRouter)
    echo_empty: send "" where a message has none (DeepSeek V4 wants the field on all)
    tags:       the model's `<think>` tags come in the content ("tags"), the first one
        maybe missing since it stands in the prompt ("opened": Qwen3, R1 templates)
    tag:        the name of the tag (Bedrock: "reasoning")
    dedupe:     a reasoning delta equal to the one before it is a repetition (xAI)
    """

    field: Literal[
        "none", "reasoning_content", "reasoning", "reasoning_details", "reasoning_text", "think-tags"
    ] = "none"
    echo: Literal["never", "current-turn", "all"] = "never"
    echo_empty: bool = False
    tags: Literal["none", "tags", "opened"] = "none"
    tag: str = "think"
    dedupe: bool = False


class UsageQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are counted.

    output_excludes_reasoning:     completion_tokens leave reasoning out, whatever the total is (xAI)
    output_may_exclude_reasoning:  more reasoning than completion_tokens comes on top of them (DeepInfra)
    input_may_exclude_cached:      cached tokens above prompt_tokens come on top of them (xAI)
    """

    output_excludes_reasoning: bool = False
    output_may_exclude_reasoning: bool = False
    input_may_exclude_cached: bool = False


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """How one vendor's Chat Completions differ from OpenAI's (all seen by 2026-07).

    path:           of the endpoint below the base URL
    headers:        fixed headers of every request
    extra_body:     fixed fields of every request (Z.ai `tool_stream`, OpenRouter `usage`)
    system_role:    name of the system role. "auto" is `developer` for OpenAI's reasoning models
        (o-series, gpt-5 and later), which rank it above the user; others know only `system`
    finish_reasons: the vendor's own finish reasons, beside those the decoder knows
    reasoning_model_rules: OpenAI's models refuse settings and efforts that they do not know, see
        `model_rules/gpt.py`; these are left out with a warning
    wire_rules:     OpenAI and Azure themselves refuse function tools of models that reason, and do not serve
        every model here (`chat_tools` and `chat` in `model_rules/gpt.py`); other servers of their
        models do
    open_model_rules: for hosts of open models: the model's name decides by `model_rules/open_models.py`
        which efforts it knows, whether thinking can be switched off, and its switch. What `by_model`
        has for a model wins
    by_model:       what is different for some models; where several fit, later ones win
    """

    path: str = "/chat/completions"
    headers: Mapping[str, str] = {}
    extra_body: Mapping[str, Any] = {}
    system_role: Literal["system", "developer", "auto"] = "auto"
    finish_reasons: Mapping[str, FinishReason] = {}

    settings: SettingQuirks = SettingQuirks()
    tools: ToolQuirks = ToolQuirks()
    schemas: SchemaQuirks = SchemaQuirks()
    media: MediaQuirks = MediaQuirks()
    thinking: ThinkingQuirks = ThinkingQuirks()
    reasoning: ReasoningQuirks = ReasoningQuirks()
    usage: UsageQuirks = UsageQuirks()

    reasoning_model_rules: bool = True
    wire_rules: bool = True
    open_model_rules: bool = False
    by_model: tuple[ModelQuirks[AnyQuirks], ...] = ()

    def __hash__(self) -> int:
        # For the cache of `for_model`. Mappings have no hash, and few quirks meet for one model's name.
        return hash(self.path)

    def for_model(self, model: str) -> Quirks:
        """These quirks, with the differences for one model."""
        return _of_model(self, model)


AnyQuirks: TypeAlias = Union[  # noqa: UP007 - Struct needs it when the module is loaded
    Quirks,
    SettingQuirks,
    ToolQuirks,
    SchemaQuirks,
    MediaQuirks,
    ThinkingQuirks,
    ReasoningQuirks,
    UsageQuirks,
]
"""What a model may change."""


@functools.lru_cache(CACHED_MODELS)
def _of_model(quirks: Quirks, model: str) -> Quirks:
    changes = changes_for(model, quirks.by_model)
    changed_quirks = changed(quirks, changes)
    if not changed_quirks.open_model_rules:
        return changed_quirks
    from llmstream.model_rules.open_models import OPEN_MODELS  # 2 ms, only for hosts of open models

    general = _of_open_model(OPEN_MODELS.find(model), changed_quirks.thinking.style)
    return changed(quirks, (*general, *changes))


def _of_open_model(rules: OpenModelRules, style: ThinkingStyle) -> tuple[Change[AnyQuirks], ...]:
    """The changes by the rules for an open model, at a host that requests thinking in this style."""
    if not rules.thinks:
        return (change(ThinkingQuirks, style="none"),)
    changes: list[Change[AnyQuirks]] = [change(ThinkingQuirks, always=not rules.can_stop_thinking)]
    if rules.inline_refs:
        changes.append(change(SchemaQuirks, inline_refs=True))
    if rules.efforts is not None and (rules.efforts or style in _SWITCHES):
        off = ("none",) if rules.can_stop_thinking else ()
        changes.append(change(ThinkingQuirks, known_efforts=(*off, *rules.efforts)))
    without = not rules.can_stop_thinking or (style == "chat-template" and rules.switch is None)
    if style in ("chat-template", "enabled") and without:
        changes.append(change(ThinkingQuirks, style="effort" if rules.efforts else "none"))
    elif rules.switch is not None:
        changes.append(change(ThinkingQuirks, switch=rules.switch, switch_values=rules.switch_values))
    return tuple(changes)


# Quirks that many providers share, so that a new one defines only its own differences.

# A host of open models: vLLM, SGLang or the like behind a gateway, which also take top_k.
#
# They accept only the role `system` and the field `max_tokens`, have no list of stop sequences that is full,
# and no parts of the types `file` and `input_audio` (seen 2026-11: the protocols of vLLM and SGLang,
# litellm's `openai_like/providers.json`, of which nearly all map to `max_tokens`).
OPEN_MODEL_HOST: Final = Quirks(
    system_role="system",
    reasoning_model_rules=False,
    open_model_rules=True,
    settings=SettingQuirks(max_tokens_field="max_tokens", unsupported=frozenset(), max_stops=None),
    media=MediaQuirks(files=False, audio_formats=frozenset()),
    reasoning=ReasoningQuirks(field="reasoning_content"),
)


def hosted(*changes: Change[AnyQuirks], by_model: tuple[ModelQuirks[AnyQuirks], ...] = ()) -> Quirks:
    """The quirks of a host of open models, with the differences at this one."""
    return changed(OPEN_MODEL_HOST, [*changes, change(Quirks, by_model=by_model)])
