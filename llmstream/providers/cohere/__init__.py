"""Cohere's Command models."""

from llmstream.dialects.cohere import Cohere
from llmstream.providers.address import without_version
from llmstream.providers.base import Provider


def _without_version(address: str) -> str:
    """The dialect's path begins with /v2; older clients want the version in the address."""
    return without_version(address, "v1", "v2")


COHERE = Provider(
    name="cohere",
    title="Cohere",
    dialect=Cohere(),
    base_url="https://api.cohere.com",
    base_url_env=("CO_API_URL", "CO_BASE_URL", "COHERE_BASE_URL"),
    normalize=_without_version,
    key_env=("CO_API_KEY", "COHERE_API_KEY"),
    docs="https://docs.cohere.com/reference/chat-stream",
    notes="answers cite the request's documents and tool results; text and images only",
)
"""Cohere itself."""
