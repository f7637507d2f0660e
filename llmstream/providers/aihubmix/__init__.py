"""AIHubMix passes requests on to models of many vendors."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

AIHUBMIX = Provider(
    name="aihubmix",
    title="AIHubMix",
    dialect=OpenAIChat(
        hosted(
            open_model_rules=False,
            reasoning_style="openrouter",
            known_efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
        )
    ),
    base_url="https://aihubmix.com/v1",
    base_url_env=("AIHUBMIX_BASE_URL", "AIHUBMIX_API_BASE"),
    key_env=("AIHUBMIX_API_KEY",),
    docs="https://docs.aihubmix.com",
    notes="models of many vendors",
)
"""AIHubMix passes requests on to models of many vendors."""
