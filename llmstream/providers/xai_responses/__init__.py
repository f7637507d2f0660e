"""xAI's Grok models behind the Responses wire."""

from dataclasses import replace

from llmstream.dialects.openai_responses import ModelQuirks, OpenAIResponses, Quirks
from llmstream.providers.xai import RETIRED_SLUGS, XAI

XAI_RESPONSES = replace(
    XAI,
    name="xai-responses",
    title="xAI (Responses)",
    dialect=OpenAIResponses(
        Quirks(
            background=False,
            steering=False,
            system="message",
            system_role="system",
            reasoning_model_rules=False,
            # Grok 4.20 refuses `reasoning`, 4.5 and later refuse none (seen 2026-11, @ai-sdk/xai 5.0.12).
            known_efforts=("none", "low", "medium", "high"),
            efforts={},
            open_model_rules=True,
            by_model=(
                ModelQuirks(
                    RETIRED_SLUGS.pattern,
                    {"reasoning": True, "known_efforts": ("none", "low", "medium", "high")},
                ),
                ModelQuirks(r"grok-4(?:$|\.20)", {"reasoning": False}),
            ),
        )
    ),
    aliases=("grok-responses",),
    docs="https://docs.x.ai/developers/model-capabilities/text/comparison",
    notes="`web_search` and `x_search` run at the vendor",
)
"""xAI's newer wire, with its own searches as hosted tools."""
