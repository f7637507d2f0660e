"""Friendli hosts open models, serverless or on endpoints of your own.

- Thinking is switched by `chat_template_kwargs.enable_thinking`, efforts go as `reasoning_effort`, a budget
  as `reasoning_budget`.
- `parse_reasoning: true` is sent, so that reasoning arrives as `reasoning_content`;
  `provider_options={"friendli": {"parse_reasoning": False}}` leaves it in the text.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://friendli.ai/docs/guides/reasoning> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/friendli/provider.toml> (seen 2026-11):
  address, key, thinking; cites the guide and the reference of 2026-08
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/friendliai> (seen 2026-11): litellm 1.109.1,
  address, key
- <https://github.com/CodebuffAI/codebuff/issues/924> (seen 2026-11): `parse_reasoning`
"""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

FRIENDLI = Provider(
    name="friendli",
    title="Friendli",
    dialect=OpenAIChat(
        hosted(
            change(
                ThinkingQuirks,
                # Switch, effort and budget side by side (models.dev, which cites the reference of 2026-08).
                style="chat-template",
                effort_beside_switch=True,
                budget_field="reasoning_budget",
            ),
            change(
                Quirks,
                # Thoughts are separated from the text only where that is requested (seen 2026-11).
                extra_body={"parse_reasoning": True},
            ),
        )
    ),
    base_url="https://api.friendli.ai/serverless/v1",
    base_url_env=("FRIENDLI_BASE_URL", "FRIENDLI_API_BASE"),
    key_env=("FRIENDLI_TOKEN", "FRIENDLIAI_API_KEY"),
    aliases=("friendliai", "friendli-ai"),
    docs="https://friendli.ai/docs/guides/reasoning",
    notes="open models; `https://api.friendli.ai/dedicated/v1` for endpoints of your own",
)
