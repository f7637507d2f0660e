"""Requesty routes requests to models of many vendors."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

REQUESTY = Provider(
    name="requesty",
    title="Requesty",
    dialect=OpenAIChat(
        hosted(
            open_model_rules=False,
            # Efforts by its own package for the AI SDK (seen 2026-11); a budget would be a text there.
            known_efforts=("none", "low", "medium", "high", "max"),
        )
    ),
    base_url="https://router.requesty.ai/v1",
    base_url_env=("REQUESTY_BASE_URL", "REQUESTY_API_BASE"),
    key_env=("REQUESTY_API_KEY",),
    docs="https://docs.requesty.ai",
    notes="a router; models are named `VENDOR/MODEL`",
)
"""Requesty routes requests to models of many vendors."""
