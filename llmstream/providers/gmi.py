"""GMI Cloud hosts open models and passes requests on to closed ones.

- How to request thinking is documented for Claude on the Messages wire alone; `reasoning_effort` is sent.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.gmicloud.ai/inference-engine/api-reference/llm-api-reference> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/gmicloud/provider.toml> (seen 2026-11):
  address, key
- <https://github.com/BerriAI/litellm/blob/main/litellm/llms/openai_like/providers.json> (seen 2026-11):
  address, key, `max_tokens`
"""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

GMI = Provider(
    name="gmi",
    title="GMI Cloud",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.gmi-serving.com/v1",
    base_url_env=("GMI_BASE_URL", "GMI_API_BASE"),
    key_env=("GMI_API_KEY", "GMICLOUD_API_KEY"),
    aliases=("gmicloud", "gmi-cloud"),
    docs="https://docs.gmicloud.ai/inference-engine/api-reference/llm-api-reference",
    notes="open models, and closed ones of other vendors",
)
