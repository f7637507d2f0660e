"""What the models that Mistral serves take and refuse.

Sources, read 2026-11: docs.mistral.ai/studio/conversations/reasoning (2026-10-26);
@ai-sdk/mistral 4.0.87 `mistral-model-catalog.ts` (from the vendor's list of models, 2026-10-06);
litellm 1.109 for sizes.
"""

from __future__ import annotations

from typing import Final

import msgspec

from llmstream.model_rules import Row, Table

__all__ = ["MISTRAL", "MistralRules"]


class MistralRules(msgspec.Struct, frozen=True, kw_only=True):
    """One row. Defaults are those of most current models, and of names that are not known.

    efforts:        those that `reasoning_effort` takes; () where the model takes none
    prompt_mode:    it always thinks, and `prompt_mode: "reasoning"` requests it
    inline_refs:    it reads only schemas without `$ref`
    context_tokens: of input and output together; None where unknown
    """

    efforts: tuple[str, ...] = ("none", "high")
    prompt_mode: bool = False
    inline_refs: bool = False
    context_tokens: int | None = 262_144


_LARGE_4: Final = MistralRules(efforts=("low", "medium", "high"), context_tokens=1_048_576)
_GLM_5_3: Final = MistralRules(efforts=("low", "high", "max"), inline_refs=True, context_tokens=1_048_576)
_NO_EFFORT: Final = MistralRules(efforts=())
_CATALOG: Final = "@ai-sdk/mistral 4.0.87"
_PAGE: Final = "docs.mistral.ai, page on reasoning (2026-10-26)"

# Rules by name, such as `mistral-large-4-0` or `zai-glm-5-3-flash`.
MISTRAL: Final = Table(
    Row("magistral", MistralRules(efforts=(), prompt_mode=True), "2026-11", _PAGE),
    # Four digits are a date: `mistral-large-2411` is version 2.
    Row(r"mistral-large-(?:[4-9]|\d\d)(?!\d)", _LARGE_4, "2026-11", "vercel/ai#24350, " + _CATALOG),
    # `zai-glm-5-2` can be switched off; the names without a version are the newest.
    Row(r"zai-glm-(?!5-[0-2])", _GLM_5_3, "2026-11", _PAGE),
    Row(
        r"codestral|ministral|devstral|voxtral|pixtral|mixtral|mistral-(?:large|code|nemo|tiny|saba|7b)",
        _NO_EFFORT,
        "2026-11",
        _CATALOG,
    ),
    unknown=MistralRules(),
)
