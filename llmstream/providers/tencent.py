"""Tencent's cloud serves its Hunyuan models and open ones.

- The address is that of the international site (litellm); in China models.dev has
  `https://tokenhub.tencentmaas.com/v1`, with its own keys.
- Thinking is switched by `thinking{type}`, with `reasoning_effort` beside it. MiniMax takes `adaptive` in
  place of `enabled`: `provider_options={"tencent": {"thinking": {"type": "adaptive"}}}`.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://www.tencentcloud.com/document/product/1300/82345> (not read)
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/tencent> (seen 2026-11): litellm 1.109.1,
  address, key, `thinking`; cites the vendor's page
- <https://github.com/anomalyco/models.dev/blob/dev/providers/tencent-tokenhub/provider.toml>
  (seen 2026-11): the address in China, efforts
"""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

TENCENT = Provider(
    name="tencent",
    title="Tencent TokenHub",
    dialect=OpenAIChat(
        hosted(
            change(ThinkingQuirks, style="thinking-effort"),
            # MiniMax wants another word than "enabled" here (litellm, seen 2026-11).
            by_model=(ModelQuirks("minimax", change(ThinkingQuirks, style="none", always=True)),),
        )
    ),
    base_url="https://tokenhub-intl.tencentcloudmaas.com/v1",
    base_url_env=("TENCENT_BASE_URL", "TENCENT_API_BASE"),
    key_env=("TENCENT_API_KEY", "TENCENT_TOKENHUB_API_KEY"),
    aliases=("tencent-tokenhub", "hunyuan"),
    docs="https://www.tencentcloud.com/document/product/1300/82345",
    notes="in China `https://tokenhub.tencentmaas.com/v1`",
)
