"""GitHub Copilot's models."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.base import Provider

COPILOT = Provider(
    name="copilot",
    title="GitHub Copilot",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=True,
            wire_rules=False,  # its own lists say what a model takes (seen 2026-11, pydantic-ai 2.68.0)
            files=False,
            audio_formats=frozenset(),
            # Claude's and Gemini's thoughts; Gemini refuses tool results whose call lost its signature
            # (probed by pydantic-ai 2026-09; karthink/gptel#1384, anomalyco/opencode#8900).
            reasoning_field="reasoning_text",
            echo="all",
            by_model=(
                # "model claude-sonnet-4.5 does not support reasoning effort"; 4.6 takes low to max and
                # only Opus from 4.7 xhigh (seen 2026-06, charmbracelet/crush#2902, anomalyco/opencode#34438).
                ModelQuirks(
                    "claude",
                    {"reasoning_model_rules": False, "known_efforts": ("low", "medium", "high", "max")},
                ),
                ModelQuirks(
                    r"claude-opus-4\.[7-9]", {"known_efforts": ("low", "medium", "high", "xhigh", "max")}
                ),
                ModelQuirks(
                    r"claude-(?:3|\w+-4(?:$|-|\.[0-5]))|gpt-4|gemini|grok", {"reasoning_style": "none"}
                ),
            ),
        )
    ),
    base_url="https://api.githubcopilot.com",
    base_url_env=("GITHUB_COPILOT_BASE_URL", "COPILOT_API_URL", "GITHUB_COPILOT_API_BASE"),
    key_env=("GITHUB_COPILOT_API_KEY", "GITHUB_COPILOT_API_TOKEN", "COPILOT_GITHUB_TOKEN"),
    # Which program asks decides quota and models; hosts of companies may want to know the editor (seen
    # 2026-09: pydantic-ai's and litellm's Copilot providers). The plain api.githubcopilot.com needs neither.
    headers={"copilot-integration-id": "vscode-chat", "editor-version": "vscode/1.95.0"},
    header_env={"copilot-integration-id": "GITHUB_COPILOT_INTEGRATION_ID"},
    aliases=("github-copilot",),
    docs="https://docs.github.com/en/copilot",
    notes="a GitHub token that may make Copilot requests, or a Copilot token",
)
"""GitHub Copilot serves models of several vendors to its subscribers."""
