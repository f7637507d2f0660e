"""A LiteLLM proxy is a gateway of your own to many vendors.

- Reasoning arrives as `reasoning_content`, whichever vendor serves the model.
- A stream with tool calls may end in `stop` (BerriAI/litellm#35663); its finish reason is reported as
  `tool-calls`.
- Other fields of the vendor's response are in `provider_specific_fields`; read them from the raw payload.
- The proxy translates `max_tokens` and `top_k` for the vendor.

Sources:

- <https://docs.litellm.ai/docs/simple_proxy> (seen 2026-11)
- <https://docs.litellm.ai/docs/reasoning_content> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks, ReasoningQuirks, SettingQuirks, ToolQuirks
from llmstream.providers.base import Provider

LITELLM = Provider(
    name="litellm",
    title="LiteLLM proxy",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            # The proxy translates all settings for the vendor behind it (docs.litellm.ai, seen 2026-11).
            settings=SettingQuirks(max_tokens_field="max_tokens", unsupported=frozenset(), max_stops=None),
            # Tools, and ids of any length, depend on the vendor behind it.
            tools=ToolQuirks(provider_tools=True, max_call_id_chars=None),
            reasoning=ReasoningQuirks(field="reasoning_content"),
        )
    ),
    base_url="http://localhost:4000",
    base_url_env=("LITELLM_BASE_URL", "LITELLM_PROXY_API_BASE"),
    key_env=("LITELLM_API_KEY", "LITELLM_PROXY_API_KEY"),
    key_required=False,
    aliases=("litellm-proxy",),
    docs="https://docs.litellm.ai/docs/simple_proxy",
    hint="Is the proxy running? `litellm --config FILE` starts one.",
    notes="a gateway of your own to many vendors",
)
