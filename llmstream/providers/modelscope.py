"""ModelScope, of Alibaba, hosts open models for its members.

- No option for thinking is documented, so none is sent, with a warning. Pass the option that a model's page
  names in `provider_options={"modelscope": {"enable_thinking": False}}`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://modelscope.cn/docs/model-service/API-Inference/intro> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/modelscope/provider.toml> (seen 2026-11):
  address, key; cites the vendor's pages
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/modelscope> (seen 2026-11): litellm 1.109.1,
  address, key
"""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

MODELSCOPE = Provider(
    name="modelscope",
    title="ModelScope",
    dialect=OpenAIChat(
        hosted(
            # So that `none` is reported too, which cannot be requested either.
            by_model=(ModelQuirks("", change(ThinkingQuirks, style="none", always=True)),)
        )
    ),
    base_url="https://api-inference.modelscope.cn/v1",
    base_url_env=("MODELSCOPE_BASE_URL", "MODELSCOPE_API_BASE"),
    key_env=("MODELSCOPE_API_KEY", "MODELSCOPE_SDK_TOKEN"),
    docs="https://modelscope.cn/docs/model-service/API-Inference/intro",
    notes="open models by their names on ModelScope",
)
