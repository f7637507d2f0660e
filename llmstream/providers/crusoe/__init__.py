"""Crusoe hosts open models on its own cloud."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

CRUSOE = Provider(
    name="crusoe",
    title="Crusoe Managed Inference",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.inference.crusoecloud.com/v1",
    base_url_env=("CRUSOE_BASE_URL", "CRUSOE_API_BASE"),
    key_env=("CRUSOE_API_KEY",),
    docs="https://docs.crusoecloud.com/managed-inference/overview",
    notes="open models, hosted",
)
"""Crusoe hosts open models on its own cloud."""
