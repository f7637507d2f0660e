"""Google's Gemini models by AI Studio."""

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
"""The Gemini API, with a key of AI Studio."""
