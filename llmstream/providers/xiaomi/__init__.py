"""Xiaomi serves its MiMo models."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

XIAOMI = Provider(
    name="xiaomi",
    title="Xiaomi MiMo",
    dialect=OpenAIChat(
        hosted(
            open_model_rules=False,
            reasoning_style="thinking",
            # Schemas are not held to (agno, seen 2026-11; litellm's list says otherwise).
            response_format="json_object",
            # A message with calls that lacks its thoughts is a 400 in every later turn (since 2026-05,
            # earendil-works/pi#4602, chatboxai/chatbox#3716).
            echo="all",
        )
    ),
    base_url="https://api.xiaomimimo.com/v1",
    base_url_env=("XIAOMI_BASE_URL", "XIAOMI_MIMO_API_BASE"),
    key_env=("XIAOMI_API_KEY", "XIAOMI_MIMO_API_KEY", "MIMO_API_KEY"),
    aliases=("mimo", "xiaomi-mimo"),
    docs="https://platform.xiaomimimo.com/#/docs",
    notes="thinking on or off; no JSON schema",
)
"""Xiaomi serves its MiMo models."""
