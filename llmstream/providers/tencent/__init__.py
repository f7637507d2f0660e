"""Tencent's cloud serves its Hunyuan models and open ones."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, hosted
from llmstream.providers.base import Provider

TENCENT = Provider(
    name="tencent",
    title="Tencent TokenHub",
    dialect=OpenAIChat(
        hosted(
            reasoning_style="thinking-effort",
            # MiniMax wants another word than "enabled" here (litellm, seen 2026-11).
            by_model=(ModelQuirks("minimax", {"reasoning_style": "none", "always_thinks": True}),),
        )
    ),
    base_url="https://tokenhub-intl.tencentcloudmaas.com/v1",
    base_url_env=("TENCENT_BASE_URL", "TENCENT_API_BASE"),
    key_env=("TENCENT_API_KEY", "TENCENT_TOKENHUB_API_KEY"),
    aliases=("tencent-tokenhub", "hunyuan"),
    docs="https://www.tencentcloud.com/document/product/1300/82345",
    notes="in China `https://tokenhub.tencentmaas.com/v1`",
)
"""Tencent's cloud serves its Hunyuan models and open ones."""
