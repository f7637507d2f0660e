"""Claude on Google Cloud's Vertex AI."""

from dataclasses import replace

from llmstream.dialects.anthropic import VERTEX as DIALECT
from llmstream.providers.vertex import VERTEX
from llmstream.providers.vertex.route import ADDRESS, claude_route, project_address


def _address(text: str) -> str:
    return project_address(text, "anthropic")


VERTEX_ANTHROPIC = replace(
    VERTEX,
    name="vertex-anthropic",
    title="Claude on Vertex AI",
    dialect=DIALECT,
    base_url=f"{ADDRESS}/publishers/anthropic",
    base_url_env=("ANTHROPIC_VERTEX_BASE_URL",),
    normalize=_address,
    route=claude_route,
    aliases=("anthropic-vertex",),
    docs="https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai",
    notes="as `vertex`, with a project always; `ANTHROPIC_VERTEX_PROJECT_ID`, `CLOUD_ML_REGION`",
)
"""Anthropic's own API, served by Google."""
