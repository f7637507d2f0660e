"""Xiaomi serves its MiMo models.

- Thinking is switched by `thinking{type}`; an effort cannot be given. Flash models think on request only,
  others do.
- A schema goes into the prompt and `json_object` is requested: according to one source schemas are not
  enforced, another that they are.
- Reasoning is sent back with all of the history: since 2026-05 messages with calls that lack theirs are a 400
  (earendil-works/pi#4602, chatboxai/chatbox#3716).
- The same models speak Anthropic's wire at `https://api.xiaomimimo.com/anthropic`. Keys of a token plan
  have an address of their own, such as `https://token-plan-cn.xiaomimimo.com/v1`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://platform.xiaomimimo.com/#/docs> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/xiaomi/provider.toml> (seen 2026-11): address,
  key, `thinking`; cites the vendor's reference
- <https://github.com/BerriAI/litellm/blob/main/litellm/llms/openai_like/providers.json> (seen 2026-11):
  address, key, `max_tokens`
- <https://docs.agno.com/models/providers/native/xiaomi/overview> (seen 2026-11): key, JSON mode
"""

from llmstream.dialects.openai_chat import (
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    SchemaQuirks,
    ThinkingQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider

XIAOMI = Provider(
    name="xiaomi",
    title="Xiaomi MiMo",
    dialect=OpenAIChat(
        hosted(
            change(ThinkingQuirks, style="thinking"),
            change(
                SchemaQuirks,
                # Schemas are not enforced (agno, seen 2026-11; litellm's list differs).
                output="json_object",
            ),
            change(
                ReasoningQuirks,
                # A message with calls that lacks its thoughts is a 400 in every later turn (since 2026-05,
                # earendil-works/pi#4602, chatboxai/chatbox#3716).
                echo="all",
            ),
            change(Quirks, open_model_rules=False),
        )
    ),
    base_url="https://api.xiaomimimo.com/v1",
    base_url_env=("XIAOMI_BASE_URL", "XIAOMI_MIMO_API_BASE"),
    key_env=("XIAOMI_API_KEY", "XIAOMI_MIMO_API_KEY", "MIMO_API_KEY"),
    aliases=("mimo", "xiaomi-mimo"),
    docs="https://platform.xiaomimimo.com/#/docs",
    notes="thinking on or off; no JSON schema",
)
