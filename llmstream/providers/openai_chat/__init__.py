"""OpenAI's Chat Completions, for those who want this wire and no other."""

from dataclasses import replace

from llmstream.providers.openai import OPENAI

OPENAI_CHAT = replace(
    OPENAI,
    name="openai-chat",
    title="OpenAI (Chat Completions)",
    wire=None,
    aliases=(),
    notes="Chat Completions whatever the model; `openai` chooses the wire",
)
"""As `openai`, which asks Responses for what Chat Completions does not take."""
