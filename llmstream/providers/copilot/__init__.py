"""GitHub Copilot's models."""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.base import Provider

COPILOT = Provider(
    name="copilot",
    title="GitHub Copilot",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=True,
        )
    ),
    base_url="https://api.githubcopilot.com",
    base_url_env=("GITHUB_COPILOT_BASE_URL", "COPILOT_API_URL", "GITHUB_COPILOT_API_BASE"),
    key_env=("GITHUB_COPILOT_API_KEY", "GITHUB_COPILOT_API_TOKEN", "COPILOT_GITHUB_TOKEN"),
    aliases=("github-copilot",),
    docs="https://docs.github.com/en/copilot",
    notes="needs a Copilot token of its own, not a GitHub token",
)
"""GitHub Copilot serves models of several vendors to its subscribers."""
