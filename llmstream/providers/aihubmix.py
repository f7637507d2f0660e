"""AIHubMix passes requests on to models of many vendors.

- Thinking is requested by `reasoning{effort}` or `reasoning{max_tokens}` for every vendor's models.
- PDFs and audio are refused before anything is sent; text documents are sent as text.
- Claude is also served at `https://aihubmix.com`, with `anthropic:MODEL` and `base_url=`.

Sources:

- <https://docs.aihubmix.com> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/aihubmix/provider.toml> (seen 2026-11): key,
  efforts; cites the vendor's reference
- <https://github.com/BerriAI/litellm/blob/main/litellm/llms/openai_like/providers.json> (seen 2026-11):
  address, key, `max_tokens`
"""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

AIHUBMIX = Provider(
    name="aihubmix",
    title="AIHubMix",
    dialect=OpenAIChat(
        hosted(
            change(
                ThinkingQuirks,
                # Efforts and budgets for the models of every vendor (models.dev, seen 2026-11).
                style="openrouter",
                known_efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
            ),
            # A gateway: it fits the efforts to each model itself.
            change(Quirks, open_model_rules=False),
        )
    ),
    base_url="https://aihubmix.com/v1",
    base_url_env=("AIHUBMIX_BASE_URL", "AIHUBMIX_API_BASE"),
    key_env=("AIHUBMIX_API_KEY",),
    docs="https://docs.aihubmix.com",
    notes="models of many vendors",
)
