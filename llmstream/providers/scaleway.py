"""Scaleway hosts open models in Europe.

- Models think by default; `reasoning_effort` `none` keeps most from it, not gpt-oss.
- The old deepseek-r1-distill leaves `<think>` tags in the text.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://www.scaleway.com/en/docs/generative-apis/> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/scaleway/provider.toml> (seen 2026-11):
  address, key, efforts; cites the page on reasoning models
- <https://github.com/BerriAI/litellm/blob/main/litellm/llms/openai_like/providers.json> (seen 2026-11):
  address, key, `max_tokens`
"""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

SCALEWAY = Provider(
    name="scaleway",
    title="Scaleway Generative APIs",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.scaleway.ai/v1",
    base_url_env=("SCALEWAY_BASE_URL", "SCALEWAY_API_BASE"),
    key_env=("SCW_SECRET_KEY", "SCALEWAY_API_KEY"),
    docs="https://www.scaleway.com/en/docs/generative-apis/",
    notes="open models, hosted in Europe",
)
