"""SambaNova Cloud: open models, hosted."""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.base import Provider

SAMBANOVA = Provider(
    name="sambanova",
    title="SambaNova Cloud",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset(),
            max_stops=None,
            think_tags="tags",
        )
    ),
    base_url="https://api.sambanova.ai/v1",
    base_url_env=("SAMBANOVA_BASE_URL",),
    key_env=("SAMBANOVA_API_KEY",),
    docs="https://docs.sambanova.ai/docs/api-reference/chat-completions/create-chat-based-completion",
    notes="thoughts come between `<think>` tags",
)
"""SambaNova hosts open models on its own chips behind the Chat Completions wire."""
