"""Gemini by Google's AI Studio.

- An example is `google:gemini-2.5-flash`.
- Keys: `GEMINI_API_KEY`, `GOOGLE_API_KEY`, `GOOGLE_GENERATIVE_AI_API_KEY`, sent as `x-goog-api-key`, in
  this order; Google's own SDK prefers `GOOGLE_API_KEY` where both are set.
- The answer has no end mark; it is complete when the body ends after a finish reason. With code execution a
  `STOP` may come in the middle.
- Thought signatures may come with any part, and Gemini 3 refuses a history without them; they are stored
  and sent back.
- Which levels of thinking a model knows is in `llmstream/model_rules/gemini.py`. From 3.6 on (and 3.5
  Flash-Lite) models ignore temperature, top_p and top_k; these are left out with a warning.
- Media by URL: Google's own storage, its Files API and YouTube are passed unchanged.
- Transcription models answer in `audioTranscription`: its words become the text; speakers and offsets
  become metadata.
- A wrong key is a status 400 there; it is an `AuthenticationError` here.
- Gemini 4 ends an answer after 65,536 tokens with `CONTINUATION` and a token. The rest is requested within
  the same call; `provider_options={"google": {"automatic_continuation": False}}` switches that off. See
  "Long responses of Gemini" in the guide Resumable streams.

Sources:

- <https://ai.google.dev/api/generate-content> (seen 2026-11)
- <https://ai.google.dev/gemini-api/docs/thought-signatures> (seen 2026-11)
"""

import re

from llmstream.dialects.gemini import Gemini
from llmstream.providers.base import Provider, key_header


def _with_version(address: str) -> str:
    """Google's own SDKs take the address without its version, in GOOGLE_GEMINI_BASE_URL too."""
    base, mark, query = address.strip().partition("?")
    base = base.rstrip("/")
    return (base if re.search(r"/v\d\w*(/|$)", base) else f"{base}/v1beta") + mark + query


GOOGLE = Provider(
    name="google",
    title="Google AI Studio",
    dialect=Gemini(),
    base_url="https://generativelanguage.googleapis.com/v1beta",
    base_url_env=("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"),
    normalize=_with_version,
    key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
    auth=key_header("x-goog-api-key"),
    aliases=("gemini", "google-ai", "ai-studio"),
    docs="https://ai.google.dev/api/generate-content",
    notes="signatures of thoughts go back on the parts they came with",
)
