"""Kimi Code, Moonshot AI's plan for coding agents, by Anthropic's Messages."""

from llmstream.dialects.anthropic import Anthropic, Quirks
from llmstream.providers.address_forms import without_version
from llmstream.providers.base import Provider, key_header

KIMI_CODING = Provider(
    name="kimi-coding",
    title="Kimi Code",
    dialect=Anthropic(
        quirks=Quirks(url_sources=False, schemas="forced-tools-first", unsigned_thinking="keep"),
    ),
    base_url="https://api.kimi.com/coding",
    base_url_env=("KIMI_CODING_BASE_URL",),
    normalize=without_version,
    key_env=("KIMI_CODING_API_KEY", "KIMI_API_KEY"),
    auth=key_header("x-api-key"),
    aliases=("kimi-for-coding", "kimi-code"),
    docs="https://www.kimi.com/code/docs/en/kimi-code/models.html",
    notes="a plan for coding agents, with keys of its own; `moonshot` is the platform",
)
"""Moonshot AI's plan for coding agents, whose keys the platform does not know."""
