"""Novita AI hosts open models.

- `enable_thinking` is documented for glm-4.5, deepseek-v3.1 and -v3.2-exp alone, and sent to these. For
  other models an effort is left out with a warning; `provider_options={"novita": {...}}` sends a field of
  your own.
- deepseek-r1-turbo gets `separate_reasoning`, so that its reasoning is apart from the text.
- The older address `https://api.novita.ai/v3/openai` still answers (litellm uses it).
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://novita.ai/docs/api-reference/model-apis-llm-create-chat-completion> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/novita-ai/provider.toml> (seen 2026-11):
  address, key, `enable_thinking`; cites the vendor's reference
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/novita> (seen 2026-11): litellm 1.109.1, key,
  the older address
"""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

NOVITA = Provider(
    name="novita",
    title="Novita AI",
    dialect=OpenAIChat(
        hosted(
            # Its reference names the models that the switch is for (seen 2026-11); gpt-oss takes efforts.
            by_model=(
                # So that "none" is named too where it cannot be requested.
                ModelQuirks("", change(ThinkingQuirks, style="none", always=True)),
                ModelQuirks("gpt-oss", change(ThinkingQuirks, style="effort")),
                ModelQuirks(
                    r"glm-4\.5$|deepseek-v3\.1|deepseek-v3\.2-exp",
                    change(ThinkingQuirks, style="enable-thinking", always=False),
                ),
                ModelQuirks("deepseek-r1-turbo", change(Quirks, extra_body={"separate_reasoning": True})),
            )
        )
    ),
    base_url="https://api.novita.ai/openai/v1",
    base_url_env=("NOVITA_BASE_URL", "NOVITA_API_BASE"),
    key_env=("NOVITA_API_KEY",),
    aliases=("novita-ai",),
    docs="https://novita.ai/docs/api-reference/model-apis-llm-create-chat-completion",
    notes="open models, hosted",
)
