"""Synthetic hosts open models at a flat price.

- Models are named `hf:ORG/MODEL`, such as `synthetic:hf:zai-org/GLM-5.2`.
- How to request thinking is not documented; `reasoning_effort` is sent.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://synthetic.new/pricing> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/synthetic/provider.toml> (seen 2026-11):
  address, key
- <https://github.com/BerriAI/litellm/blob/main/litellm/llms/openai_like/providers.json> (seen 2026-11):
  address, key, `max_tokens`
"""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

SYNTHETIC = Provider(
    name="synthetic",
    title="Synthetic",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.synthetic.new/openai/v1",
    base_url_env=("SYNTHETIC_BASE_URL", "SYNTHETIC_API_BASE"),
    key_env=("SYNTHETIC_API_KEY",),
    docs="https://synthetic.new/pricing",
    notes="models are named `hf:ORG/MODEL`",
)
