"""Chutes hosts open models on a decentralised network.

- Thinking is switched by `chat_template_kwargs`, which reach the model's template: `enable_thinking` for
  Qwen and Gemma, `thinking` for Kimi, GLM and DeepSeek.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://chutes.ai/docs/guides/reasoning-models> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/chutes/provider.toml> (seen 2026-11): address,
  key, thinking; tried there
- <https://github.com/BerriAI/litellm/blob/main/litellm/llms/openai_like/providers.json> (seen 2026-11):
  address, key, `max_tokens`
"""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

CHUTES = Provider(
    name="chutes",
    title="Chutes",
    dialect=OpenAIChat(
        hosted(
            change(ThinkingQuirks, style="chat-template"),
            # Tried on every model by models.dev (seen 2026-11): GLM has the switch of Kimi and DeepSeek here.
            by_model=(ModelQuirks("glm-", change(ThinkingQuirks, switch="thinking")),),
        )
    ),
    base_url="https://llm.chutes.ai/v1",
    base_url_env=("CHUTES_BASE_URL", "CHUTES_API_BASE"),
    key_env=("CHUTES_API_KEY",),
    docs="https://chutes.ai/docs/guides/reasoning-models",
    notes="open models, hosted",
)
