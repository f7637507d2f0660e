"""io.net hosts open models on a decentralised network.

- Thinking is requested by `reasoning{effort}`: none, low, medium, high. A budget goes as
  `reasoning{max_tokens}`, which is not documented.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://io.net/docs/guides/intelligence/reasoning-for-chat-completions> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/io-net/provider.toml> (seen 2026-11): address,
  key, efforts; cites the guide
"""

from llmstream.dialects.openai_chat import OpenAIChat, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

IO_NET = Provider(
    name="io-net",
    title="IO Intelligence",
    dialect=OpenAIChat(hosted(change(ThinkingQuirks, style="openrouter"))),
    base_url="https://api.intelligence.io.solutions/api/v1",
    base_url_env=("IOINTELLIGENCE_BASE_URL", "IO_NET_BASE_URL"),
    key_env=("IOINTELLIGENCE_API_KEY", "IONET_API_KEY"),
    aliases=("ionet", "io.net", "io-intelligence"),
    docs="https://io.net/docs/guides/intelligence/reasoning-for-chat-completions",
    notes="open models, hosted",
)
