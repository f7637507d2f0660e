"""Meta's Muse models over Chat Completions.

- An example is `meta-chat:muse-spark-1.3`.
- Address and key are those of `meta`, the Responses API, which Meta recommends. Over Chat Completions,
  reasoning is counted in the usage but not sent.
- Meta refuses `stop` and a forced tool; both are left out with a warning. The models always think: the
  effort `none` is sent as `minimal`.

Sources:

- <https://dev.meta.ai/docs> (not read)
- <https://github.com/mozilla-ai/any-llm/tree/main/src/any_llm/providers/meta> (seen 2026-11): address, key,
  thoughts, PDFs
- <https://github.com/BerriAI/litellm/blob/main/litellm/llms/openai_like/providers.json> (seen 2026-11):
  address, key
"""

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    OpenAIChat,
    Quirks,
    SettingQuirks,
    ThinkingQuirks,
    ToolQuirks,
)
from llmstream.providers.base import Provider

META_CHAT = Provider(
    name="meta-chat",
    title="Meta Model API (Chat Completions)",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            # `stop` and a forced tool are refused.
            settings=SettingQuirks(unsupported=frozenset({"top_k", "stop"})),
            media=MediaQuirks(audio_formats=frozenset()),
            tools=ToolQuirks(choice=frozenset({"auto"})),
            thinking=ThinkingQuirks(
                # Muse always thinks (pydantic-ai-slim 2.68.0, seen 2026-11).
                known_efforts=("minimal", "low", "medium", "high", "xhigh", "max"),
            ),
        )
    ),
    base_url="https://api.meta.ai/v1",
    base_url_env=("META_BASE_URL", "META_API_BASE"),
    key_env=("MODEL_API_KEY", "META_API_KEY", "META_MODEL_API_KEY"),
    docs="https://dev.meta.ai/docs",
    notes="prefer `meta`: this wire sends no reasoning. No tool can be forced",
)
