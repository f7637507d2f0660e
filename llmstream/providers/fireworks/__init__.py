"""Fireworks AI: open models, hosted."""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.base import Provider

FIREWORKS = Provider(
    name="fireworks",
    title="Fireworks AI",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset(),
            max_stops=None,
            # Refuses the efforts minimal and xhigh (seen 2026-07).
            efforts={"minimal": "low", "xhigh": "high", "max": "high"},
            # A budget stands in `thinking`, which excludes an effort (seen 2026-07).
            reasoning_style="effort-or-budget",
            reasoning_field="reasoning_content",
            think_tags="tags",
        )
    ),
    base_url="https://api.fireworks.ai/inference/v1",
    base_url_env=("FIREWORKS_BASE_URL",),
    key_env=("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
    aliases=("fireworks-ai", "fireworksai"),
    docs="https://docs.fireworks.ai/api-reference/post-chatcompletions",
    notes="models are named `accounts/fireworks/models/...`",
)
"""Fireworks hosts open models behind the Chat Completions wire."""
