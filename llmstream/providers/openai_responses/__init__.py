"""OpenAI's Responses."""

from dataclasses import replace

from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.providers.openai import OPENAI

OPENAI_RESPONSES = replace(
    OPENAI,
    name="openai-responses",
    title="OpenAI (Responses)",
    dialect=OpenAIResponses(),
    aliases=(),
    wire=None,
    docs="https://platform.openai.com/docs/api-reference/responses",
    notes="hosted tools, reasoning that goes back encrypted; nothing is stored at the vendor unless asked",
)
"""OpenAI's newer wire; the key and the address are those of `openai`."""
