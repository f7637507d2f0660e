"""ModelScope, of Alibaba, runs open models for its members."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, hosted
from llmstream.providers.base import Provider

MODELSCOPE = Provider(
    name="modelscope",
    title="ModelScope",
    dialect=OpenAIChat(
        hosted(
            # So that "none" is named too, which cannot be asked for either.
            by_model=(ModelQuirks("", {"reasoning_style": "none", "always_thinks": True}),),
        )
    ),
    base_url="https://api-inference.modelscope.cn/v1",
    base_url_env=("MODELSCOPE_BASE_URL", "MODELSCOPE_API_BASE"),
    key_env=("MODELSCOPE_API_KEY", "MODELSCOPE_SDK_TOKEN"),
    docs="https://modelscope.cn/docs/model-service/API-Inference/intro",
    notes="open models by their names on ModelScope",
)
"""ModelScope, of Alibaba, runs open models for its members."""
