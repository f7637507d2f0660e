"""Cerebras: open models on its own chips."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.address import versioned
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
            # cerebras-cloud-sdk 1.91.0 (seen 2026-11); gpt-oss, GLM-5.3 and Kimi K3 always think (its page on
            # reasoning, by pydantic-ai-slim 2.68.0).
            known_efforts=("none", "low", "medium", "high"),
            open_model_rules=True,
            by_model=(
                ModelQuirks(r"qwen-?3\.8", {"known_efforts": ("none", "low", "medium", "high")}),
                # Thoughts of GLM go back between tags in the content (the same page).
                ModelQuirks("glm", {"reasoning_field": "think-tags", "echo": "all"}),
            ),
            reasoning_field="reasoning",
        )
    ),
    base_url="https://api.cerebras.ai/v1",
    base_url_env=("CEREBRAS_BASE_URL", "CEREBRAS_API_BASE"),
    normalize=versioned,
    key_env=("CEREBRAS_API_KEY",),
    docs="https://inference-docs.cerebras.ai/api-reference/chat-completions",
    notes="strict schemas want `additionalProperties: false`",
)
"""Cerebras hosts open models on its own chips behind the Chat Completions wire."""
