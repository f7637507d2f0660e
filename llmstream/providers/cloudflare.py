"""Cloudflare runs open models on its network, in an account of your own.

- An example is `cloudflare:@cf/openai/gpt-oss-120b`.
- `CLOUDFLARE_ACCOUNT_ID` completes the address.
- The key is a token with the right to Workers AI, not the account's global key.
- The address ends in `/ai/v1`; that of the native API, `/ai/run`, has another wire.
- The model's name decides which efforts it knows: `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://developers.cloudflare.com/workers-ai/models/> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/cloudflare-workers-ai/provider.toml>
  (seen 2026-11): address, key
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/cloudflare> (seen 2026-11): litellm 1.109.1,
  address, key
"""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider, filled

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
