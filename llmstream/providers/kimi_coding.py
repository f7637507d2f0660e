"""Moonshot AI's plan for coding agents, over Anthropic's Messages API. It has other keys than the platform
(`moonshot`).

- An example is `kimi-coding:kimi-for-coding`.
- A `/v1` at the end of the address is removed. The host of the international site is `api.kimi.ai`.
- Thinking is sent back unchanged. Kimi signs it, and also accepts it without a signature. While thinking is
  requested, it may refuse a history with an answer that has calls but no thinking, such as another vendor's
  (NousResearch/hermes-agent#13826, #49143).
- K3 and K2.7 always think, and refuse a forced tool while they think: request structured output in the
  prompt (`mode="prompt"`).
- The plan is for coding agents; it may refuse unknown clients.
- Chat Completions is also served at `https://api.kimi.com/coding/v1`: `moonshot:MODEL` with `base_url=`.

Sources:

- <https://www.kimi.com/code/docs/en/kimi-code/models.html> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/kimi-for-coding/provider.toml> (seen 2026-11):
  address, key, both wires
- <https://github.com/charmbracelet/catwalk/blob/main/internal/providers/configs/kimi.json> (seen 2026-11):
  the other name of the key
"""

from llmstream.dialects.anthropic import Anthropic, Quirks
from llmstream.providers.base import Provider, key_header, without_version

KIMI_CODING = Provider(
    name="kimi-coding",
    title="Kimi Code",
    dialect=Anthropic(
        # Thinking goes back unsigned too: calls without it are refused
        # (NousResearch/hermes-agent#13826, #49143).
        quirks=Quirks(url_sources=False, schemas="forced-tools-first", unsigned_thinking="keep"),
    ),
    base_url="https://api.kimi.com/coding",
    base_url_env=("KIMI_CODING_BASE_URL",),
    normalize=without_version,
    key_env=("KIMI_CODING_API_KEY", "KIMI_API_KEY"),
    auth=key_header("x-api-key"),
    aliases=("kimi-for-coding", "kimi-code"),
    docs="https://www.kimi.com/code/docs/en/kimi-code/models.html",
    notes="a plan for coding agents, with its own keys; `moonshot` is the platform",
)
