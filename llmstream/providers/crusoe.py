"""Crusoe hosts open models on its own cloud.

- Every model can be held to a JSON schema (pydantic-ai-slim 2.68.0).
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.crusoecloud.com/managed-inference/overview> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/crusoe/provider.toml> (seen 2026-11): address,
  key
- <https://github.com/BerriAI/litellm/blob/main/litellm/llms/openai_like/providers.json> (seen 2026-11):
  address, key, `max_tokens`
"""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

CRUSOE = Provider(
    name="crusoe",
    title="Crusoe Managed Inference",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.inference.crusoecloud.com/v1",
    base_url_env=("CRUSOE_BASE_URL", "CRUSOE_API_BASE"),
    key_env=("CRUSOE_API_KEY",),
    docs="https://docs.crusoecloud.com/managed-inference/overview",
    notes="open models, hosted",
)
