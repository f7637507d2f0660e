"""Featherless hosts thousands of open models from Hugging Face.

- A tool cannot be forced; a schema goes into the prompt. litellm is the only source for both.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://featherless.ai/docs/completions> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/featherless/provider.toml> (seen 2026-11):
  address, key
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/featherless_ai> (seen 2026-11): litellm
  1.109.1, address, keys, what is taken
"""

from llmstream.dialects.openai_chat import OpenAIChat, SchemaQuirks, ToolQuirks, change, hosted
from llmstream.providers.base import Provider

FEATHERLESS = Provider(
    name="featherless",
    title="Featherless",
    dialect=OpenAIChat(
        hosted(
            change(
                ToolQuirks,
                # No tool can be forced and no format requested (litellm 1.109.1, seen 2026-11).
                choice=frozenset({"auto", "none"}),
                parallel_calls=False,
            ),
            change(SchemaQuirks, output="none"),
        )
    ),
    base_url="https://api.featherless.ai/v1",
    base_url_env=("FEATHERLESS_BASE_URL", "FEATHERLESS_AI_API_BASE", "FEATHERLESS_API_BASE"),
    key_env=("FEATHERLESS_API_KEY", "FEATHERLESS_AI_API_KEY"),
    aliases=("featherless-ai",),
    docs="https://featherless.ai/docs/completions",
    notes="open models by their names on Hugging Face; no tool can be forced",
)
