"""Volcengine, the cloud of ByteDance, serves Doubao and open models."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, hosted
from llmstream.providers.base import Provider

VOLCENGINE = Provider(
    name="volcengine",
    title="Volcengine Ark",
    dialect=OpenAIChat(
        hosted(
            reasoning_style="thinking",
            # Doubao Seed takes efforts beside the switch (seen 2026-11); other models the switch alone.
            by_model=(ModelQuirks("doubao-seed", {"reasoning_style": "thinking-effort"}),),
        )
    ),
    base_url="https://ark.cn-beijing.volces.com/api/v3",
    base_url_env=("ARK_BASE_URL", "VOLCENGINE_API_BASE", "ARK_API_BASE"),
    key_env=("ARK_API_KEY", "VOLCENGINE_API_KEY"),
    aliases=("ark", "doubao", "volcengine-ark"),
    docs="https://www.volcengine.com/docs/82379/1494384",
    notes="MODEL is a model or an endpoint (`ep-...`) of one's own",
)
"""Volcengine, the cloud of ByteDance, serves Doubao and open models."""
