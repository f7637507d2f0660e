"""Mistral's models behind the Responses wire."""

from dataclasses import replace

from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.providers.mistral import MISTRAL

MISTRAL_RESPONSES = replace(
    MISTRAL,
    name="mistral-responses",
    title="Mistral AI (Responses)",
    dialect=OpenAIResponses(
        Quirks(
            path="/v1/responses",
            encrypted="never",
            plain_reasoning=True,
            system_role="system",
            reasoning_model_rules=False,
            efforts={},
            provider_tools=False,
            background=False,
        )
    ),
    aliases=(),
    docs="https://docs.mistral.ai/studio/conversations/responses",
    notes="a public preview; reasoning is plain text, nothing is stored",
)
"""Mistral's newer wire, in preview."""
