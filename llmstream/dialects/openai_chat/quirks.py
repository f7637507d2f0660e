"""What servers of the Chat Completions wire do differently, as data.

Defaults are OpenAI's own. A provider's folder fills in what its vendor wants; reading an answer
needs hardly any of this, since the decoder goes by what the wire says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from llmstream.dialects.requests import ModelQuirks, changes_for
from llmstream.events import FinishReason

if TYPE_CHECKING:
    from llmstream.model_rules.open_models import OpenModelRules

__all__ = ["ModelQuirks", "Quirks"]

_SWITCHES: Final = frozenset({"thinking", "thinking-effort", "enable-thinking", "chat-template", "enabled"})
"""Styles that say on or off; elsewhere an effort stands for "on" at hosts of models without efforts."""


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """How one vendor's Chat Completions differ from OpenAI's (all seen by 2026-07).

    Where and who:

    path:        of the endpoint below the base URL
    system_role: name of the system role. "auto" says `developer` to OpenAI's reasoning models
        (o-series, gpt-5 and later), which rank it above the user; others know only `system`
    reasoning_model_rules: OpenAI's models refuse settings and efforts that they do not know, see
        `model_rules/gpt.py`; these are left out with a warning
    wire_rules:  OpenAI and Azure themselves refuse function tools of models that reason, and do not serve
        every model here (`chat_tools` and `chat` in `model_rules/gpt.py`); other servers of their
        models do
    by_model:    what is different for some models; where several fit, later ones win

    Fields of the request:

    max_tokens_field:    most servers know only `max_tokens`; OpenAI's reasoning models refuse it
    stream_options:      False where the server hangs or refuses (some NVIDIA NIM models)
    unsupported_settings: names of `Settings` fields the vendor refuses; left out with a warning
        (OpenAI: top_k; xAI reasoning models: stop, penalties; Z.ai: penalties; Moonshot: temperature)
    temperature_range:   what the vendor takes; others become the nearest, with a warning
    max_stops:           how many stop sequences it takes; None where it does not say
    extra_body:          fixed fields of every request (Z.ai `tool_stream`, OpenRouter `usage`)
    headers:             fixed headers of every request

    Tools:

    tools:               False where the vendor has none (Sonar, which Perplexity ended)
    tool_choice:         what may be asked for (Z.ai: auto only; Qwen: no required)
    tool_choice_while_thinking: False where forced choice conflicts with thinking and is then
        left out (DeepSeek V4, Moonshot)
    thinks_unasked:      models think where the request does not say; a forced choice then switches it
        off, where the two conflict (DeepSeek V4)
    parallel_tool_calls: whether the field is known
    strict_tools:        whether `strict` is known (not: Z.ai, Moonshot)
    max_call_id_chars:   longer ids of calls, which other vendors gave them, are replaced; None where
        any length goes and an id may carry a signature (LiteLLM)
    short_call_ids:      ids of calls have to be nine letters and digits (Mistral's models)
    schema_subset:       "moonshot" where schemas have to say the type of everything, in the branches of
        an `anyOf` and not beside it
    inline_refs:         models read only schemas without `$ref` (GLM-5.3)
    provider_tools:      whether tools of the vendor's own may stand in `tools` (Groq, Z.ai, OpenRouter)

    Content:

    string_only_content: a message's content has to be one string (DeepSeek, older vLLM)
    image_urls:          False where images have to be data URIs (Moonshot)
    files:               False where parts of the type `file` are not known; texts then go as text
    file_urls:           True where `file_data` may be a URL (OpenRouter); OpenAI wants the bytes
    audio_formats:       None where any format goes (OpenRouter), empty where no recordings are taken;
        OpenAI knows wav and mp3
    audio_urls:          recordings go as URLs, a recording at hand as a data URI (Qwen-Omni)
    response_format:     the most the vendor knows; a schema then goes into the prompt instead
        (DeepSeek, Z.ai: json_object)
    json_object:         False where JSON of any shape cannot be asked for beside schemas (Sonar)

    Reasoning:

    reasoning_style:     how thinking is asked for:
        "effort" `reasoning_effort` (OpenAI, xAI, Cerebras); "effort-or-budget" that, or
        `thinking{type, budget_tokens}` for a budget, not both (Fireworks);
        "openrouter" `reasoning{effort|max_tokens}`; "thinking" `thinking{type}` (Z.ai, Moonshot);
        "thinking-effort" the same with `reasoning_effort` (DeepSeek V4, GLM-5.2);
        "enable-thinking" `enable_thinking`, `thinking_budget` (Qwen);
        "chat-template" `chat_template_kwargs{SWITCH}`, for servers that pass it to the model's
        template (vLLM, SGLang, NIM); "enabled" `reasoning{enabled}` with `reasoning_effort` (Together);
        "groq" `reasoning_effort` and `reasoning_format: parsed`; "none" cannot be asked for
    thinking_on:         the type of `thinking` that is not "disabled" (MiniMax: adaptive)
    template_field:      where variables of the model's template stand (Baseten: chat_template_args)
    template_switch:     the variable of the model's template that turns thinking on ("thinking":
        DeepSeek, Kimi, Granite)
    switch_values:       what that variable holds for off and on
    effort_beside_switch: whether `reasoning_effort` goes along with the switch, where models know efforts
    budget_field:        field of the body for a budget, beside switch or effort; None where there is none
    known_efforts:       the efforts that are known, in order, "none" among them where thinking can be
        switched off; others become the next higher, else the highest. None where any may be sent
    efforts:             our effort -> the vendor's word, where they differ (Inception: instant)
    open_model_rules:    the model's name says by `model_rules/open_models.py` which efforts it knows,
        whether it can be kept from thinking, and its switch: for hosts of open models. What `by_model`
        says of a model wins
    always_thinks:       effort "none" cannot be asked for (Kimi K2 Thinking); the lowest of the known
        efforts is sent in its place
    off_unasked:         the model thinks only where it is asked to, and has no word for effort "none",
        for which nothing is sent (Claude at Snowflake)
    reasoning_field:     under which name reasoning goes back, and is written in reverse; "think-tags"
        puts it into the content, as it came (MiniMax); "reasoning_text" goes with its signature,
        `reasoning_opaque`, or not at all (Copilot, seen 2026-09)
    echo:                which assistant messages get their reasoning back: "current-turn" are those
        after the last user message (DeepSeek's old reasoner refuses earlier ones, Moonshot wants
        these); "all" (DeepSeek V4, OpenRouter)
    echo_empty:          send "" where a message has none (DeepSeek V4 wants the field on all)

    Reading:

    think_tags:          the model's `<think>` tags come in the content ("tags"), the first one
        maybe missing since it stands in the prompt ("opened": Qwen3, R1 templates)
    think_tag:           what the tag is called (Bedrock: "reasoning")
    numbered_call_ids:   ids of calls are `call_0`, `call_1`, anew in each answer; they get ids of ours,
        since a conversation cannot tell them apart (Bedrock)
    dedupe_reasoning:    a reasoning delta equal to the one before it is a repetition (xAI)
    output_excludes_reasoning: completion_tokens leave reasoning out, whatever the total says (xAI)
    output_may_exclude_reasoning: more reasoning than completion_tokens comes on top of them (DeepInfra)
    input_may_exclude_cached: cached tokens above prompt_tokens come on top of them (xAI)
    finish_reasons:      the vendor's own finish reasons, beside those the decoder knows
    """

    path: str = "/chat/completions"
    system_role: Literal["system", "developer", "auto"] = "auto"
    reasoning_model_rules: bool = True
    wire_rules: bool = True
    by_model: tuple[ModelQuirks, ...] = ()

    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    stream_options: bool = True
    unsupported_settings: frozenset[str] = frozenset({"top_k"})
    temperature_range: tuple[float, float] = (0.0, 2.0)
    max_stops: int | None = 4
    extra_body: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}

    tools: bool = True
    tool_choice: frozenset[Literal["auto", "none", "required", "named"]] = frozenset(
        {"auto", "none", "required", "named"}
    )
    tool_choice_while_thinking: bool = True
    thinks_unasked: bool = False
    parallel_tool_calls: bool = True
    strict_tools: bool = True
    max_call_id_chars: int | None = 40
    short_call_ids: bool = False
    schema_subset: Literal["none", "moonshot"] = "none"
    inline_refs: bool = False
    provider_tools: bool = False

    string_only_content: bool = False
    image_urls: bool = True
    files: bool = True
    file_urls: bool = False
    audio_formats: frozenset[str] | None = frozenset({"wav", "mp3"})
    audio_urls: bool = False
    response_format: Literal["json_schema", "json_object", "none"] = "json_schema"
    json_object: bool = True

    reasoning_style: Literal[
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
    ] = "effort"
    thinking_on: str = "enabled"
    template_field: str = "chat_template_kwargs"
    template_switch: str = "enable_thinking"
    switch_values: tuple[bool | str, bool | str] = (False, True)
    effort_beside_switch: bool = False
    budget_field: str | None = None
    known_efforts: tuple[str, ...] | None = None
    efforts: Mapping[str, str] = {}
    open_model_rules: bool = False
    always_thinks: bool = False
    off_unasked: bool = False
    reasoning_field: Literal[
        "none", "reasoning_content", "reasoning", "reasoning_details", "reasoning_text", "think-tags"
    ] = "none"
    echo: Literal["never", "current-turn", "all"] = "never"
    echo_empty: bool = False

    think_tags: Literal["none", "tags", "opened"] = "none"
    think_tag: str = "think"
    numbered_call_ids: bool = False
    dedupe_reasoning: bool = False
    output_excludes_reasoning: bool = False
    output_may_exclude_reasoning: bool = False
    input_may_exclude_cached: bool = False
    finish_reasons: Mapping[str, FinishReason] = {}

    def for_model(self, model: str) -> Quirks:
        """These quirks, with what is different for one model."""
        changes = changes_for(model, self.by_model)
        if changes.get("open_model_rules", self.open_model_rules):
            from llmstream.model_rules.open_models import OPEN_MODELS  # 2 ms, for hosts of open models alone

            style = changes.get("reasoning_style", self.reasoning_style)
            changes = {**_of_open_model(OPEN_MODELS.find(model), style), **changes}
        return msgspec.structs.replace(self, **changes) if changes else self


def _of_open_model(rules: OpenModelRules, style: str) -> dict[str, Any]:
    """What the rules for an open model change, at a host that asks for thinking in this style."""
    if not rules.thinks:
        return {"reasoning_style": "none"}
    changes: dict[str, Any] = {"always_thinks": not rules.can_stop_thinking}
    if rules.inline_refs:
        changes["inline_refs"] = True
    if rules.efforts is not None and (rules.efforts or style in _SWITCHES):
        changes["known_efforts"] = (*(("none",) if rules.can_stop_thinking else ()), *rules.efforts)
    without = not rules.can_stop_thinking or (style == "chat-template" and rules.switch is None)
    if style in ("chat-template", "enabled") and without:
        changes["reasoning_style"] = "effort" if rules.efforts else "none"
    elif rules.switch is not None:
        changes["template_switch"] = rules.switch
        changes["switch_values"] = rules.switch_values
    return changes
