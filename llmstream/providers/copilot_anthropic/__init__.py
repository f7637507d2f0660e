"""Claude at GitHub Copilot, by Anthropic's Messages."""

from dataclasses import replace

from llmstream.dialects.anthropic import Anthropic, Quirks
from llmstream.providers.address_forms import without_version
from llmstream.providers.copilot import COPILOT

COPILOT_ANTHROPIC = replace(
    COPILOT,
    name="copilot-anthropic",
    title="Claude at GitHub Copilot",
    dialect=Anthropic(quirks=Quirks(url_sources=False)),
    normalize=without_version,
    # As other clients of this path say who they are (litellm 1.109.1, seen 2026-11).
    headers={
        **COPILOT.headers,
        "openai-intent": "messages-proxy",
        "x-interaction-type": "messages-proxy",
        "x-github-api-version": "2026-06-01",
    },
    aliases=("github-copilot-anthropic",),
    notes="Claude with its own thoughts and signatures; key as for `copilot`",
)
"""Copilot passes Anthropic's wire on for Claude."""
