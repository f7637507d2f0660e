"""DeepInfra: open models, hosted."""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.base import Provider

DEEPINFRA = Provider(
    name="deepinfra",
    title="DeepInfra",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            max_tokens_field="max_tokens",
            files=False,  # no page says that `file` parts are known (seen 2026-11)
            unsupported_settings=frozenset(),
            max_stops=None,
            open_model_rules=True,
            reasoning_field="reasoning_content",
            # Of Gemini models it counts reasoning beside completion_tokens (vercel/ai, seen 2026-11).
            output_may_exclude_reasoning=True,
        )
    ),
    base_url="https://api.deepinfra.com/v1/openai",
    base_url_env=("DEEPINFRA_BASE_URL", "DEEPINFRA_API_BASE"),
    key_env=("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN", "DEEPINFRA_API_TOKEN"),
    aliases=("deep-infra",),
    docs="https://deepinfra.com/docs/openai_api",
    notes="open models, hosted",
)
"""DeepInfra hosts open models behind the Chat Completions wire."""
