"""Claude on Vertex AI, by Anthropic's own Messages API.

- An example is `vertex-anthropic:claude-sonnet-5-5`, or `claude-sonnet-4-5@20250929`: newer models have no
  date in their name.
- The project is `ANTHROPIC_VERTEX_PROJECT_ID`, the location `CLOUD_ML_REGION` (by default `global`), as in
  Anthropic's SDK and Claude Code; then the variables of `vertex` are read. Without a project there is an
  error: express mode has no Claude.
- `ANTHROPIC_VERTEX_BASE_URL` is another address. One that ends in its version, as Anthropic's SDK wants it,
  gets `/projects/.../locations/.../publishers/anthropic`.
- Credentials are those of `vertex`: `GOOGLE_VERTEX_API_KEY`, `GOOGLE_VERTEX_ACCESS_TOKEN`,
  `GOOGLE_OAUTH_ACCESS_TOKEN`.
- The stream is Anthropic's; the request names the model in its address and a version in its body.

Sources:

- <https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai> (seen 2026-11)
"""

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
