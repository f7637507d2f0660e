"""Gemini on Google Cloud's Vertex AI."""

from llmstream.dialects.gemini import VERTEX as DIALECT
from llmstream.providers.vertex.provider import VertexProvider
from llmstream.providers.vertex.route import ADDRESS, key_or_token, project_address, vertex_route


def _address(text: str) -> str:
    return project_address(text, "google")


VERTEX = VertexProvider(
    name="vertex",
    title="Google Vertex AI (Agent Platform)",
    dialect=DIALECT,
    base_url=f"{ADDRESS}/publishers/google",
    base_url_env=("GOOGLE_VERTEX_BASE_URL",),
    normalize=_address,
    key_env=("GOOGLE_VERTEX_API_KEY",),
    token_env=("GOOGLE_VERTEX_ACCESS_TOKEN", "GOOGLE_OAUTH_ACCESS_TOKEN"),
    auth=key_or_token,
    route=vertex_route,
    aliases=("vertexai", "google-vertex"),
    docs="https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference",
    notes="`GOOGLE_CLOUD_PROJECT` and `GOOGLE_CLOUD_LOCATION`; other credentials by the extra `vertex`",
)
"""Gemini in a project of one's own."""
