"""Synthetic hosts open models at a flat price."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

SYNTHETIC = Provider(
    name="synthetic",
    title="Synthetic",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.synthetic.new/openai/v1",
    base_url_env=("SYNTHETIC_BASE_URL", "SYNTHETIC_API_BASE"),
    key_env=("SYNTHETIC_API_KEY",),
    docs="https://synthetic.new/pricing",
    notes="models are named `hf:ORG/MODEL`",
)
"""Synthetic hosts open models at a flat price."""
