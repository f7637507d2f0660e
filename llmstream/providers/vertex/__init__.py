"""Gemini on Google Cloud's Vertex AI, which since 2026 is named Gemini Enterprise Agent Platform; hosts and
paths are the same.

- An example is `vertex:gemini-2.5-flash`.
- `GOOGLE_CLOUD_PROJECT` and `GOOGLE_CLOUD_LOCATION` (by default `global`) make the address; read after them
  are `GOOGLE_VERTEX_PROJECT`, `GCLOUD_PROJECT`, `VERTEXAI_PROJECT`, `ANTHROPIC_VERTEX_PROJECT_ID`, and
  `GOOGLE_VERTEX_LOCATION`, `VERTEXAI_LOCATION`, `CLOUD_ML_REGION`. Without a project a key of express mode
  is expected.
- `GOOGLE_VERTEX_BASE_URL` is another address. A host, or a host and a version, as Google's SDK takes it,
  gets project and location; one that has a path of its own, as `@ai-sdk/google-vertex` takes it, stays as
  it is.
- Credentials: a key in `GOOGLE_VERTEX_API_KEY`, an access token in `GOOGLE_VERTEX_ACCESS_TOKEN` or
  `GOOGLE_OAUTH_ACCESS_TOKEN`, else the application default credentials (`pip install
  'llmstream-sdk[vertex]'`): a service account, workload identity, or `gcloud auth application-default
  login`. Tokens are renewed before they expire.
- `api_key=` takes either; a token begins with `ya29.` or is a JSON web token.
- Calls have no ids on this server, and it refuses them in requests.
- Gemini 4 ends an answer after 65,536 tokens with `CONTINUATION` and a token. The rest is requested within
  the same call; `provider_options={"google": {"automatic_continuation": False}}` switches that off. See
  "Long responses of Gemini" in the guide Resumable streams.
- A tuned model behind an endpoint needs a `base_url` that ends in `/locations/LOCATION`, without
  `/publishers/google`.

Sources:

- <https://docs.cloud.google.com/gemini-enterprise-agent-platform> (seen 2026-11)
- <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference> (seen 2026-11)
- <https://cloud.google.com/vertex-ai/generative-ai/docs/start/express-mode/overview> (seen 2026-11)
"""

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
