"""MiniMax's models over Anthropic's Messages API, which most clients use for them: thinking arrives in
separate blocks.

- An example is `minimax-anthropic:MiniMax-M3`.
- In China the address is `https://api.minimaxi.com/anthropic`. A `/v1` at the end of the address is
  removed. `minimax` is the provider for Chat Completions.
- Thinking is sent back with or without a signature; images are sent as bytes.
- MiniMax-M2 always thinks. There are no JSON schemas: structured output is requested by a forced tool.

Sources:

- <https://platform.minimax.io/docs/api-reference/text-anthropic-api> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/minimax/provider.toml> (seen 2026-11):
  address, key
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/minimax> (seen 2026-11): litellm 1.109.1,
  address, key, China
"""

from llmstream.dialects.anthropic import Anthropic, Quirks
from llmstream.providers.base import Provider, key_header, without_version

MINIMAX_ANTHROPIC = Provider(
    name="minimax-anthropic",
    title="MiniMax (Messages)",
    dialect=Anthropic(
        # Thinking goes back unsigned too; there are no JSON schemas, so a tool is forced.
        quirks=Quirks(url_sources=False, schemas="forced-tools-first", unsigned_thinking="keep"),
    ),
    base_url="https://api.minimax.io/anthropic",
    base_url_env=("MINIMAX_ANTHROPIC_BASE_URL",),
    normalize=without_version,
    key_env=("MINIMAX_API_KEY",),
    auth=key_header("x-api-key"),
    docs="https://platform.minimax.io/docs/api-reference/text-anthropic-api",
    notes="the wire most clients use for it; in China `https://api.minimaxi.com/anthropic`",
)
