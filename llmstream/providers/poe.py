"""Poe passes requests on to models and bots of many vendors.

- Models are named as on Poe: `poe:Claude-Sonnet-4.5`. What a request may ask for depends on the bot behind
  the name.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://creator.poe.com/docs/external-applications/openai-compatible-api> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/poe/provider.toml> (seen 2026-11): address,
  key
- <https://github.com/BerriAI/litellm/blob/main/litellm/llms/openai_like/providers.json> (seen 2026-11):
  address, key, `max_tokens`
"""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

POE = Provider(
    name="poe",
    title="Poe",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.poe.com/v1",
    base_url_env=("POE_BASE_URL", "POE_API_BASE"),
    key_env=("POE_API_KEY",),
    docs="https://creator.poe.com/docs/external-applications/openai-compatible-api",
    notes="models and bots of many vendors, by their names on Poe",
)
