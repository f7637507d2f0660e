"""GitHub Models."""

from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.providers.base import Provider

GITHUB = Provider(
    name="github",
    title="GitHub Models",
    dialect=OpenAIChat(),
    base_url="https://models.github.ai/inference",
    base_url_env=("GITHUB_MODELS_BASE_URL",),
    key_env=("GITHUB_TOKEN", "GITHUB_API_KEY", "GH_TOKEN"),
    aliases=("github-models",),
    docs="https://docs.github.com/en/rest/models/inference",
    notes="retired by GitHub on 2026-07-30; see `copilot`",
)
"""GitHub Models was GitHub's catalogue of hosted models."""
