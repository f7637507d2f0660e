"""Baseten's model APIs: open models, hosted."""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.base import Provider

BASETEN = Provider(
    name="baseten",
    title="Baseten",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset(),
            max_stops=None,
            reasoning_field="reasoning_content",
        )
    ),
    base_url="https://inference.baseten.co/v1",
    base_url_env=("BASETEN_BASE_URL",),
    key_env=("BASETEN_API_KEY",),
    docs="https://docs.baseten.co/inference/model-apis/overview",
    notes="deployments of one's own have their own address",
)
"""Baseten hosts open models behind the Chat Completions wire."""
