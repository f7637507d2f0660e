"""Anthropic's Messages."""

from llmstream.dialects.anthropic import Anthropic
from llmstream.providers.base import Provider, key_header

ANTHROPIC = Provider(
    name="anthropic",
    title="Anthropic",
    dialect=Anthropic(),
    base_url="https://api.anthropic.com",
    base_url_env=("ANTHROPIC_BASE_URL",),
    key_env=("ANTHROPIC_API_KEY",),
    auth=key_header("x-api-key"),
    docs="https://docs.anthropic.com/en/api/messages",
)
