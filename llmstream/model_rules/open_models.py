"""Models that many hosts serve: what holds of them wherever they run.

Hosts put names of their own around a model's: "zai-org/GLM-5.2", "accounts/fireworks/models/glm-5p2",
"zai-glm-4.7". A point of a version may so be a hyphen or a "p".
"""

from __future__ import annotations

from typing import Final

import msgspec

from llmstream.model_rules import Row, Table

__all__ = ["OPEN_MODELS", "OpenModelRules"]


class OpenModelRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a model thinks, and what its chat template knows of that.

    thinks:            False for models that only answer
    can_stop_thinking: whether thinking can be switched off
    efforts:           above "none", in order; () where it is on or off, None where nothing is known
    inline_refs:       it reads only schemas without `$ref`
    switch:            the variable of its chat template that turns thinking on; None where it has none
    switch_values:     what the variable holds for off and on
    """

    thinks: bool = True
    can_stop_thinking: bool = True
    efforts: tuple[str, ...] | None = None
    inline_refs: bool = False
    switch: str | None = "enable_thinking"
    switch_values: tuple[bool | str, bool | str] = (False, True)


_ANSWERS: Final = OpenModelRules(thinks=False, efforts=(), switch=None)
_ALWAYS: Final = OpenModelRules(can_stop_thinking=False, efforts=(), switch=None)
_ENABLE_THINKING: Final = OpenModelRules(efforts=())
_THINKING: Final = OpenModelRules(efforts=(), switch="thinking")


def _by_effort(*efforts: str) -> OpenModelRules:
    """A model that always thinks, and knows how much."""
    return OpenModelRules(can_stop_thinking=False, efforts=efforts, switch=None)


# From a model's name to its rules.
OPEN_MODELS: Final = Table(
    Row(
        "gpt-oss",
        _by_effort("low", "medium", "high"),
        "2026-11",
        "model card of openai/gpt-oss-120b; groq 1.7.0, cerebras-cloud-sdk 1.91.0, fireworks-ai 1.2.30",
    ),
    # DeepSeek; its distillations carry other families' names too, so its row precedes theirs.
    Row(
        r"deepseek[-_]?(?:r1|reasoner)|r1-distill",
        _ALWAYS,
        "2026-11",
        "model card of deepseek-ai/DeepSeek-R1",
    ),
    Row(
        r"deepseek[-_]?(?:v2|v3(?![.p-][1-9])|chat|coder|llm|math|vl|ocr)",
        _ANSWERS,
        "2026-11",
        "model card of deepseek-ai/DeepSeek-V3",
    ),
    Row(
        r"deepseek[-_]?v3",
        _THINKING,
        "2026-11",
        "docs.vllm.ai reasoning outputs: DeepSeek-V3.1 thinks with `thinking` in chat_template_kwargs",
    ),
    Row(
        "deepseek",
        OpenModelRules(efforts=("low", "high", "max"), switch="thinking"),
        "2026-11",
        "api-docs.deepseek.com thinking mode; pydantic-ai-slim profiles/deepseek.py",
    ),
    # GLM of Z.ai.
    Row(
        r"chatglm|glm-(?:[1-3]|4-(?:9b|32b|plus|air|flash|long))(?!\d)",
        _ANSWERS,
        "2026-11",
        "docs.z.ai: thinking began with GLM-4.5",
    ),
    Row(
        r"glm-(?:4|5(?:[.p-][01])?(?![.p-]?\d))",
        _ENABLE_THINKING,
        "2026-11",
        "docs.z.ai thinking; docs.vllm.ai reasoning outputs",
    ),
    Row(
        r"glm-5[.p-]2",
        OpenModelRules(efforts=("high", "max")),
        "2026-11",
        "docs.z.ai thinking mode; pydantic-ai-slim profiles/zai.py",
    ),
    Row(
        r"glm-",
        msgspec.structs.replace(_by_effort("low", "high", "max"), inline_refs=True),
        "2026-11",
        "GLM-5.3: pydantic-ai-slim profiles/zai.py (#10243), litellm 1.109.1, openrouter.ai/z-ai/glm-5.3",
    ),
    # Kimi of Moonshot AI.
    Row(
        r"moonshot-v1|kimi-(?:latest|vl|dev|linear)|kimi-k2(?:-(?:instruct|turbo|\d{4})|$|:)",
        _ANSWERS,
        "2026-11",
        "platform.kimi.ai models",
    ),
    Row(
        r"kimi-k2-thinking|kimi-k2[.p-][7-9]|kimi-thinking",
        _ALWAYS,
        "2026-11",
        'platform.kimi.ai: "only type=enabled is allowed"; litellm 1.109.1',
    ),
    Row(
        r"kimi-k[12]",
        _THINKING,
        "2026-11",
        "K2.5, K2.6: platform.kimi.ai thinking; model card of moonshotai/Kimi-K2.5",
    ),
    Row(
        "kimi",
        _by_effort("low", "high", "max"),
        "2026-11",
        "K3: platform.kimi.ai; cerebras-cloud-sdk 1.91.0; pydantic-ai-slim profiles/moonshotai.py",
    ),
    # MiniMax.
    Row(r"minimax-(?:text|vl|abab)", _ANSWERS, "2026-11", "platform.minimax.io models"),
    Row(
        r"minimax-m[12]",
        _ALWAYS,
        "2026-11",
        "platform.minimax.io; fireworks-ai 1.2.30: effort none is refused",
    ),
    Row(
        "minimax",
        OpenModelRules(efforts=(), switch="thinking_mode", switch_values=("disabled", "enabled")),
        "2026-11",
        "chat template of MiniMaxAI/MiniMax-M3; platform.minimax.io",
    ),
    # Nemotron's row precedes Llama's, whose name the older ones carry.
    Row(
        r"llama.*nemotron",
        OpenModelRules(efforts=(), switch=None),
        "2026-11",
        "docs.nvidia.com NIM: thinking by the system prompt (`detailed thinking on`)",
    ),
    Row("nemotron", _ENABLE_THINKING, "2026-11", "model card of nvidia/NVIDIA-Nemotron-3-Nano"),
    # Qwen of Alibaba.
    Row(r"qwq|qvq|qwen-?3.*thinking", _ALWAYS, "2026-11", "model card of Qwen/Qwen3-235B-A22B-Thinking-2507"),
    Row(
        r"qwen-?(?:1|2)(?:[.p]\d)?(?!\d)|qwen-?3.*(?:instruct|coder)",
        _ANSWERS,
        "2026-11",
        "model card of Qwen/Qwen3-235B-A22B-Instruct-2507",
    ),
    Row(
        r"qwen-?3(?![.p][89])|qwen-(?:plus|max|flash|turbo)",
        _ENABLE_THINKING,
        "2026-11",
        "docs.vllm.ai reasoning outputs; model card of Qwen/Qwen3-8B",
    ),
    Row(
        r"qwen-(?:omni|vl|long|coder|math|mt|doc)",
        _ANSWERS,
        "2026-11",
        "alibabacloud.com model-studio models",
    ),
    Row(
        "qwen",
        OpenModelRules(efforts=("low", "medium", "xhigh")),
        "2026-11",
        "model card of Qwen/Qwen3.8-27B, whose template refuses `high`; docs of Qwen3.8-Max; groq 1.7.0",
    ),
    # Grok of xAI: some clouds serve it.
    Row(
        r"grok-3-mini",
        OpenModelRules(efforts=("low", "high"), switch=None),
        "2026-11",
        "docs.x.ai reasoning; pydantic-ai-slim 2.68.0 profiles/grok.py (none tried live 2026-10)",
    ),
    Row(
        r"non-reasoning|grok-(?:2|3)",
        _ANSWERS,
        "2026-11",
        "docs.x.ai models",
    ),
    Row(
        r"grok-4[.-]?5(?!\d)|grok-build-latest",
        _by_effort("low", "medium", "high"),
        "2026-11",
        "@ai-sdk/xai 5.0.12; pydantic-ai-slim profiles/grok.py",
    ),
    Row(
        r"grok-(?:code|build|4(?![.-]?[3-9](?!\d)))",
        _ALWAYS,
        "2026-11",
        "docs.x.ai reasoning; @ai-sdk/xai 5.0.12: grok-4, 4.1 and 4.20 refuse an effort",
    ),
    Row(
        r"grok-4[.-]?[34](?!\d)",
        OpenModelRules(efforts=("low", "medium", "high"), switch=None),
        "2026-11",
        "docs.x.ai reasoning",
    ),
    Row(
        "grok",
        _by_effort("low", "medium", "high", "xhigh"),
        "2026-11",
        "docs.x.ai reasoning: 4.6 and later; @ai-sdk/xai 5.0.12; farion1231/cc-switch#7584 (4.7)",
    ),
    # Others whose templates have a switch.
    Row("granite", _THINKING, "2026-11", "docs.vllm.ai reasoning outputs: Granite 3.2"),
    Row(
        r"gemma-?4",
        _ENABLE_THINKING,
        "2026-11",
        "docs.vllm.ai reasoning outputs: Gemma 4 is off unless asked",
    ),
    Row("gemma", _ANSWERS, "2026-11", "model card of google/gemma-3-27b-it"),
    Row("llama", _ANSWERS, "2026-11", "model card of meta-llama/Llama-4-Maverick"),
    unknown=OpenModelRules(),
)
