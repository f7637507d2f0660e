"""DigitalOcean hosts open models and passes requests on to closed ones.

- The efforts are none, low, medium, high and max, for every model; those of Claude become shares of
  `max_completion_tokens`. `provider_options={"digitalocean": {"reasoning": {"max_tokens": 4096}}}` gives
  Claude a budget.
- PDFs and audio are refused before anything is sent; text documents are sent as text.
- models.dev is the only source for efforts.

Sources:

- <https://docs.digitalocean.com/products/inference/how-to/use-reasoning/> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/digitalocean/provider.toml> (seen 2026-11):
  address, key, efforts; cites the vendor's pages
"""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks, SettingQuirks, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

DIGITALOCEAN = Provider(
    name="digitalocean",
    title="DigitalOcean Gradient",
    dialect=OpenAIChat(
        hosted(
            # The same for every model; of Claude they become shares of the limit (models.dev, seen 2026-11).
            change(ThinkingQuirks, known_efforts=("none", "low", "medium", "high", "max")),
            change(SettingQuirks, max_tokens_field="max_completion_tokens"),
            change(Quirks, open_model_rules=False),
        )
    ),
    base_url="https://inference.do-ai.run/v1",
    base_url_env=("DIGITALOCEAN_BASE_URL", "GRADIENT_BASE_URL"),
    key_env=("DIGITALOCEAN_ACCESS_TOKEN", "MODEL_ACCESS_KEY", "GRADIENT_MODEL_ACCESS_KEY"),
    aliases=("gradient", "do"),
    docs="https://docs.digitalocean.com/products/inference/how-to/use-reasoning/",
    notes="open models, and closed ones of other vendors",
)
