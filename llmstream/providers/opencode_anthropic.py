"""OpenCode Zen serves Claude and some Qwen on this wire.

- An example is `opencode-anthropic:claude-sonnet-4-5`.
- Address and key are those of `opencode`; a `/v1` at the end of `OPENCODE_BASE_URL` is understood.

Sources:

- <https://opencode.ai/docs/zen> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/opencode/provider.toml> (seen 2026-11): which
  models on which wire; cites that page
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/opencode> (seen 2026-11): litellm 1.109.1, the
  key as Bearer
"""

from dataclasses import replace

from llmstream.dialects.anthropic import Anthropic
from llmstream.providers.base import without_version
from llmstream.providers.opencode import OPENCODE

OPENCODE_ANTHROPIC = replace(
    OPENCODE,
    name="opencode-anthropic",
    title="OpenCode Zen (Messages)",
    dialect=Anthropic(),
    base_url="https://opencode.ai/zen",
    normalize=without_version,
    aliases=("opencode-zen-anthropic",),
    notes="Claude at OpenCode Zen; key as for `opencode`",
)
