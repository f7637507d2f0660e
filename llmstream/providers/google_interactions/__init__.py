"""Google's Gemini models by the Interactions API."""

from dataclasses import replace

from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.providers.google import GOOGLE

GOOGLE_INTERACTIONS = replace(
    GOOGLE,
    name="google-interactions",
    title="Google AI Studio (Interactions)",
    dialect=GeminiInteractions(),
    aliases=("gemini-interactions",),
    docs="https://ai.google.dev/gemini-api/docs/interactions",
    notes="the newer wire of the same models, with blocks and steps of its own",
)
"""The Interactions API, with a key of AI Studio."""
