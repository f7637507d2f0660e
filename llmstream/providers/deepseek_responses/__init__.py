"""DeepSeek's models behind the Responses wire."""

from dataclasses import replace

from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.providers.deepseek import DEEPSEEK

DEEPSEEK_RESPONSES = replace(
    DEEPSEEK,
    name="deepseek-responses",
    title="DeepSeek (Responses)",
    dialect=OpenAIResponses(
        Quirks(
            encrypted="never",
            plain_reasoning=True,
            system_role="system",
            reasoning_model_rules=False,
            # Its guide to the thinking mode (seen 2026-11): low, high and max, other words become these.
            efforts={"minimal": "low", "medium": "high", "xhigh": "high"},
            # Its guide to this wire: a call is joined with the item beside it (seen 2026-11).
            calls_last=True,
            strict_tools=False,
            provider_tools=False,
            background=False,
        )
    ),
    aliases=(),
    docs="https://api-docs.deepseek.com/guides/responses_api",
    notes="unlike `deepseek` it holds answers to a JSON schema",
)
"""DeepSeek's newer wire, which knows JSON schemas."""
