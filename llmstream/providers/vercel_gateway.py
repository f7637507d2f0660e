"""Vercel's AI Gateway passes requests on to many vendors.

- A model is named `vendor/model`: `vercel-gateway:anthropic/claude-sonnet-4.5`.
- Reasoning is requested by the object `reasoning{effort | max_tokens | enabled}`, as with OpenRouter. It
  arrives as `reasoning` and `reasoning_details`, and the details go back with the message they came with.

Sources:

- <https://vercel.com/docs/ai-gateway/sdks-and-apis/openai-chat-completions> (seen 2026-11)
- <https://vercel.com/docs/ai-gateway/sdks-and-apis/openai-chat-completions/reasoning> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks, ReasoningQuirks, SettingQuirks, ThinkingQuirks
from llmstream.providers.base import Provider

VERCEL_GATEWAY = Provider(
    name="vercel-gateway",
    title="Vercel AI Gateway",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            settings=SettingQuirks(max_tokens_field="max_tokens", unsupported=frozenset(), max_stops=None),
            thinking=ThinkingQuirks(style="openrouter"),
            # The details go back with the message that they came with, as at OpenRouter.
            reasoning=ReasoningQuirks(field="reasoning_details", echo="all"),
        )
    ),
    base_url="https://ai-gateway.vercel.sh/v1",
    base_url_env=("AI_GATEWAY_BASE_URL", "VERCEL_AI_GATEWAY_API_BASE"),
    key_env=("AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN", "VERCEL_AI_GATEWAY_API_KEY", "VERCEL_API_KEY"),
    aliases=("vercel", "ai-gateway", "vercel-ai-gateway"),
    docs="https://vercel.com/docs/ai-gateway/sdks-and-apis/openai-chat-completions",
    notes="models are named `vendor/model`",
)
