"""Poe passes requests on to models and bots of many vendors."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

POE = Provider(
    name="poe",
    title="Poe",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.poe.com/v1",
    base_url_env=("POE_BASE_URL", "POE_API_BASE"),
    key_env=("POE_API_KEY",),
    docs="https://creator.poe.com/docs/external-applications/openai-compatible-api",
    notes="models and bots of many vendors, by their names on Poe",
)
"""Poe passes requests on to models and bots of many vendors."""
