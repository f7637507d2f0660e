"""Scaleway hosts open models in Europe."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

SCALEWAY = Provider(
    name="scaleway",
    title="Scaleway Generative APIs",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.scaleway.ai/v1",
    base_url_env=("SCALEWAY_BASE_URL", "SCALEWAY_API_BASE"),
    key_env=("SCW_SECRET_KEY", "SCALEWAY_API_KEY"),
    docs="https://www.scaleway.com/en/docs/generative-apis/",
    notes="open models, hosted in Europe",
)
"""Scaleway hosts open models in Europe."""
