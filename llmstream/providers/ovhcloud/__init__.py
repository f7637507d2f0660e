"""OVHcloud AI Endpoints hosts open models in Europe."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, hosted
from llmstream.providers.base import Provider

OVHCLOUD = Provider(
    name="ovhcloud",
    title="OVHcloud AI Endpoints",
    dialect=OpenAIChat(
        hosted(
            # Its catalog (seen 2026-11): Qwen is told by `/no_think` in the prompt; gpt-oss takes efforts.
            by_model=(
                ModelQuirks(
                    r"qwen-?3(?!.*(?:instruct|coder))", {"reasoning_style": "none", "always_thinks": True}
                ),
            ),
            reasoning_field="reasoning",
        )
    ),
    base_url="https://oai.endpoints.kepler.ai.cloud.ovh.net/v1",
    base_url_env=("OVHCLOUD_BASE_URL", "OVHCLOUD_API_BASE"),
    key_env=("OVHCLOUD_API_KEY",),
    aliases=("ovh",),
    docs="https://www.ovhcloud.com/en/public-cloud/ai-endpoints/catalog/",
    notes="open models, hosted in Europe",
)
"""OVHcloud AI Endpoints hosts open models in Europe."""
