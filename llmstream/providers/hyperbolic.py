"""Hyperbolic hosts open models.

- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.
- litellm is the only source, whose list of models is of 2025.

Sources:

- <https://docs.hyperbolic.xyz/docs/rest-api> (not read)
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/hyperbolic> (seen 2026-11): litellm 1.109.1,
  address, key
"""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

HYPERBOLIC = Provider(
    name="hyperbolic",
    title="Hyperbolic",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.hyperbolic.xyz/v1",
    base_url_env=("HYPERBOLIC_BASE_URL", "HYPERBOLIC_API_BASE"),
    key_env=("HYPERBOLIC_API_KEY",),
    docs="https://docs.hyperbolic.xyz/docs/rest-api",
    notes="open models, hosted",
)
