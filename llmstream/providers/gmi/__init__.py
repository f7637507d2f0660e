"""GMI Cloud hosts open models and passes requests on to closed ones."""

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
"""GMI Cloud hosts open models and passes requests on to closed ones."""
