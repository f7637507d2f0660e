"""Anthropic's Messages."""

from llmstream.dialects.anthropic import Anthropic
from llmstream.providers.address import without_version
from llmstream.providers.base import Provider, key_header

ANTHROPIC = Provider(
    name="anthropic",
    title="Anthropic",
    dialect=Anthropic(),
    base_url="https://api.anthropic.com",
    base_url_env=("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    normalize=without_version,
    key_env=("ANTHROPIC_API_KEY",),
    auth=key_header("x-api-key"),
    token_env=("ANTHROPIC_AUTH_TOKEN",),
    aliases=("claude",),
    idempotency_header="idempotency-key",
    docs="https://platform.claude.com/docs/en/api/messages",
    notes="the address without `/v1`; one that has it is understood",
)
"""Anthropic itself, and gateways that speak the same."""
