"""The Claude models over Anthropic's own Messages API, and gateways that speak it.

- A `/v1` at the end of the address is removed.
- `max_tokens` is required; where a request sets none, 32,000 are sent, or what an older model allows.
- Input tokens on the wire leave cached ones out; ours include them.
- Thinking is signed. The signature is stored in the metadata and is sent back automatically; thinking of
  other vendors, which has none, is left out with a warning.
- What a model takes is in `llmstream/model_rules/claude.py`: the newest Claudes refuse thinking switched
  off, budgets, forced tools or sampling. Reasoning is requested with `display: "summarized"`, without which
  their thinking has no text.
- `anthropic-version` is `2023-06-01`, which older models need for a temperature. With
  `headers={"anthropic-version": "2026-10-21"}` no model takes sampling settings.
- System messages inside a conversation stay there for models that know them (Opus 4.8, Opus 5, Fable and
  Mythos 5, the 5.5 models), so that the cached prompt survives; for others they move to the top, with a
  warning.
- Thinking that the API refuses because the conversation before it changed is dropped in a second attempt
  (`block_binding`); `adapt=False` switches that off.
- The 5.5 models take `computer_toolset_20260801` and `browser_toolset_20260801`, which have no name, and no
  older computer tool.
- Beta features: `provider_options={"anthropic": {"betas": ["..."]}}` becomes the header `anthropic-beta`.
- A prompt is cached only where parts carry `cache_control` (at most four).
- An overloaded server answers 529, also inside a stream that began with 200.

Sources:

- <https://platform.claude.com/docs/en/api/messages> (seen 2026-11)
- <https://platform.claude.com/docs/en/api/errors> (seen 2026-11)
- <https://platform.claude.com/docs/en/api/migration-2026-10-21> (seen 2026-11)
"""

from llmstream.dialects.anthropic import Anthropic
from llmstream.providers.base import Provider, key_header, without_version

ANTHROPIC = Provider(
    name="anthropic",
    title="Anthropic",
    dialect=Anthropic(),
    base_url="https://api.anthropic.com",
    base_url_env=("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    normalize=without_version,
    key_env=("ANTHROPIC_API_KEY",),
    auth=key_header("x-api-key"),
    token_env=("ANTHROPIC_AUTH_TOKEN",),
    aliases=("claude",),
    idempotency_header="idempotency-key",
    docs="https://platform.claude.com/docs/en/api/messages",
    # Input that was read from the cache does not count towards the limits of most models.
    cached_input_is_free=True,
    notes="the address without `/v1`; one that has it is understood",
)
