"""DigitalOcean hosts open models and passes requests on to closed ones."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

DIGITALOCEAN = Provider(
    name="digitalocean",
    title="DigitalOcean Gradient",
    dialect=OpenAIChat(
        hosted(
            open_model_rules=False,
            known_efforts=("none", "low", "medium", "high", "max"),
            max_tokens_field="max_completion_tokens",
        )
    ),
    base_url="https://inference.do-ai.run/v1",
    base_url_env=("DIGITALOCEAN_BASE_URL", "GRADIENT_BASE_URL"),
    key_env=("DIGITALOCEAN_ACCESS_TOKEN", "MODEL_ACCESS_KEY", "GRADIENT_MODEL_ACCESS_KEY"),
    aliases=("gradient", "do"),
    docs="https://docs.digitalocean.com/products/inference/how-to/use-reasoning/",
    notes="open models, and closed ones of other vendors",
)
"""DigitalOcean hosts open models and passes requests on to closed ones."""
