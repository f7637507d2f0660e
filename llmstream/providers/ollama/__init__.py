"""Ollama's own API, local or in its cloud."""

from llmstream.dialects.ollama import Ollama
from llmstream.providers.base import Provider

OLLAMA = Provider(
    name="ollama",
    title="Ollama",
    dialect=Ollama(),
    base_url="http://localhost:11434",
    base_url_env=("OLLAMA_HOST",),
    key_env=("OLLAMA_API_KEY",),
    key_required=False,
    docs="https://docs.ollama.com/api",
)
