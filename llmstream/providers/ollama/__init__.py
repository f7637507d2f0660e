"""Ollama's own API, local or in its cloud."""

from llmstream.dialects.ollama import Ollama
from llmstream.providers.base import Provider
from llmstream.providers.ollama.host import ollama_address


def _native(written: str) -> str:
    """Programs for its Chat Completions have the address with /v1; the daemon is the same."""
    return ollama_address(written).removesuffix("/v1")


OLLAMA = Provider(
    name="ollama",
    title="Ollama",
    dialect=Ollama(),
    base_url="http://localhost:11434",
    base_url_env=("OLLAMA_HOST", "OLLAMA_BASE_URL", "OLLAMA_API_BASE"),
    normalize=_native,
    key_env=("OLLAMA_API_KEY",),
    key_required=False,
    docs="https://docs.ollama.com/api",
    hint="Is Ollama running? `ollama serve` starts it.",
    notes='local without a key; in the cloud `base_url="https://ollama.com"` with one',
)
"""Ollama's native API: the models of this machine, or of Ollama's cloud."""
