"""OpenCode Zen's GPT models, by Responses."""

from dataclasses import replace

from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.providers.opencode import OPENCODE

OPENCODE_RESPONSES = replace(
    OPENCODE,
    name="opencode-responses",
    title="OpenCode Zen (Responses)",
    dialect=OpenAIResponses(Quirks(background=False)),
    aliases=("opencode-zen-responses",),
    notes="GPT at OpenCode Zen; key as for `opencode`",
)
"""OpenCode Zen serves GPT on this wire alone."""
