"""Chutes hosts open models on a decentralised network."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, hosted
from llmstream.providers.base import Provider

CHUTES = Provider(
    name="chutes",
    title="Chutes",
    dialect=OpenAIChat(
        hosted(
            reasoning_style="chat-template",
            # Tried on every model by models.dev (seen 2026-11): GLM has the switch of Kimi and DeepSeek here.
            by_model=(ModelQuirks("glm-", {"template_switch": "thinking"}),),
        )
    ),
    base_url="https://llm.chutes.ai/v1",
    base_url_env=("CHUTES_BASE_URL", "CHUTES_API_BASE"),
    key_env=("CHUTES_API_KEY",),
    docs="https://chutes.ai/docs/guides/reasoning-models",
    notes="open models, hosted",
)
"""Chutes hosts open models on a decentralised network."""
