"""Cloudflare Workers AI: open models in an account of one's own."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.address_forms import filled
from llmstream.providers.base import Provider

CLOUDFLARE = Provider(
    name="cloudflare",
    title="Cloudflare Workers AI",
    dialect=OpenAIChat(hosted()),
    base_url="https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1",
    base_url_env=("CLOUDFLARE_BASE_URL", "CLOUDFLARE_API_BASE"),
    key_env=("CLOUDFLARE_API_TOKEN", "CLOUDFLARE_API_KEY"),
    route=filled(account=("CLOUDFLARE_ACCOUNT_ID",)),
    aliases=("workers-ai", "cloudflare-workers-ai"),
    docs="https://developers.cloudflare.com/workers-ai/models/",
    notes="`CLOUDFLARE_ACCOUNT_ID` makes the address; models are named `@cf/VENDOR/MODEL`",
)
"""Cloudflare runs open models on its network, in an account of one's own."""
