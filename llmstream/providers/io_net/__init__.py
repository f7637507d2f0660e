"""io.net hosts open models on a decentralised network."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

IO_NET = Provider(
    name="io-net",
    title="IO Intelligence",
    dialect=OpenAIChat(
        hosted(
            reasoning_style="openrouter",
        )
    ),
    base_url="https://api.intelligence.io.solutions/api/v1",
    base_url_env=("IOINTELLIGENCE_BASE_URL", "IO_NET_BASE_URL"),
    key_env=("IOINTELLIGENCE_API_KEY", "IONET_API_KEY"),
    aliases=("ionet", "io.net", "io-intelligence"),
    docs="https://io.net/docs/guides/intelligence/reasoning-for-chat-completions",
    notes="open models, hosted",
)
"""io.net hosts open models on a decentralised network."""
