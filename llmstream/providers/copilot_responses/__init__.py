"""GitHub Copilot's models behind the Responses wire."""

from dataclasses import replace

from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.providers.copilot import COPILOT

COPILOT_RESPONSES = replace(
    COPILOT,
    name="copilot-responses",
    title="GitHub Copilot (Responses)",
    # Every event of an item has another id (seen 2026-08), so items go back without.
    dialect=OpenAIResponses(Quirks(background=False, item_ids=False)),
    aliases=("github-copilot-responses",),
    notes="the only wire of Grok and Codex at Copilot; key as for `copilot`",
)
"""Copilot's newer wire, the only one of some of its models."""
