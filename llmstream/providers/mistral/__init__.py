"""Mistral's models at La Plateforme."""

from llmstream.dialects.mistral import Mistral
from llmstream.providers.address import without_version
from llmstream.providers.base import Provider

MISTRAL = Provider(
    name="mistral",
    title="Mistral AI",
    dialect=Mistral(),
    base_url="https://api.mistral.ai",
    base_url_env=("MISTRAL_BASE_URL", "MISTRAL_API_BASE"),
    normalize=without_version,
    key_env=("MISTRAL_API_KEY",),
    aliases=("mistralai", "mistral-ai"),
    docs="https://docs.mistral.ai/api/endpoint/chat",
    notes="ids of calls are mapped to its nine letters and digits",
)
"""Mistral itself."""
