"""Volcengine, the cloud of ByteDance, serves Doubao and open models.

- MODEL is a model's name or the id of an endpoint of your own, `ep-...`. Of an id nothing is known about
  the model: give its fields by `provider_options={"volcengine": {...}}`.
- Thinking is switched by `thinking{type}`; `reasoning_effort` goes beside it for Doubao Seed
  (doubao-seed-1-6-251015 knows minimal to high only).
- Sources differ on forcing a tool by `tool_choice`: litellm's list has no for Doubao Seed 2. It is sent.
- Encrypted reasoning (`encrypted_content`) is not sent back on this wire.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://www.volcengine.com/docs/82379/1494384> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/volcengine/provider.toml> (seen 2026-11):
  address, key, `thinking`, efforts; cites the vendor's reference of 2026-08
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/volcengine> (seen 2026-11): litellm 1.109.1,
  address, keys, `thinking`
"""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

VOLCENGINE = Provider(
    name="volcengine",
    title="Volcengine Ark",
    dialect=OpenAIChat(
        hosted(
            change(ThinkingQuirks, style="thinking"),
            # Doubao Seed takes efforts beside the switch (seen 2026-11); other models the switch alone.
            by_model=(ModelQuirks("doubao-seed", change(ThinkingQuirks, style="thinking-effort")),),
        )
    ),
    base_url="https://ark.cn-beijing.volces.com/api/v3",
    base_url_env=("ARK_BASE_URL", "VOLCENGINE_API_BASE", "ARK_API_BASE"),
    key_env=("ARK_API_KEY", "VOLCENGINE_API_KEY"),
    aliases=("ark", "doubao", "volcengine-ark"),
    docs="https://www.volcengine.com/docs/82379/1494384",
    notes="MODEL is a model or an endpoint (`ep-...`) of your own",
)
