"""xAI's Grok models behind the Responses wire."""

from dataclasses import replace

from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.providers.xai import XAI

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
            efforts={"minimal": "low", "xhigh": "high", "max": "high"},
        )
    ),
    aliases=("grok-responses",),
    docs="https://docs.x.ai/developers/model-capabilities/text/comparison",
    notes="`web_search` and `x_search` run at the vendor",
)
"""xAI's newer wire, with its own searches as hosted tools."""
