"""Cerebras: open models on its own chips."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.base import Provider

CEREBRAS = Provider(
    name="cerebras",
    title="Cerebras",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            files=False,
            audio_formats=frozenset(),
            # Listed as unsupported in its notes on OpenAI compatibility (seen 2026-07).
            unsupported_settings=frozenset({"top_k", "presence_penalty", "frequency_penalty"}),
            temperature_range=(0.0, 1.5),
            parallel_tool_calls=False,
            efforts={"minimal": "low", "xhigh": "high", "max": "high"},
            # gpt-oss cannot be kept from thinking, GLM can (seen 2026-11).
            by_model=(
                ModelQuirks(
                    "gpt-oss",
                    {"efforts": {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}},
                ),
            ),
            reasoning_field="reasoning",
        )
    ),
    base_url="https://api.cerebras.ai/v1",
    base_url_env=("CEREBRAS_BASE_URL",),
    key_env=("CEREBRAS_API_KEY",),
    docs="https://inference-docs.cerebras.ai/api-reference/chat-completions",
    notes="strict schemas want `additionalProperties: false`",
)
"""Cerebras hosts open models on its own chips behind the Chat Completions wire."""
