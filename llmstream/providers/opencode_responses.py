"""OpenCode Zen serves GPT on this wire alone.

- An example is `opencode-responses:gpt-5.4`.
- Address and key are those of `opencode`.

Sources:

- <https://opencode.ai/docs/zen> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/opencode/provider.toml> (seen 2026-11): which
  models on which wire; cites that page
"""

from dataclasses import replace

from llmstream.dialects.openai_responses import DeliveryQuirks, OpenAIResponses, Quirks
from llmstream.providers.opencode import OPENCODE

OPENCODE_RESPONSES = replace(
    OPENCODE,
    name="opencode-responses",
    title="OpenCode Zen (Responses)",
    dialect=OpenAIResponses(Quirks(delivery=DeliveryQuirks(background=False))),
    aliases=("opencode-zen-responses",),
    notes="GPT at OpenCode Zen; key as for `opencode`",
)
