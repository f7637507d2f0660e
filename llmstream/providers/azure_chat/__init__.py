"""Azure OpenAI's Chat Completions, for those who want this wire and no other."""

from dataclasses import replace

from llmstream.providers.azure import AZURE

AZURE_CHAT = replace(
    AZURE,
    name="azure-chat",
    title="Azure OpenAI (Chat Completions)",
    wire=None,
    aliases=(),
    notes="Chat Completions whatever the model; `azure` chooses the wire",
)
"""As `azure`, which asks Responses for what Chat Completions does not take."""
