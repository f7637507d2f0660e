"""MiniMax's models, by Anthropic's Messages."""

from llmstream.dialects.anthropic import Anthropic, Quirks
from llmstream.providers.address_forms import without_version
from llmstream.providers.base import Provider, key_header

MINIMAX_ANTHROPIC = Provider(
    name="minimax-anthropic",
    title="MiniMax (Messages)",
    dialect=Anthropic(
        quirks=Quirks(url_sources=False, schemas="forced-tools-first", unsigned_thinking="keep"),
    ),
    base_url="https://api.minimax.io/anthropic",
    base_url_env=("MINIMAX_ANTHROPIC_BASE_URL",),
    normalize=without_version,
    key_env=("MINIMAX_API_KEY",),
    auth=key_header("x-api-key"),
    docs="https://platform.minimax.io/docs/api-reference/text-anthropic-api",
    notes="the wire most clients use for it; in China `https://api.minimaxi.com/anthropic`",
)
"""MiniMax serves its own models behind Anthropic's wire, with thoughts as blocks."""
