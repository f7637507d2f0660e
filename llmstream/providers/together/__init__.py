"""Together AI: open models, hosted."""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.base import Provider

TOGETHER = Provider(
    name="together",
    title="Together AI",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset(),
            max_stops=None,
            reasoning_field="reasoning",
        )
    ),
    base_url="https://api.together.xyz/v1",
    base_url_env=("TOGETHER_BASE_URL",),
    key_env=("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"),
    aliases=("togetherai", "together-ai"),
    docs="https://docs.together.ai/reference/chat-completions-1",
    notes="open models; reasoning in `reasoning` or `reasoning_content`",
)
"""Together hosts open models behind the Chat Completions wire."""
