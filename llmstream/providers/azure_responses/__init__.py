"""OpenAI's Responses on Azure."""

from dataclasses import replace

from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.providers.azure import AZURE

AZURE_RESPONSES = replace(
    AZURE,
    name="azure-responses",
    title="Azure OpenAI (Responses)",
    dialect=OpenAIResponses(Quirks(steering=False)),
    aliases=(),
    wire=None,
    notes="MODEL is the deployment; only below `/openai/v1`, so leave `OPENAI_API_VERSION` unset",
)
"""A resource of one's own on Azure, spoken to in Responses."""
