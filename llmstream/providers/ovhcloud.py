"""OVHcloud AI Endpoints hosts open models in Europe.

- Reasoning arrives as `reasoning`, until 2026-05 as `reasoning_content`; both are read.
- `/no_think` in the prompt switches off Qwen3's thinking; an effort for it is left out with a warning.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://www.ovhcloud.com/en/public-cloud/ai-endpoints/catalog/> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/ovhcloud/provider.toml> (seen 2026-11):
  address, key, efforts; cites the catalog
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/ovhcloud> (seen 2026-11): litellm 1.109.1,
  address, key, the field of the reasoning
"""

from llmstream.dialects.openai_chat import (
    ModelQuirks,
    OpenAIChat,
    ReasoningQuirks,
    ThinkingQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider

OVHCLOUD = Provider(
    name="ovhcloud",
    title="OVHcloud AI Endpoints",
    dialect=OpenAIChat(
        hosted(
            change(ReasoningQuirks, field="reasoning"),
            # Its catalog (seen 2026-11): Qwen is set by `/no_think` in the prompt; gpt-oss takes efforts.
            by_model=(
                ModelQuirks(
                    r"qwen-?3(?!.*(?:instruct|coder))", change(ThinkingQuirks, style="none", always=True)
                ),
            ),
        )
    ),
    base_url="https://oai.endpoints.kepler.ai.cloud.ovh.net/v1",
    base_url_env=("OVHCLOUD_BASE_URL", "OVHCLOUD_API_BASE"),
    key_env=("OVHCLOUD_API_KEY",),
    aliases=("ovh",),
    docs="https://www.ovhcloud.com/en/public-cloud/ai-endpoints/catalog/",
    notes="open models, hosted in Europe",
)
