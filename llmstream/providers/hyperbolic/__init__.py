"""Hyperbolic hosts open models."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

HYPERBOLIC = Provider(
    name="hyperbolic",
    title="Hyperbolic",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.hyperbolic.xyz/v1",
    base_url_env=("HYPERBOLIC_BASE_URL", "HYPERBOLIC_API_BASE"),
    key_env=("HYPERBOLIC_API_KEY",),
    docs="https://docs.hyperbolic.xyz/docs/rest-api",
    notes="open models, hosted",
)
"""Hyperbolic hosts open models."""
