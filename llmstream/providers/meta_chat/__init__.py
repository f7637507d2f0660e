"""Meta's Muse models, by Chat Completions."""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.base import Provider

META_CHAT = Provider(
    name="meta-chat",
    title="Meta Model API (Chat Completions)",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            unsupported_settings=frozenset({"top_k", "stop"}),
            audio_formats=frozenset(),
            tool_choice=frozenset({"auto"}),
            # Muse always thinks (pydantic-ai-slim 2.68.0, seen 2026-11).
            known_efforts=("minimal", "low", "medium", "high", "xhigh", "max"),
        )
    ),
    base_url="https://api.meta.ai/v1",
    base_url_env=("META_BASE_URL", "META_API_BASE"),
    key_env=("MODEL_API_KEY", "META_API_KEY", "META_MODEL_API_KEY"),
    docs="https://dev.meta.ai/docs",
    notes="prefer `meta`: on this wire thoughts do not come. No tool can be forced",
)
"""Meta serves its Muse models behind the Chat Completions wire too."""
