"""Claude on Google Cloud's Vertex AI."""

from dataclasses import replace

from llmstream.dialects.anthropic import VERTEX as DIALECT
from llmstream.providers.vertex import VERTEX
from llmstream.providers.vertex.route import ADDRESS

VERTEX_ANTHROPIC = replace(
    VERTEX,
    name="vertex-anthropic",
    title="Claude on Vertex AI",
    dialect=DIALECT,
    base_url=f"{ADDRESS}/publishers/anthropic",
    base_url_env=("ANTHROPIC_VERTEX_BASE_URL",),
    aliases=("anthropic-vertex",),
    docs="https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai",
    notes="as `vertex`; models are named `claude-sonnet-4-5@20250929`",
)
"""Anthropic's own API, served by Google."""
