"""Together AI: open models, hosted."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.address import versioned
from llmstream.providers.base import Provider

TOGETHER = Provider(
    name="together",
    title="Together AI",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset(),
            max_stops=None,
            files=False,
            # Its guide to reasoning (seen 2026-11): hybrid models by `reasoning{enabled}`, gpt-oss by effort,
            # some by both; GLM-5.3 also knows medium (its quickstart).
            reasoning_style="enabled",
            effort_beside_switch=True,
            open_model_rules=True,
            by_model=(
                ModelQuirks("deepseek-v4", {"known_efforts": ("none", "high", "max")}),
                ModelQuirks(r"glm-5\.3", {"known_efforts": ("low", "medium", "high", "max")}),
            ),
            reasoning_field="reasoning",
        )
    ),
    base_url="https://api.together.ai/v1",
    base_url_env=("TOGETHER_BASE_URL", "TOGETHER_API_BASE", "TOGETHER_AI_API_BASE"),
    normalize=versioned,
    key_env=("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN"),
    aliases=("togetherai", "together-ai"),
    docs="https://docs.together.ai/reference/chat-completions-1",
    notes="open models; reasoning in `reasoning` or `reasoning_content`",
)
"""Together hosts open models behind the Chat Completions wire."""
