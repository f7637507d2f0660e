"""OpenCode Zen's Claude models, by Anthropic's Messages."""

from dataclasses import replace

from llmstream.dialects.anthropic import Anthropic
from llmstream.providers.address_forms import without_version
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
"""OpenCode Zen serves Claude and some Qwen on this wire."""
