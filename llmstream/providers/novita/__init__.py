"""Novita AI hosts open models."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, hosted
from llmstream.providers.base import Provider

NOVITA = Provider(
    name="novita",
    title="Novita AI",
    dialect=OpenAIChat(
        hosted(
            # Its reference names the models that the switch is for (seen 2026-11); gpt-oss takes efforts.
            by_model=(
                # So that "none" is named too where it cannot be asked for.
                ModelQuirks("", {"reasoning_style": "none", "always_thinks": True}),
                ModelQuirks("gpt-oss", {"reasoning_style": "effort"}),
                ModelQuirks(
                    r"glm-4\.5$|deepseek-v3\.1|deepseek-v3\.2-exp",
                    {"reasoning_style": "enable-thinking", "always_thinks": False},
                ),
                ModelQuirks("deepseek-r1-turbo", {"extra_body": {"separate_reasoning": True}}),
            ),
        )
    ),
    base_url="https://api.novita.ai/openai/v1",
    base_url_env=("NOVITA_BASE_URL", "NOVITA_API_BASE"),
    key_env=("NOVITA_API_KEY",),
    aliases=("novita-ai",),
    docs="https://novita.ai/docs/api-reference/model-apis-llm-create-chat-completion",
    notes="open models, hosted",
)
"""Novita AI hosts open models."""
